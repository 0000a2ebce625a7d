"""What only CUDA can show. Not run on CUDA so far; takes under five minutes."""

import statistics
import time
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from blocks import POLICIES, Trunk, assert_same, batch_norm, total
from torch import nn

from hires.memory import offload
from hires.memory.checkpointing import apply_policies
from hires.memory.offload import HostOffload
from hires.memory.units import find_units

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]


@pytest.fixture(autouse=True)
def _deterministic():
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    yield
    torch.backends.cudnn.deterministic = before


def trunk() -> Trunk:
    torch.manual_seed(0)
    return Trunk(batch_norm(0.1)).cuda()


def step(network: nn.Module, image: torch.Tensor, autocast=nullcontext, scaler=None):
    torch.manual_seed(3)
    network.zero_grad()
    with autocast():
        loss = total(network(image))
    (scaler.scale(loss) if scaler else loss).backward()
    return (
        {n: p.grad.clone() for n, p in network.named_parameters()},
        dict(network.state_dict()),
        torch.cuda.get_rng_state(),
    )


@pytest.mark.parametrize("policy", [*POLICIES.values(), "offload"], ids=[*POLICIES, "offload"])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
def test_policies_change_nothing(policy, dtype):
    outcomes = []
    for said in ("none", policy):
        network = trunk()
        apply_policies(
            network, find_units(network, network.stages()), said, offload=HostOffload(torch.device("cuda"))
        )
        autocast = partial(torch.autocast, "cuda", dtype or torch.float32, enabled=dtype is not None)
        scaler = torch.amp.GradScaler("cuda") if dtype is torch.float16 else None
        outcomes.append(
            step(network, torch.randn(4, 3, 256, 256, device="cuda", generator=_generator()), autocast, scaler)
        )
    assert_same(*outcomes)


@pytest.mark.parametrize("policy", ["selective", "full", "full@stage", "offload"])
def test_less_is_allocated(policy, monkeypatch):
    peaks = {}
    for said in ("none", policy):
        network = trunk()
        apply_policies(
            network, find_units(network, network.stages()), said, offload=HostOffload(torch.device("cuda"))
        )
        image = torch.randn(4, 3, 1024, 1024, device="cuda")
        step(network, image)
        torch.cuda.reset_peak_memory_stats()
        step(network, image)
        peaks[said] = torch.cuda.max_memory_allocated()
    assert peaks[policy] < 0.9 * peaks["none"]


def test_offload_overlaps_with_computing(monkeypatch):
    """A step takes less than computing and both copies one after the other."""
    network, image = trunk(), torch.randn(4, 3, 1024, 1024, device="cuda")
    monkeypatch.setattr(offload, "SMALLEST", 2**20)

    def seconds() -> float:
        times = []
        for _ in range(5):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            step(network, image)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    seconds()
    plain = seconds()
    before = torch.cuda.memory_allocated()
    loss = total(network(image))
    saved = torch.empty((torch.cuda.memory_allocated() - before) // 4, device="cuda")
    del loss
    host = torch.empty(saved.shape, pin_memory=True)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    host.copy_(saved)
    saved.copy_(host)
    torch.cuda.synchronize()
    copies = time.perf_counter() - begin
    apply_policies(
        network, find_units(network, network.stages()), "offload", offload=HostOffload(torch.device("cuda"))
    )
    seconds()
    assert seconds() < plain + copies


def _generator() -> torch.Generator:
    return torch.Generator("cuda").manual_seed(7)
