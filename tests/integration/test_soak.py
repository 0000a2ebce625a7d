"""Two thousand steps with evaluations and saves: nothing of the process and its workers grows with them."""

import itertools
import os
import statistics
from collections import Counter
from pathlib import Path

import pytest

STEPS, EVERY = 2000, 50
BOUND = 512
"""Bytes a step that memory may grow by in the second half: 0.5 GiB in a million steps. Less is not told apart from
the pages of 4 KiB in which memory is counted, and from what comes and goes between two looks at it."""


def status(pid):
    """Resident bytes, bytes of data, threads and open files of a process."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    resident, data = (1024 * int(lines[name].split()[0]) for name in ("VmRSS", "VmData"))
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return {"resident": resident, "data": data, "threads": int(lines["Threads"]), "files": files}


def children(pid):
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    own = [int(child) for task in tasks for child in task.read_text().split()]
    return [process for child in own for process in (child, *children(child))]


def slope(points):
    """Growth a step: the median of the slopes between any two points (Theil 1950, Sen 1968)."""
    pairs = itertools.combinations(points, 2)
    return statistics.median((later - value) / (end - begin) for (begin, value), (end, later) in pairs)


def test_the_slope_is_that_of_what_grows():
    noise = [0, 3000, -5000, 900000, 100, -40000]
    points = [(50 * step, 600 * 50 * step + noise[step % 6]) for step in range(20)]
    assert slope(points) == pytest.approx(600, rel=0.2)
    assert slope([(step, noise[step % 6]) for step in range(20)]) < 500


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counts by /proc")
def test_nothing_grows(hires, shapes_overrides, tmp_path, monkeypatch):
    from hires.engine.checkpointer import Checkpointer

    save, seen = Checkpointer.save, []

    def saved(self, *names):
        save(self, *names)
        step = self.parts["progress"].step
        if not seen or seen[-1][0] != step:
            processes = {"main": os.getpid(), **{f"child {n}": pid for n, pid in enumerate(children(os.getpid()))}}
            seen.append((step, {name: status(pid) for name, pid in processes.items()}))

    monkeypatch.setattr(Checkpointer, "save", saved)
    code, _, error = hires(
        "train",
        *shapes_overrides,
        *(f"trainer.max_steps={STEPS}", f"trainer.checkpoint_every={EVERY}", f"evaluation.every={EVERY}"),
        *("trainer.log_every=5", "trainer.ema_decay=0.9", "trainer.clip_grad_norm=1", "batch_size=2"),
        *("data.workers=1", "evaluation.fit=resize", "evaluation.image_size=64", "optimizer.lr=1e-4"),
    )
    assert code == 0, error
    assert [step for step, _ in seen] == list(range(EVERY, STEPS + 1, EVERY))
    # without the last: the worker ends by itself when it has nothing left to do
    half = [(step, processes) for step, processes in seen if STEPS / 2 < step < STEPS]
    names = Counter(name for _, processes in half for name in processes)
    assert len(names) >= 2  # a worker is there
    assert set(names.values()) == {len(half)}  # and no process comes or goes
    for name in names:
        for what in ("threads", "files"):
            assert len({processes[name][what] for _, processes in half}) == 1, (name, what)
        for what in ("resident", "data"):
            growth = slope([(step, processes[name][what]) for step, processes in half])
            print(f"{name}: {what} grows by {growth:.0f} bytes a step")
            assert growth <= BOUND, (name, what, growth)
