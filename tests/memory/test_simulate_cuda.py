"""A simulated step on a CUDA device that is not there: it runs, and has the types and kernels of CUDA."""

from contextlib import nullcontext
from functools import partial

import pytest
import torch
from nets import NETS, WIDTH, BatchNormAndDropout, Net, conv
from test_tasks import make_task, samples_of
from torch import nn
from torch.nn import functional

from hires.engine.fabric import Place
from hires.engine.step import train_step
from hires.memory import simulate as simulating
from hires.memory.checkpointing import apply_policies
from hires.memory.simulate import Simulation, simulate
from hires.memory.simulate_offload import SimulatedOffload
from hires.memory.simulate_values import SimulationError
from hires.memory.units import Unit, find_units

CUDA = torch.device("cuda")
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
POLICIES = ("none", "selective", "full", "offload")
WHOLE = [Unit("all", "all", ("layers",))]


@pytest.fixture(params=PRECISIONS.values(), ids=PRECISIONS.keys())
def precision(request):
    return request.param


def autocast(precision):
    return torch.autocast("cuda", precision) if precision else nullcontext()


def step(precision, net, optimizer=None):
    with autocast(precision):
        loss = net()
    loss.backward()
    del loss
    if optimizer:
        optimizer.step()
        optimizer.zero_grad()


def on_cuda(net, precision=None, policy="none"):
    apply_policies(net, WHOLE, policy, offload=SimulatedOffload(CUDA))
    return simulate(partial(step, precision), net, device="cuda", units=WHOLE)


def assert_in_order(profile):
    assert profile.device == "cuda"
    assert profile.allocated % 512 == 0
    assert profile.live <= profile.allocated <= profile.cached < profile.reserved


@pytest.mark.parametrize("make", NETS.values(), ids=NETS.keys())
def test_networks(make, precision):
    def adamw(net):
        return torch.optim.AdamW(net.parameters())

    assert_in_order(simulate(partial(step, precision), make(), optimizer=adamw, device="cuda"))


def task_profile(name, precision, policy):
    task = make_task(name)
    units = find_units(task, task.stages())
    simulation = Simulation(task, "cuda", units)
    apply_policies(simulation.module, units, policy, offload=SimulatedOffload(CUDA))
    optimizer = simulation.optimizer(lambda module: torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9))
    with simulation.active():
        samples = samples_of(simulation.module, 2)
    run = partial(
        train_step,
        simulation.module,
        samples,
        optimizer,
        micro_batch_size=2,
        place=Place(CUDA, channels_last=False),
        autocast=partial(autocast, precision),
    )
    return simulation.profile(run, optimizer=optimizer)


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("fpn", "float32"),
        ("retinanet", "float16"),
        *(pytest.param("fpn", other, marks=pytest.mark.slow) for other in ("bfloat16", "float16")),
    ],
)
def test_tasks(name, precision):
    found = {policy: task_profile(name, PRECISIONS[precision], policy) for policy in POLICIES}
    for profile in found.values():
        assert_in_order(profile)
    kept = {policy: sum(profile.kept().values()) for policy, profile in found.items()}
    assert kept["full"] < kept["selective"] < kept["none"]


def test_a_two_stage_detector_with_masks():
    assert_in_order(task_profile("mask_rcnn", torch.bfloat16, "full"))


def large():
    layers = [conv(WIDTH) for _ in range(6)]
    net = Net(conv(3), *layers)
    net.image = lambda: torch.randn(2, 3, 256, 256, device="cuda")  # 4 MiB a map
    return net


def test_offload_keeps_little_on_the_device():
    none, offload = (on_cuda(large(), policy=policy) for policy in ("none", "offload"))
    maps = 4 * 2**20
    assert sum(none.kept().values()) > 7 * maps
    leaving = 3 * maps
    assert sum(offload.kept().values()) < leaving + 2 * maps
    assert offload.live < none.live


def sizes(profile, at_least=0):
    """Bytes of what is made in the forward, in order."""
    blocks = profile.timeline.blocks
    return [b.size for b in blocks if b.place.phase == "forward" and b.category is None and b.size >= at_least]


def test_autocast_applies():
    net = Net(conv(3), conv(WIDTH))
    output = 2 * WIDTH * 16 * 16
    assert sizes(on_cuda(net), 2 * output).count(4 * output) == 3  # both convolutions, and the squares
    half = sizes(on_cuda(net, torch.bfloat16), 2 * output)
    assert half.count(2 * output) == 2
    assert half == sizes(on_cuda(net, torch.float16), 2 * output)


def norm_types(device):
    """Bytes a number of what convolution and layer norm give under bfloat16 autocast."""
    found = []

    class Watched(Net):
        def result(self, image):
            x = self.layers[0](image)
            y = self.layers[1](x)
            found.extend([x.dtype, y.dtype, functional.softmax(y, 1).dtype])
            return y

    def watched_step(net, _):
        with torch.autocast(device, torch.bfloat16):
            loss = net()
        loss.backward()

    simulate(watched_step, Watched(conv(3), nn.LayerNorm(16)), device=device)
    return found


def test_the_lists_of_autocast_are_those_of_the_device():
    half, single = torch.bfloat16, torch.float32
    assert norm_types("cuda") == [half, single, single]
    assert norm_types("cpu") == [half, half, half]


