"""A simulated step on the CPU has the memory of the real one: byte for byte, at every moment."""

from collections.abc import Callable
from functools import partial
from itertools import cycle

import pytest
import timm.optim
import torch
from nets import NETS, WIDTH, BatchNormAndDropout, Net, conv
from steps import adamw, assert_same_memory, bfloat16, births, measured, momentum, sgd, simulated, stepping
from test_tasks import TASKS, make_task, samples_of
from torch import nn

from hires.engine.step import train_step
from hires.memory import offload, simulate_backward
from hires.memory.checkpointing import apply_policies
from hires.memory.events import allocator_peak
from hires.memory.simulate import Simulation, simulate
from hires.memory.simulate_offload import SimulatedOffload
from hires.memory.timeline import PARAMETERS
from hires.memory.units import Unit, find_units

CPU = torch.device("cpu")
DEPENDS_ON_NUMBERS = {"fcos", "faster_rcnn", "mask_rcnn"}  # the shapes of small tensors of these
OPTIMIZERS: dict[str, Callable] = {
    "adamw": partial(torch.optim.AdamW, foreach=False),
    "adamw, foreach": partial(torch.optim.AdamW, foreach=True),
    "adamw, fused": partial(torch.optim.AdamW, fused=True),
    "sgd": torch.optim.SGD,
    "sgd, momentum": partial(torch.optim.SGD, momentum=0.9, nesterov=True, weight_decay=1e-4),
    "lion": timm.optim.Lion,
}


@pytest.fixture
def out_of_place(monkeypatch):
    """While a dispatch mode is active, as the one that measures is, autograd's engine adds out of place."""
    monkeypatch.setattr(simulate_backward, "_is_only", lambda tensor: False)


def task_step(autocast, task, optimizer):
    more = {"autocast": autocast} if autocast else {}
    train_step(task, samples_of(task, 2), optimizer, micro_batch_size=2, **more)


def assert_task_is_exact(name, policy, autocast=None):
    task = make_task(name)
    apply_policies(task, find_units(task, task.stages()), policy)
    step = partial(task_step, autocast)
    profile, meter = simulated(task, step, momentum), measured(task, step, momentum)
    assert profile.live == meter.peak
    if name not in DEPENDS_ON_NUMBERS:
        assert births(profile.timeline) == meter.made


@pytest.mark.usefixtures("out_of_place")
@pytest.mark.parametrize(
    ("name", "policy"),
    [
        pytest.param(name, policy, marks=[] if policy == quick else pytest.mark.slow)
        for name, quick in zip(TASKS, cycle(("none", "full")), strict=False)
        for policy in ("none", "full")
    ],
)
def test_tasks(name, policy):
    assert_task_is_exact(name, policy)


@pytest.mark.usefixtures("out_of_place")
@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("fpn", "selective"),
        ("fcos", "full@2"),
        pytest.param("fpn", "full@2", marks=pytest.mark.slow),
        pytest.param("fcos", "selective", marks=pytest.mark.slow),
    ],
)
def test_other_policies(name, policy):
    assert_task_is_exact(name, policy)


@pytest.mark.usefixtures("out_of_place")
@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("fpn", "full"),
        ("fcos", "none"),
        pytest.param("fpn", "none", marks=pytest.mark.slow),
        pytest.param("fcos", "full", marks=pytest.mark.slow),
    ],
)
def test_tasks_in_bfloat16(name, policy):
    assert_task_is_exact(name, policy, bfloat16)


