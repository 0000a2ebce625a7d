"""The replay says what torch's own allocator says, step by step. Takes about a minute.

Not run on CUDA so far: passed with the allocator of torch 2.14.1 on a CPU, over a stand-in for the CUDA driver.

Each case runs in a process of its own (this file, as a script), so that its cache is empty at the start and it
has its own options.
"""

import json
import os
import random
import subprocess
import sys

import pytest
import torch
from torch.torch_version import TorchVersion

from hires.memory.allocator import FREE, AllocatorSettings, CachingAllocator, OutOfMemory

MIB = 2**20

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
    pytest.mark.skipif(
        TorchVersion(torch.__version__) < (2, 14), reason="before 2.14 addresses from the driver break ties"
    ),
]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("options", "capacity"),
    [
        ("", None),
        ("", 257 * MIB),
        ("max_split_size_mb:24", None),
        ("max_split_size_mb:24", 257 * MIB),
        ("roundup_power2_divisions:[2:4,8:2,>:8]", None),
        ("expandable_segments:True", None),
    ],
)
def test_the_replay_is_what_torch_does(options, capacity, seed):
    recorded = run(options, capacity, seed)
    allocator = CachingAllocator(AllocatorSettings.from_env(options, capacity))
    steps = [step(allocator, key, size) for key, size in events(seed)]
    assert steps == [tuple(now) for now in recorded["steps"]]
    assert [allocator.peak_allocated, allocator.peak_reserved, allocator.retries] == recorded["end"]
    ours = sorted([segment.size, [list(block) for block in segment.blocks]] for segment in allocator.segments())
    assert ours == recorded["segments"]


def events(seed: int, count: int = 2000) -> list[tuple[int, int]]:
    """Allocations of 0 bytes to 64 MiB, about 60 at a time, frees, and now and then (-1, 0): empty the cache."""
    source, live, found = random.Random(seed), [], []
    for key in range(count):
        if source.random() < 0.01:
            found.append((-1, 0))
        elif len(live) > source.randint(0, 120):
            found.append((live.pop(source.randrange(len(live))), FREE))
        else:
            live.append(key)
            found.append((key, int(2 ** source.uniform(-1, 26))))
    return found


def step(allocator: CachingAllocator, key: int, size: int) -> tuple[int, int]:
    """What is allocated and reserved after an event. What does not fit is left out, and its free too."""
    if key < 0:
        allocator.empty_cache()
    elif size >= 0:
        try:
            allocator.allocate(key, size)
        except OutOfMemory:
            allocator.allocate(key, 0)
    else:
        allocator.free(key)
    return allocator.allocated, allocator.reserved


def run(options: str, capacity: int | None, seed: int) -> dict:
    environment = os.environ | {"PYTORCH_CUDA_ALLOC_CONF": options}
    command = [sys.executable, __file__, str(capacity or 0), str(seed)]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def record(capacity: int, seed: int) -> dict:
    """The same events for torch: (allocated, reserved) after each, and what its records say at the end."""
    torch.cuda.init()
    if capacity:  # in whole MiB that no segment ends at, so that rounding of the fraction does not matter
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(capacity / total)
    torch.cuda.memory._record_memory_history(context=None)
    live, steps = {}, []
    for key, size in events(seed):
        if key < 0:
            torch.cuda.empty_cache()
        elif size < 0:
            del live[key]
        else:
            live[key] = tensor(size)
        steps.append((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))
    snapshot, stats = torch.cuda.memory._snapshot(), torch.cuda.memory_stats()
    return {
        "steps": steps,
        "segments": sorted(
            (s["total_size"], [(b["size"], b["state"] != "inactive") for b in s["blocks"]])
            for s in snapshot["segments"]
        ),
        "end": [
            torch.cuda.max_memory_allocated(),
            torch.cuda.max_memory_reserved(),
            stats["num_alloc_retries"],
        ],
    }


def tensor(size: int) -> torch.Tensor | None:
    try:
        return torch.empty(size, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        return None


if __name__ == "__main__":
    print(json.dumps(record(int(sys.argv[1]), int(sys.argv[2]))))
