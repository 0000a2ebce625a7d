"""A simulated step on the CPU has the memory of the real one: byte for byte, at every moment."""

import copy
import sys
from collections.abc import Callable
from functools import partial

import pytest
import timm.optim
import torch
from nets import NETS, WIDTH, BatchNormAndDropout, Net, Residual, conv
from test_tasks import TASKS, make_task, samples_of
from torch import nn

from hires.engine.step import train_step
from hires.memory import offload, simulate_backward
from hires.memory.checkpointing import apply_policies
from hires.memory.events import allocator_peak
from hires.memory.meter import LivePeak, tensors_of
from hires.memory.simulate import Simulation, simulate
from hires.memory.simulate_offload import SimulatedOffload
from hires.memory.simulate_values import SimulationError
from hires.memory.timeline import ACTIVATIONS, PARAMETERS, STATE
from hires.memory.units import Unit, find_units

CPU = torch.device("cpu")
DEPENDS_ON_NUMBERS = {"fcos", "faster_rcnn", "mask_rcnn"}  # the shapes of small tensors of these
bfloat16 = partial(torch.autocast, "cpu", torch.bfloat16)
OPTIMIZERS: dict[str, Callable] = {
    "adamw": partial(torch.optim.AdamW, foreach=False),
    "adamw, foreach": partial(torch.optim.AdamW, foreach=True),
    "adamw, fused": partial(torch.optim.AdamW, fused=True),
    "sgd": torch.optim.SGD,
    "sgd, momentum": partial(torch.optim.SGD, momentum=0.9, nesterov=True, weight_decay=1e-4),
    "lion": timm.optim.Lion,
}


class Births(LivePeak):
    """Also notes every new storage: its bytes, and all bytes then."""

    def __init__(self, before):
        self.made = []
        super().__init__(before)
        self.made = []

    def born(self, key, size):
        if size:
            self.made.append((size, self.live))


def births(timeline):
    live = timeline.live()
    new = timeline.blocks[len([block for block in timeline.blocks if block.born < timeline.start]) :]
    return [(block.size, live[block.born]) for block in new if block.size]


def measured(module, step, make_optimizer=None):
    """The meter of a real step with the state of the optimizer there."""
    optimizer = make_optimizer and make_optimizer(module.parameters())
    if optimizer:
        for parameter in module.parameters():
            parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
        optimizer.step()
        optimizer.zero_grad()
    states = optimizer.state.values() if optimizer else ()
    state = [value for values in states for value in values.values() if isinstance(value, torch.Tensor)]
    torch.manual_seed(0)
    with Births([*tensors_of(module), *state]) as meter:
        step(module, optimizer)
    return meter


def simulated(module, step, make_optimizer=None, **more):
    optimizer = make_optimizer and (lambda copied: make_optimizer(copied.parameters()))
    return simulate(step, module, optimizer=optimizer, **more)


def assert_same_memory(module, step, make_optimizer=None):
    profile, meter = simulated(module, step, make_optimizer), measured(module, step, make_optimizer)
    assert profile.live == meter.peak
    assert births(profile.timeline) == meter.made


def stepping(autocast=None, micro_batches=1, clip=None):
    """A step of a net that returns a loss."""

    def step(net, optimizer):
        for _ in range(micro_batches):
            if autocast is None:
                net().backward()
            else:
                with autocast():
                    loss = net()
                loss.backward()
                del loss
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()

    return step


adamw, sgd = (partial(kind, lr=1e-3) for kind in (torch.optim.AdamW, torch.optim.SGD))
momentum = partial(sgd, momentum=0.9)


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
@pytest.mark.parametrize("policy", ["none", "full"])
@pytest.mark.parametrize("name", TASKS)
def test_tasks(name, policy):
    assert_task_is_exact(name, policy)


@pytest.mark.usefixtures("out_of_place")
@pytest.mark.parametrize("policy", ["selective", "full@2"])
@pytest.mark.parametrize("name", ["fpn", "fcos"])
def test_other_policies(name, policy):
    assert_task_is_exact(name, policy)


