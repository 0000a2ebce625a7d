"""A policy changes no bit: losses, gradients, parameters, optimizer state, buffers, random numbers, five steps."""

from functools import partial

import pytest
import torch
from blocks import NORMS, POLICIES, WIDTH, Block, Trunk, assert_same, batch_norm, train
from torch import nn

from hires.memory.checkpointing import apply_policies
from hires.memory.units import Unit, find_units


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS.keys())
def test_norms_dropout_and_stochastic_depth(norm, policy):
    torch.manual_seed(0)
    network = Trunk(norm)
    assert_same(train(network), train(network, policy))


@pytest.mark.parametrize("activation", [nn.GELU, nn.SiLU, nn.Hardswish, nn.Tanh, nn.ELU, nn.PReLU])
def test_activation_functions(activation):
    torch.manual_seed(0)
    network = Trunk(batch_norm(0.1), activation)
    expected = train(network)
    for policy in ("selective", "full"):
        assert_same(expected, train(network, policy))


def test_statistics_are_counted_once(trunk, policy):
    state = train(trunk, policy, steps=1).state
    assert all(int(value) == 1 for key, value in state.items() if key.endswith("num_batches_tracked"))


def test_accumulation(trunk, policy):
    assert_same(train(trunk, micro_batches=3), train(trunk, policy, micro_batches=3))


def test_bfloat16(trunk, policy):
    autocast = partial(torch.autocast, "cpu", torch.bfloat16)
    assert_same(train(trunk, autocast=autocast), train(trunk, policy, autocast=autocast))


def test_float16_with_a_scaler(trunk, policy):
    """The first scale overflows, so that a step is skipped too."""
    autocast = partial(torch.autocast, "cpu", torch.float16)
    outcomes = [
        train(
            trunk, p, autocast=autocast, scaler=torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=2)
        )
        for p in ("none", policy)
    ]
    assert_same(*outcomes)


class Exotic(nn.Module):
    """Several inputs and outputs, things that are no tensors, nothing, tuples, lists, dictionaries."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(WIDTH, WIDTH, 1), nn.BatchNorm2d(WIDTH)

    def forward(self, pair, *, scale, name, nothing=None, more):
        x, extra = pair
        y = torch.relu(self.norm(self.conv(x * scale + extra[0]))) + more["bias"]
        assert (name, nothing) == ("name", None)
        return {"maps": [y, (y.flatten(2), nothing)], "size": tuple(y.shape[-2:]), "x": x}


class Exotics(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.first, self.second = Exotic(), Exotic()

    def forward(self, x):
        x = self.conv(x)
        given = self.first((x, [x.mean()]), scale=2.0, name="name", more={"bias": x[:, :1]})
        again = self.second((given["maps"][0], [given["x"]]), scale=0.5, name="name", more={"bias": x.sum()})
        return [again["maps"][0], again["maps"][1], given["maps"][1], again["x"]]

    def stages(self):
        return {"stage1": ("conv", "first", "second")}


@pytest.mark.parametrize("policy", ["selective", "full", "full@stage"])
def test_any_arguments_and_results(policy):
    torch.manual_seed(0)
    network = Exotics()
    assert_same(train(network), train(network, policy))


class Shared(nn.Module):
    """A head that is called for every level of a pyramid, as those of detectors are."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, WIDTH, 3, padding=1), Block(batch_norm(0.1))

    def forward(self, x):
        x = self.conv(x)
        return [self.head(level) for level in (x, x[..., ::2, ::2], x[..., ::4, ::4])]

    def stages(self):
        return {"stem": ("conv",), "head": ("head",)}


def test_a_unit_called_several_times(policy):
    torch.manual_seed(0)
    network = Shared()
    said = policy if isinstance(policy, str) else {"head": "full"}
    assert_same(train(network), train(network, said))


def test_a_result_used_by_others_too(trunk):
    """Gradients of a tensor with several users add up in the same order."""

    class Skips(Trunk):
        def forward(self, x):
            features = [self.pool(self.act(self.norm(self.conv(x))))]
            for block in self.blocks:
                features.append(block(features[-1]))
            return [self.head(sum(features)), *features]

    torch.manual_seed(0)
    network = Skips(batch_norm(0.1))
    expected = train(network)
    for policy in POLICIES.values():
        assert_same(expected, train(network, policy))


def test_nested_units_run_once():
    """A unit within a unit: the outer one saves the memory, the inner one leaves it alone."""
    torch.manual_seed(0)
    network = Trunk(batch_norm(0.1))
    units = [Unit("outer", "outer", ("blocks.1",)), Unit("inner", "inner", ("blocks.1.conv1", "blocks.1.norm1"))]
    expected = train(network)
    for said in ("full", {"outer": "full", "inner": "selective"}, {"outer": "selective", "inner": "full"}):
        assert_same(expected, train(network, said, units=units))


def test_units_that_pass_no_gradient_on_are_left_alone(trunk):
    for module in (trunk.conv, trunk.norm, trunk.blocks[0]):
        module.requires_grad_(False)
    calls = []
    trunk.blocks[0].conv1.register_forward_hook(lambda *_: calls.append(0))
    trunk.blocks[1].conv1.register_forward_hook(lambda *_: calls.append(1))
    assert_same(train(trunk), train(trunk, "full"))
    calls.clear()
    train(trunk, "full", steps=1)
    assert (calls.count(0), calls.count(1)) == (1, 2)


def test_frozen_units_that_pass_gradients_on(trunk, policy):
    trunk.blocks[2].requires_grad_(False)
    assert_same(train(trunk), train(trunk, policy))


@pytest.mark.parametrize("activation", [nn.ReLU, nn.SiLU, nn.Hardswish, nn.ELU])
def test_a_backward_twice(activation, policy):
    """With retain_graph what was recomputed once is recomputed again."""
    torch.manual_seed(0)
    network = Trunk(batch_norm(0.1), lambda: activation(inplace=True))
    for block in network.blocks:
        block.drop.p = block.drop_path.drop_prob = 0.0
    apply_policies(network, find_units(network, network.stages()), policy)
    loss = (network(torch.randn(2, 3, 16, 16)) ** 2).mean()
    loss.backward(retain_graph=True)
    once = [p.grad.clone() for p in network.parameters()]
    loss.backward()
    assert all(torch.equal(p.grad, grad * 2) for p, grad in zip(network.parameters(), once, strict=True))


class Doubling(nn.Module):
    """Changes what a block returned, which autograd cannot see."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, WIDTH, 1), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 1))
        self.second = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 1), nn.ReLU())

    def forward(self, x):
        x = self.first(x)
        with torch.no_grad():
            x.mul_(2)
        return self.second(x)


def test_a_result_changed_without_gradients_is_not_made_again():
    torch.manual_seed(0)
    units = [Unit("stage1.0", "stage1", ("first",)), Unit("stage1.1", "stage1", ("second",))]
    network = Doubling()
    assert_same(train(network, units=units), train(network, "full@stage", units=units))


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x):
        return torch.fft.fft2(self.conv(x)).exp()


class Fourier(Trunk):
    """Views between two units that read the numbers in another way."""

    def __init__(self):
        super().__init__(batch_norm(0.1))
        self.blocks = nn.ModuleList([Complex(), Complex()])

    def forward(self, x):
        y = self.blocks[0](self.conv(x) * 0.1)
        return self.head(self.blocks[1](y.real * 1e-3 + y.conj().imag * 1e-3).abs())


def test_views_of_complex_numbers():
    torch.manual_seed(0)
    network = Fourier()
    for policy in ("selective", "full", "full@stage"):
        assert_same(train(network), train(network, policy))
