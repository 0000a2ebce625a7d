"""A process that is held to a budget: tried in one of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hires.memory.limit import Limit
from hires.ops.process_memory import vm_data

pytestmark = pytest.mark.skipif(vm_data() is None, reason="limits the data of a process, which needs /proc")

BEGIN = """
import resource
import numpy, torch
from torch.utils.data import Dataset
from hires.data.loader import StepSampler, make_loader
from hires.interfaces import Sample
from hires.memory.limit import Limit
from hires.ops.out_of_memory import is_out_of_memory
MIB = 2**20

def fits(mib):
    try:
        torch.ones(mib * MIB, dtype=torch.uint8)
    except RuntimeError as error:
        assert is_out_of_memory(error), error
        return False
    return True

class Arrays(Dataset):
    def __getitem__(self, key):
        pixels = numpy.ones(256 * MIB, numpy.uint8)[:3].copy()
        return Sample(torch.from_numpy(pixels.reshape(3, 1, 1)), {}, "name")
"""
TRIED = """
free = resource.getrlimit(resource.RLIMIT_DATA)
with Limit(96 * MIB, "cpu"):
    print([fits(mib) for mib in (64, 64, 64, 128, 64)])  # what is freed may be taken again
    taken = torch.ones(64 * MIB, dtype=torch.uint8)
    print(fits(16), fits(64))
    try:
        numpy.ones(256 * MIB, numpy.uint8)
    except MemoryError as error:
        print(is_out_of_memory(error))
    loader = make_loader(Arrays(), StepSampler(4, 2, 0, 2), workers=1, pin_memory=False)
    print([len(samples) for samples in loader])
print(fits(128), resource.getrlimit(resource.RLIMIT_DATA) == free)
with Limit(None, "cpu"):
    print(fits(256), resource.getrlimit(resource.RLIMIT_DATA) == free)
try:
    with Limit(32 * MIB, "cpu"):
        raise ValueError
except ValueError:
    print(fits(128), resource.getrlimit(resource.RLIMIT_DATA) == free)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the data of a process")
def test_what_is_beyond_the_limit_fails_and_nothing_else():
    folders = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": folders}
    code = BEGIN + TRIED
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[True, True, True, False, True]",
        "True False",
        "True",
        "[2, 2]",
        "True True",
        "True True",
        "True True",
    ]


def test_without_a_limit_nothing_is_limited():
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    with Limit(None, "cpu"):
        assert resource.getrlimit(resource.RLIMIT_DATA) == before


HELD = """
import threading, torch
from hires.memory.limit import Limit
from hires.ops.process_memory import vm_data
MIB = 2**20
limit = Limit(600 * MIB, "cpu")
torch.ones(24 * MIB, dtype=torch.uint8)  # from here on malloc would keep what is smaller
kept = []
for _ in range(40):
    passing = torch.ones(8 * MIB, dtype=torch.uint8)
    kept.append(torch.ones(1000, dtype=torch.uint8))
    del passing
ended = threading.Event()
threads = [threading.Thread(target=ended.wait, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
print((vm_data() - limit.before) // MIB)
ended.set()
"""


def test_what_is_freed_before_the_limit_begins_does_not_count():
    """Between the counting and the first step weights are made and threads begin: little of it is left."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", HELD], env=environment, capture_output=True, text=True)
    assert int(done.stdout) < 20, done.stderr