@pytest.mark.usefixtures("out_of_place")
@pytest.mark.parametrize("policy", ["none", "full"])
@pytest.mark.parametrize("name", ["fpn", "fcos"])
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


@pytest.mark.parametrize("more", [{"create_graph": True}, {"inputs": []}])
def test_a_backward_that_cannot_be_followed(more):
    net = Net(conv(3))
    with pytest.raises(SimulationError, match="create_graph or inputs"):
        simulate(lambda net, _: net().backward(**more), net)


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


def test_the_module_stays_as_it_is():
    net = BatchNormAndDropout()
    net.tables = [torch.ones(3)]
    net().backward()
    before, random = copy.deepcopy(net), torch.get_rng_state()
    gradients = [parameter.grad.clone() for parameter in net.parameters()]
    simulated(net, stepping(), adamw)
    assert torch.equal(random, torch.get_rng_state())
    assert net.state_dict().keys() == before.state_dict().keys()
    for (name, one), (_, other) in zip(net.named_parameters(), before.named_parameters(), strict=True):
        assert torch.equal(one, other), name
    assert all(torch.equal(p.grad, before) for p, before in zip(net.parameters(), gradients, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(net.buffers(), before.buffers(), strict=True))
    pairs = zip(net.modules(), before.modules(), strict=True)
    assert all(module.__dict__.keys() == twin.__dict__.keys() for module, twin in pairs)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())
    assert type(net.tables[0]) is torch.Tensor


def test_a_module_without_memory():
    with torch.device("meta"):
        there_is_none = BatchNormAndDropout()
    one, other = (simulated(net, stepping(), adamw) for net in (there_is_none, BatchNormAndDropout()))
    assert births(one.timeline) == births(other.timeline)
    assert (one.live, one.categories) == (other.live, other.categories)


def test_takes_no_memory():
    """Not even where a step needs more than there is."""

    def step(net, _):
        net.layers(torch.randn(2**20, 2**12)).mean().backward()

    profile = simulate(step, Net(nn.Linear(2**12, 2**12)))
    assert profile.live > 2**34


def test_tensors_of_a_module_that_are_no_parameters():
    class Tabled(Net):
        def __init__(self):
            super().__init__(conv(3))
            self.mask = torch.tensor([True, False] * 4)

        def result(self, image):
            return self.layers(image)[:, self.mask]

    profile = simulate(lambda net, _: net().backward(), Tabled())
    assert 2 * 4 * 16 * 16 * 4 in [size for size, _ in births(profile.timeline)]


def test_the_same_twice():
    simulation = Simulation(BatchNormAndDropout())
    optimizer = simulation.optimizer(lambda net: adamw(net.parameters()))
    step = partial(stepping(), simulation.module, optimizer)
    first, second = (simulation.profile(step, optimizer=optimizer) for _ in range(2))
    assert births(first.timeline) == births(second.timeline)


def test_nothing_stays_patched():
    backward, random = torch.autograd.backward, torch.initial_seed()

    def fails(net, _):
        net()
        raise KeyError

    with pytest.raises(KeyError):
        simulate(fails, Net(conv(3)))
    assert torch.autograd.backward is backward
    assert torch.initial_seed() == random
    net = Residual()
    net().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


UNITS = [Unit("stage1.0", "stage1", ("layers.0",)), Unit("stage1.1", "stage1", ("layers.1",))]


def two_units(width):
    """The second makes tensors of `width` channels."""
    block = nn.Sequential(conv(WIDTH, width), nn.ReLU(), conv(width, WIDTH), nn.BatchNorm2d(WIDTH))
    return Net(nn.Sequential(conv(3), nn.ReLU(), conv(WIDTH), nn.ReLU()), block)


def profiles_of(net):
    found = {}
    for policy in ("none", "full"):
        simulation = Simulation(net, "cpu", UNITS)
        apply_policies(simulation.module, UNITS, policy)
        optimizer = simulation.optimizer(lambda module: adamw(module.parameters()))
        step = partial(stepping(), simulation.module, optimizer)
        found[policy] = simulation.profile(step, optimizer=optimizer)
    return found


