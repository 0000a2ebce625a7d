"""Policies in two processes: DistributedDataParallel, and collectives that must not run twice."""

import copy
import os
import socket
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from blocks import POLICIES, WIDTH, Trunk, assert_same, group_norm, train
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hires.memory.units import Unit

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="gloo is not available")


def in_two_processes(check: Callable[[int], None]) -> None:
    """Runs `check(rank)` in two processes of one group; raises what fails in one of them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.start_processes(_process, (check, port), nprocs=2, start_method="fork")


def _process(rank: int, check: Callable[[int], None], port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    try:
        check(rank)
    finally:
        dist.destroy_process_group()


class Partly(Trunk):
    """Does not use its last block."""

    def forward(self, x):
        x = self.pool(self.act(self.norm(self.conv(x))))
        return self.head(self.blocks[1](self.blocks[0](x)))


@pytest.mark.parametrize("kind", [Trunk, Partly])
def test_distributed_data_parallel(kind):
    torch.manual_seed(0)
    network = kind(group_norm)

    def check(rank: int) -> None:
        def wrap(module: nn.Module) -> nn.Module:
            return DistributedDataParallel(module, find_unused_parameters=kind is Partly)

        def inputs() -> tuple[torch.Tensor]:
            return (torch.randn(3, 3, 16, 16) + rank,)

        expected = train(network, wrap=wrap, inputs=inputs)
        for policy in POLICIES.values():
            assert_same(expected, train(network, policy, wrap=wrap, inputs=inputs))

    in_two_processes(check)


class Gather(torch.autograd.Function):
    """The mean over both processes, gathered in forward as SyncBatchNorm gathers its statistics."""

    @staticmethod
    def forward(ctx, x, mean):
        parts = [torch.empty_like(mean) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, mean)
        total = torch.stack(parts).mean(0)
        ctx.save_for_backward(x, total)
        return x - total

    @staticmethod
    def backward(ctx, grad):
        x, total = ctx.saved_tensors
        return grad * (x - total).cos(), None


class Synchronized(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, WIDTH, 1)

    def forward(self, x):
        y = self.conv(x)
        return torch.relu(Gather.apply(y, y.detach().mean((0, 2, 3), keepdim=True)))


def test_a_collective_is_not_repeated():
    torch.manual_seed(0)
    network = nn.Sequential(Synchronized(), nn.Conv2d(WIDTH, 2, 1))
    units = [Unit("stage1.0", "stage1", ("0",)), Unit("stage1.1", "stage1", ("1",))]

    def check(rank: int) -> None:
        def inputs() -> tuple[torch.Tensor]:
            return (torch.randn(3, 3, 8, 8) + rank,)

        gathered = count_calls("all_gather")
        expected = train(copy.deepcopy(network), units=units, inputs=inputs)
        assert gathered() == 5
        for policy in ("selective", "full", "full@stage"):
            assert_same(expected, train(network, policy, units=units, inputs=inputs))
            assert gathered() == 5

    in_two_processes(check)


def count_calls(name: str) -> Callable[[], int]:
    """Counts the collectives that really happen; the count starts anew whenever it is read."""
    original, calls = getattr(dist.distributed_c10d, name), []

    def counted(*args, **kwargs):
        calls.append(name)
        return original(*args, **kwargs)

    setattr(dist, name, counted)

    def read() -> int:
        count = len(calls)
        calls.clear()
        return count

    return read
