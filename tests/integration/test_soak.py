"""Two thousand steps with evaluations and saves: nothing of the process and its workers grows with them."""

import itertools
import json
import statistics
from collections import Counter
from pathlib import Path

import pytest

from tests.command_lines import python

STEPS, EVERY = 2000, 50
BOUND = 512
"""Bytes a step that memory may grow by: 0.5 GiB in a million steps. Less is not told apart from
the pages of 4 KiB in which memory is counted, and from what comes and goes between two looks at it."""


WATCH = """
import ctypes, gc, json, os, sys
from pathlib import Path

from hires.cli import main
from hires.engine.checkpointer import Checkpointer

save, seen = Checkpointer.save, []

def status(pid):
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    resident = 1024 * int(lines["RssAnon"].split()[0])
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return {"resident": resident, "threads": int(lines["Threads"]), "files": files}

def children(pid):
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    own = [int(child) for task in tasks for child in task.read_text().split()]
    return [process for child in own for process in (child, *children(child))]

def saved(self, *names):
    save(self, *names)
    step = self.parts["progress"].step
    if not seen or seen[-1][0] != step:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        processes = {"main": os.getpid(), **{f"child {n}": pid for n, pid in enumerate(children(os.getpid()))}}
        seen.append((step, {name: status(pid) for name, pid in processes.items()}))

Checkpointer.save = saved
watched = sys.argv.pop(1)
code = main()
Path(watched).write_text(json.dumps(seen))
sys.exit(code)
"""
"""Trains as the command line does, and notes at each save, for the process and those that it starts: bytes of its
own memory that are there, threads, open files. What the process has free it gives back before."""


def slope(points):
    """Growth a step: the median of the slopes between any two points (Theil 1950, Sen 1968)."""
    pairs = itertools.combinations(points, 2)
    return statistics.median((later - value) / (end - begin) for (begin, value), (end, later) in pairs)


def steady(points):
    """Growth a step, where it goes on: the median of three overlapping halves of the last three quarters. A heap
    that becomes larger once has no slope, but in a half that has it in its very middle."""
    last, half = len(points) - 1, len(points) // 2
    begins = [last - half - shift * len(points) // 8 for shift in range(3)]
    return statistics.median(slope(points[begin : begin + half + 1]) for begin in begins)


def test_the_slope_is_that_of_what_grows():
    noise = [0, 3000, -5000, 900000, 100, -40000]
    points = [(50 * step, 600 * 50 * step + noise[step % 6]) for step in range(40)]
    assert steady(points) == pytest.approx(600, rel=0.2)
    assert steady([(step, noise[step % 6]) for step in range(40)]) < 500


@pytest.mark.parametrize("when", range(0, 2000, 50))
def test_what_grows_once_does_not_grow(when):
    assert steady([(step, 4_000_000 * (step >= when) + step) for step in range(0, 2000, 50)]) < BOUND


def watch(folder: Path, *arguments: str) -> list[tuple[int, dict[str, dict[str, int]]]]:
    """What was noted at each step that saved. In a process of its own: in one that ran much before, what it left
    free is taken again page by page, which looks like growth."""
    noted = folder / "noted.json"
    done = python("-c", WATCH, str(noted), "train", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(noted.read_text())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counts by /proc")
def test_nothing_grows(shapes_overrides, tmp_path):
    seen = watch(
        tmp_path,
        *shapes_overrides,
        *(f"trainer.max_steps={STEPS}", f"trainer.checkpoint_every={EVERY}", f"evaluation.every={EVERY}"),
        *("trainer.log_every=5", "trainer.ema_decay=0.9", "trainer.clip_grad_norm=1", "batch_size=2"),
        *("data.workers=1", "evaluation.fit=resize", "evaluation.image_size=64", "optimizer.lr=1e-4"),
    )
    assert [step for step, _ in seen] == list(range(EVERY, STEPS + 1, EVERY))
    # without the last: the worker ends by itself when it has nothing left to do
    seen = seen[:-1]
    names = Counter(name for _, processes in seen for name in processes)
    assert len(names) >= 2  # a worker is there
    assert set(names.values()) == {len(seen)}  # and no process comes or goes
    for name in names:
        for what in ("threads", "files"):
            assert len({processes[name][what] for step, processes in seen if step > STEPS / 4}) == 1, (name, what)
        growth = steady([(step, processes[name]["resident"]) for step, processes in seen])
        print(f"{name}: grows by {growth:.0f} bytes a step")
        assert growth <= BOUND, (name, growth)