@pytest.mark.usefixtures("out_of_place")
@pytest.mark.parametrize("autocast", [None, bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("make", NETS.values(), ids=NETS.keys())
def test_networks(make, autocast):
    assert_same_memory(make(), stepping(autocast), momentum)


@pytest.mark.usefixtures("out_of_place")
@pytest.mark.parametrize("clip", [None, 1.0], ids=["", "clipped"])
@pytest.mark.parametrize("make_optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_optimizers(make_optimizer, clip):
    assert_same_memory(BatchNormAndDropout(), stepping(clip=clip), partial(make_optimizer, lr=1e-3))


@pytest.mark.usefixtures("out_of_place")
@pytest.mark.parametrize("name", ["shared weights", "torch's checkpoint", "frozen part", "residual"])
def test_gradients_of_two_micro_batches(name):
    assert_same_memory(NETS[name](), stepping(micro_batches=2), adamw)


def kept_graph(net, optimizer):
    x = net.layers[0](net.image()).tanh()
    y = net.layers[1](x).sigmoid()
    one, two = y.square().mean(), y.mean() * x.mean()
    one.backward(retain_graph=True)
    two.backward()
    del x, y, one, two
    optimizer.step()


def several_roots(net, optimizer):
    x = net.layers[0](net.image()).tanh()
    y = net.layers[1](x).sigmoid()
    torch.autograd.backward([y, x.mean()], [torch.ones_like(y), None])
    del x, y
    optimizer.step()


def gradient_penalty(net, optimizer):
    image = net.image().requires_grad_()
    x = net.layers(image).tanh()
    (gradient,) = torch.autograd.grad(x.sum(), image, create_graph=True)
    (x.mean() + gradient.square().mean()).backward()
    del image, x, gradient
    optimizer.step()


def zeroed_first(net, optimizer):
    optimizer.zero_grad()
    net().backward()
    optimizer.step()


def without_backward(net, optimizer):
    with torch.no_grad():
        net()
    unused = net()
    del unused
    net().backward()
    optimizer.step()


@pytest.mark.usefixtures("out_of_place")
@pytest.mark.parametrize("step", [kept_graph, several_roots, gradient_penalty, zeroed_first, without_backward])
def test_steps(step):
    assert_same_memory(Net(conv(3), conv(WIDTH)), step, sgd)


@pytest.mark.usefixtures("out_of_place")
def test_a_number_asked_for_after_the_backward():
    """The step is then simulated a second time, from the same beginning."""

    def step(net, optimizer):
        loss = net()
        loss.backward()
        float(loss)
        del loss
        optimizer.step()

    assert_same_memory(Net(conv(3), conv(WIDTH)), step, adamw)


@pytest.mark.usefixtures("out_of_place")
def test_offload(tmp_path, monkeypatch):
    monkeypatch.setattr(offload, "SMALLEST", 2**12)

    def given(place):
        net = BatchNormAndDropout()
        apply_policies(net, [Unit("all", "all", ("layers",))], "offload", offload=place)
        return net

    profile = simulated(given(SimulatedOffload(CPU)), stepping(), sgd)
    meter = measured(given(offload.DiskOffload(tmp_path)), stepping(), sgd)
    assert profile.live == meter.peak
    assert profile.live < simulated(BatchNormAndDropout(), stepping(), sgd).live


class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x > 0

    @staticmethod
    def backward(ctx, gradient, _):
        return gradient * 2


def hooked(net, optimizer):
    x = net.layers(net.image())
    x.register_hook(lambda gradient: gradient * 2)
    x.mean().backward()


def masked(net, optimizer):
    x, _ = Masked.apply(net.layers(net.image()))
    x.mean().backward()


def recurrent(net, optimizer):
    net.lstm(torch.randn(2, 5, 8))[0].mean().backward()


@pytest.mark.usefixtures("out_of_place")
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(hooked, marks=pytest.mark.xfail(reason="hooks of tensors are not called", strict=True)),
        pytest.param(
            masked,
            marks=pytest.mark.xfail(reason="zeros for a result that has no gradient are a number", strict=True),
        ),
        pytest.param(
            recurrent,
            marks=pytest.mark.xfail(reason="fake tensors know nothing of oneDNN's workspace", strict=True),
        ),
    ],
)
def test_what_is_not_followed(step):
    net = Net(conv(3))
    net.lstm = nn.LSTM(8, 8, batch_first=True)
    assert_same_memory(net, step, sgd)


class Pointwise(nn.Module):
    """Residual blocks whose results are all kept: the most is there when gradients are added, in that layout."""

    def __init__(self, layout):
        super().__init__()
        self.layout = layout
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self):
        x = torch.randn(2, WIDTH, 32, 32).contiguous(memory_format=self.layout) * self.weight
        kept = [x]
        for _ in range(2):
            x = torch.tanh(kept[-1])
            kept += [x, kept[-1] + x]
        return kept


def pointwise_step(net, optimizer=None):
    kept = net()
    (kept[-1] * kept[0].detach()).sum().backward()
    del kept
    net.weight.grad = None


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_gradients_are_added_in_place(layout, monkeypatch):
    net = Pointwise(layout)
    pointwise_step(net)
    allocated = allocator_peak(partial(pointwise_step, net))
    peak = simulate(pointwise_step, net).timeline.peak(without=[PARAMETERS])[0]
    assert peak == pytest.approx(allocated, abs=256)
    monkeypatch.setattr(simulate_backward, "_is_only", lambda tensor: False)
    more = simulate(pointwise_step, net).timeline.peak(without=[PARAMETERS])[0] - peak
    assert more == pytest.approx(2 * WIDTH * 32 * 32 * 4, abs=256)


def test_results_of_comparisons_lie_as_they_really_do() -> None:
    simulation = Simulation(nn.Linear(1, 1))
    parts: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x,
        lambda x: x.narrow(1, 1, 2),
        lambda x: x.narrow(1, 2, 2),
        lambda x: x.transpose(0, 2),
        lambda x: x[:, :, ::2],
        lambda x: x[:1].expand(3, -1, -1),
    ]
    for part in parts:
        for number in (3, 2.5):
            real = part(torch.zeros(2, 4, 6, dtype=torch.uint8)) == number
            with simulation.active():
                fake = part(torch.zeros(2, 4, 6, dtype=torch.uint8)) == number
                storage = fake.untyped_storage().nbytes()
            assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)
            assert (fake.storage_offset(), storage) == (0, real.untyped_storage().nbytes())