def test_dropout_keeps_a_mask_of_one_byte():
    net = Net(conv(3), nn.Dropout(0.5))
    output = 2 * WIDTH * 16 * 16
    assert sizes(on_cuda(net), output)[1:4] == [4 * output, 4 * output, output]
    on_cpu = simulate(partial(step, None), net)
    assert output not in sizes(on_cpu)


class Attention(Net):
    """Heads of a width, with a mask or without."""

    def __init__(self, width, mask=False):
        super().__init__(nn.Linear(width, width))
        self.width, self.mask = width, mask

    def image(self):
        return torch.randn(2, 1, 300, self.width, device="cuda")

    def result(self, image):
        mask = torch.ones(300, 300, dtype=torch.bool, device="cuda") if self.mask else None
        x = self.layers(image)
        return functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)


PAIRS = 2 * 300 * 300 * 2  # least bytes of a matrix of all pairs of tokens


@pytest.mark.parametrize("width", [64, 20, 12])
def test_attention_keeps_no_matrix_of_pairs(width, precision):
    profile = on_cuda(Attention(width), precision)
    assert max(block.size for block in profile.timeline.blocks) < PAIRS


def test_attention_with_a_mask():
    profile = on_cuda(Attention(64, mask=True), torch.bfloat16)
    mask = [block.size for block in profile.timeline.blocks if block.size >= 300 * 300 * 2]
    # the mask as a number of each type, and with rows of 304: nothing of two samples
    assert max(mask) < 2 * PAIRS
    assert 300 * 304 * 2 in mask
    assert not any(block.size >= PAIRS for block in profile.timeline.blocks if block.place.phase == "backward")


def test_attention_of_an_odd_width_in_float32_takes_the_plain_formula():
    profile = on_cuda(Attention(6))
    assert max(block.size for block in profile.timeline.blocks) >= 2 * PAIRS


def dropping_step(net, _):
    generator = torch.Generator("cuda").manual_seed(1)
    (net() + torch.rand((), device="cuda", generator=generator)).backward()


CASES = {
    "amp_definitely_not_available": lambda: on_cuda(BatchNormAndDropout(), torch.bfloat16),
    "is_bf16_supported": lambda: on_cuda(BatchNormAndDropout(), torch.bfloat16),
    "Generator": lambda: simulate(dropping_step, Net(conv(3)), device="cuda"),
    "get_rng_state": lambda: on_cuda(BatchNormAndDropout(), policy="full"),
    "set_rng_state": lambda: on_cuda(BatchNormAndDropout(), policy="full"),
    "scaled_dot_product_attention": lambda: on_cuda(Attention(64)),
}


def outcome(run):
    """What a simulation gives, and what it asks of CUDA for later."""
    waiting = len(torch.cuda._queued_calls)
    try:
        return run().live, len(torch.cuda._queued_calls) - waiting
    except (RuntimeError, AssertionError, SimulationError) as error:
        return type(error)


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a machine with CUDA less has to be patched")
@pytest.mark.parametrize("name", CASES)
def test_every_patch_is_needed(name, monkeypatch):
    with_it = outcome(CASES[name])
    assert isinstance(with_it, tuple)
    assert with_it[1] == 0
    all_of_them = simulating.patches
    monkeypatch.setattr(
        simulating, "patches", lambda device: [each for each in all_of_them(device) if each[1] != name]
    )
    assert outcome(CASES[name]) != with_it


def test_all_patches_have_such_a_test():
    """And replace what is there; the CPU needs none."""
    patches = simulating.patches(CUDA)
    assert {name for _, name, _ in patches} == CASES.keys()
    assert all(hasattr(target, name) for target, name, _ in patches)
    assert simulating.patches(torch.device("cpu")) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is there")
def test_afterwards_there_is_no_cuda():
    on_cuda(BatchNormAndDropout(), torch.bfloat16, "full")
    assert not torch.cuda.is_initialized()
    assert not torch.cuda.is_available()
    with pytest.raises((RuntimeError, AssertionError)):
        torch.ones(1, device="cuda")


def test_the_optimizer_works_on_all_tensors_at_once():
    """What torch chooses on CUDA by itself; it takes more memory than one tensor after the other."""

    def peak(**more):
        def make(net):
            return torch.optim.AdamW(net.parameters(), **more)

        net = Net(*(nn.Linear(256, 256) for _ in range(8)))
        net.image = lambda: torch.randn(1, 256, device="cuda")
        return simulate(partial(step, None), net, optimizer=make, device="cuda").allocated

    assert peak() == peak(foreach=True) > peak(foreach=False)
    assert peak(fused=True) < peak()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("kernel", "groups"), [(1, 1), (3, 1), (3, 8)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_convolutions_keep_the_layout_of_image_and_weights(dtype, kernel, groups, layout):
    """As cuDNN does, whether this build has it or not; weights of 1x1 convolutions are contiguous in both."""
    convolution = nn.Conv2d(8, 16, kernel, groups=groups).to(memory_format=layout)
    simulation = Simulation(convolution, "cuda")
    with simulation.active(), torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        images = torch.empty(2, 8, 10, 12, device="cuda").contiguous(memory_format=layout)
        result = simulation.module(images)
    assert result.is_contiguous(memory_format=layout)
    assert result.is_contiguous() == (layout == torch.contiguous_format)