def test_what_units_keep_and_compute_again():
    found = profiles_of(two_units(WIDTH))
    none, full = found["none"], found["full"]
    image = 2 * WIDTH * 16 * 16 * 4
    assert not none.recomputed()
    for unit in UNITS:
        assert full.kept().get(unit.name, 0) < image + 256 < none.kept()[unit.name]  # 256: buffers before the call
        work = none.timeline.work
        whole = sum(each.time for each in work.values())
        forward = sum(each.time for place, each in work.items() if place == ("forward", unit.name))
        assert full.recomputed()[unit.name] == pytest.approx(forward / whole, rel=0.1)
    assert full.live < none.live


def test_the_peak_and_what_it_is_made_of():
    net = two_units(40 * WIDTH)
    profile = profiles_of(net)["none"]
    assert profile.peak_at.unit == "stage1.1"
    assert sum(profile.categories.values()) == profile.live == profile.allocated
    parameters = sum(tensor.numel() * tensor.element_size() for tensor in (*net.parameters(), *net.buffers()))
    assert profile.categories[PARAMETERS] == parameters
    sizes = [parameter.numel() for parameter in net.parameters()]
    assert profile.categories[STATE] == 4 * (2 * sum(sizes) + len(sizes))  # two averages and the number of steps
    assert profile.categories[ACTIVATIONS] > 2 * 40 * WIDTH * 16 * 16 * 4


def test_private_parts_of_torch_are_where_they_were():
    """A release of torch that moves them is to fail here first."""
    node = torch.ones(1, requires_grad=True).mul(2).grad_fn
    assert torch.autograd._get_sequence_nr() == node._sequence_nr() + 1
    (metadata,) = node._input_metadata
    assert (tuple(metadata.shape), metadata.dtype, metadata.device) == ((1,), torch.float32, CPU)
    storage = torch.ones(1).untyped_storage()
    assert torch._C._storage_Use_Count(storage._cdata) == 1
    assert callable(torch._C._current_graph_task_id)
    assert callable(torch.autograd.function.FunctionCtx.set_materialize_grads)
    assert {"__init__", "__exit__"} <= vars(torch.autograd.graph.saved_tensors_hooks).keys()
    assert isinstance(torch.ops.aten.is_non_overlapping_and_dense(torch.ones(2, 2)), bool)


def test_two_graphs_made_in_turns_are_refused():
    """Of saved tensors it is known by their numbers whose they are: those of two graphs in turns are mixed up."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.p, self.q = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

    def step(net, _):
        a, b = net.p.exp(), net.q.exp()
        a, b = a.exp(), b.exp()
        first, second = a.sum(), b.sum()
        first.backward()
        second.backward()

    with pytest.raises(SimulationError, match="made in turns"):
        simulate(step, Two())


def test_a_backward_of_nothing_is_refused():
    with pytest.raises(SimulationError, match="nothing trainable"):
        simulate(lambda net, _: torch.ones(3).sum().backward(), nn.Linear(2, 2))


def test_no_hook_stays_when_a_unit_does_not_exist():
    before = len(optimizer_hooks())
    with pytest.raises(AttributeError):
        simulate(lambda net, _: None, nn.Linear(2, 2), units=[Unit("stage1", "stage1", ("nothing",))])
    assert len(optimizer_hooks()) == before


def optimizer_hooks():
    return sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks


def test_a_timeline_ends_with_its_step():
    net = nn.Linear(4, 4)
    profile = simulate(lambda net, _: net(torch.ones(2, 4)).sum().backward(), net)
    assert profile.timeline.live()[-1] >= 4 * (16 + 4)


def test_a_meta_tensor_takes_nothing():
    with LivePeak() as meter:
        torch.empty(10**6, device="meta")
        torch.empty(8)
    assert meter.peak == 32


def test_a_step_is_the_same_each_time():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.register_buffer("count", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            self.count.add_(1)
            return self.weight.repeat(int(self.count)) * x.repeat(int(self.count))

    simulation = Simulation(Counting())

    def step():
        simulation.module(torch.ones(4)).sum().backward()
        simulation.module.weight.grad = None

    peaks = [simulation.profile(step).live for _ in range(3)]
    assert len(set(peaks)) == 1
