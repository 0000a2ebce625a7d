"""Small networks of every kind of layer that recomputing can get wrong, and five steps of training."""

import copy
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from timm.layers import BatchNormAct2d, DropPath, LayerNorm2d
from torch import Tensor, nn

from hires.memory.checkpointing import apply_policies
from hires.memory.units import Unit, find_units

WIDTH = 8


class Block(nn.Module):
    """A residual block with a norm, an activation function in place or not, dropout and stochastic depth."""

    def __init__(self, norm: Callable[[int], nn.Module], activation: nn.Module | None = None):
        super().__init__()
        self.conv1 = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.norm1 = norm(WIDTH)
        self.act1 = nn.ReLU(inplace=True) if activation is None else activation
        self.drop = nn.Dropout(0.2)
        self.conv2 = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.norm2 = norm(WIDTH)
        self.drop_path = DropPath(0.3)
        self.act2 = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(self.drop(self.act1(self.norm1(self.conv1(x))))))
        return self.act2(x + self.drop_path(y))


class Trunk(nn.Module):
    """A stem of separate layers, four blocks in a list, a head; (B, 3, H, W) to (B, 2, H, W)."""

    def __init__(self, norm: Callable[[int], nn.Module], activation: Callable[[], nn.Module] | None = None):
        super().__init__()
        self.conv = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.norm = norm(WIDTH)
        self.act = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(2)
        self.blocks = nn.ModuleList(Block(norm, activation and activation()) for _ in range(4))
        self.head = nn.Conv2d(WIDTH, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.act(self.norm(self.conv(x))))
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def stages(self) -> dict[str, tuple[str, ...]]:
        return {"stem": ("conv", "norm", "act", "pool"), "stage1": ("blocks",), "head": ("head",)}


def batch_norm(momentum: float | None) -> Callable[[int], nn.Module]:
    return partial(nn.BatchNorm2d, momentum=momentum)


def group_norm(width: int) -> nn.Module:
    return nn.GroupNorm(2, width)


def instance_norm(width: int) -> nn.Module:
    return nn.InstanceNorm2d(width, affine=True, track_running_stats=True)


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": batch_norm(0.1),
    "batch, cumulative": batch_norm(None),
    "batch with activation": partial(BatchNormAct2d, act_layer="silu"),
    "group": group_norm,
    "layer": LayerNorm2d,
    "instance": instance_norm,
}
POLICIES: dict[str, Any] = {
    "selective": "selective",
    "full": "full",
    "full@2": "full@2",
    "full@stage": "full@stage",
    "mixed": {"stem": "full", "stage1.0": "selective", "stage1.1-2": "full@2"},
}


class Outcome(NamedTuple):
    """What must not depend on a policy."""

    losses: list[Tensor]
    gradients: dict[str, Tensor | None]
    state: dict[str, Tensor]
    buffers: dict[str, Tensor]
    optimizer: dict[int, dict[str, Any]]
    random: Tensor


def train(
    network: nn.Module,
    policy: Any = "none",
    *,
    units: list[Unit] | None = None,
    steps: int = 5,
    micro_batches: int = 1,
    inputs: Callable[[], Any] | None = None,
    autocast: Callable[[], Any] = nullcontext,
    scaler: Any = None,
    wrap: Callable[[nn.Module], nn.Module] = lambda module: module,
) -> Outcome:
    """Trains a copy of a network under a policy; the same seed every time."""
    network = copy.deepcopy(network)
    units = units or find_units(network, network.stages())
    apply_policies(network, units, policy)
    called = wrap(network)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    torch.manual_seed(5)
    losses: list[Tensor] = []
    gradients: dict[str, Tensor | None] = {}
    for _ in range(steps):
        for _ in range(micro_batches):
            given = inputs() if inputs else (torch.randn(3, 3, 16, 16),)
            with autocast():
                loss = total(called(*given)) / micro_batches
            (scaler.scale(loss) if scaler else loss).backward()
            losses.append(loss.detach())
        gradients = {n: None if p.grad is None else p.grad.clone() for n, p in network.named_parameters()}
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad()
    state = {key: value.clone() for key, value in network.state_dict().items()}
    buffers = {key: value.clone() for key, value in network.named_buffers()}
    return Outcome(losses, gradients, state, buffers, optimizer.state_dict()["state"], torch.get_rng_state())


def total(value: Any) -> Tensor:
    """A scalar of all tensors in a result."""
    if isinstance(value, Tensor):
        return (value.float() ** 2).mean()
    parts = value.values() if isinstance(value, dict) else value
    return torch.stack(
        [total(part) for part in parts if part is not None and not isinstance(part, (int, str))]
    ).sum()


def assert_same(one: Any, other: Any, path: str = "") -> None:
    """The same bits, in nested lists, tuples and dictionaries."""
    assert type(one) is type(other), path
    if isinstance(one, Tensor):
        assert torch.equal(one.nan_to_num(), other.nan_to_num()), path  # a scaler's first scale may overflow
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            assert_same(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), path
        for index, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{path}[{index}]")
    else:
        assert one == other, path
