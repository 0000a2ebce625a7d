"""A training that is killed at any moment, and run again, ends in the same bits as one that was not.

The processes are forked from this one, in which autograd must not have run, and kill themselves with SIGKILL.
"""

import csv
import gc
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.forks import renew_threads
from tests.integration.test_resume import records, same

MOMENTS = 40
KINDS = (
    "a step",  # gradients are there, parameters as before
    "a save",  # half of the file is written
    "a rename",  # done, and not yet flushed
    "an evaluation",
    "no matter what",  # whenever that much time has passed
    "an update",  # done, and the step not counted
    "a flush",
    "a link",
    "a line",
    "a table",
    "an average",
    "a removal",
)
"""What is being done when the process is killed, by turns; the first five are killed in default tests."""


class Killing:
    """Counts what a training does, by kind, and kills the process at number `at` of a kind, if that is given."""

    def __init__(self, kind: str = "", at: int = 0):
        self.kind, self.at = kind, at
        self.counts = dict.fromkeys(KINDS, 0)

    def watch(self, where: object, name: str, kind: str) -> None:
        """Before and after each call of a function something of that kind happens."""
        real: Callable = getattr(where, name)

        def call(*arguments, **options):
            self.happens(kind)
            result = real(*arguments, **options)
            self.happens(kind)
            return result

        setattr(where, name, call)

    def happens(self, kind: str) -> None:
        if kind == self.kind and self.counts[kind] == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.counts[kind] += 1

    def watch_all(self) -> None:
        import torch
        from lightning_fabric.loggers.csv_logs import _ExperimentWriter

        from hires.engine import checkpoint_file, ema, files, step
        from hires.evaluation.confusion import ConfusionMatrix

        self.watch(step, "accumulate", "a step")
        self.watch(checkpoint_file._Hashed, "write", "a save")
        self.watch(os, "replace", "a rename")
        self.watch(ConfusionMatrix, "update", "an evaluation")
        self.watch(torch.optim.AdamW, "step", "an update")
        self.watch(os, "fsync", "a flush")
        self.watch(os, "link", "a link")
        self.watch(files.Lines, "add", "a line")
        self.watch(_ExperimentWriter, "save", "a table")
        self.watch(ema.ExponentialAverage, "update", "an average")
        self.watch(Path, "unlink", "a removal")


def in_child(work: Callable[[], None], output: Path) -> int:
    """Runs a function in a process of its own, whose exit code it gives; minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            renew_threads()
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Training:
    """The same training again and again, each time in a new process: what `hires train resume=auto` does."""

    def __init__(self, overrides: list[str], folder: Path):
        from hydra import compose, initialize_config_dir

        from hires import build
        from hires.request import config_dir

        self.train, self.folder = build.train, folder
        settings = [
            *(o for o in overrides if not o.startswith(("run_dir=", "trainer.max_steps=", "batch_size="))),
            "batch_size=2",
            "trainer.max_steps=6",
            "trainer.checkpoint_every=2",
            "trainer.log_every=1",
            "trainer.ema_decay=0.9",
            "evaluation.every=3",
            "evaluation.overlap=0",
            "backbone.drop_path_rate=0.2",
            "augmentation=photometric",
            "resume=auto",
        ]
        with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
            self.cfg = compose("train", overrides=settings)

    def run(
        self, name: str, begin: Callable[[], object] = lambda: None, end: Callable[[], object] = lambda: None
    ) -> int:
        """Trains in the run directory `name`; what it writes to the terminal is in `name`.txt."""

        def work() -> None:
            os.environ["HIRES_CACHE"] = str(self.folder / f"{name} cache")  # so that all do the same
            self.cfg.run_dir = str(self.folder / name)
            begin()
            self.train(self.cfg)
            end()

        return in_child(work, self.folder / f"{name}.txt")

    def whole(self) -> tuple[dict[str, int], float]:
        """An uninterrupted one: what it does how often, and its seconds."""
        counting, counts = Killing(), self.folder / "counts.json"
        start = time.monotonic()
        code = self.run("whole", counting.watch_all, lambda: counts.write_text(json.dumps(counting.counts)))
        assert code == 0, (self.folder / "whole.txt").read_text()
        return json.loads(counts.read_text()), time.monotonic() - start

    def killed(self, name: str, kind: str, at: int) -> None:
        assert self.run(name, Killing(kind, at).watch_all) == -signal.SIGKILL

    def killed_after(self, name: str, seconds: float) -> None:
        """The default action of this signal ends the process in the midst of any instruction."""
        while (code := self.run(name, partial(signal.setitimer, signal.ITIMER_REAL, seconds))) == 0:
            shutil.rmtree(self.folder / name)  # it was faster than that
            seconds /= 2
        assert code == -signal.SIGALRM


def content(run_dir: Path) -> dict:
    """What must not depend on whether a training was killed."""
    import torch

    times = ("train/seconds_per_step", "train/images_per_second")
    with open(run_dir / "csv" / "metrics.csv", newline="") as file:
        table = [{key: value for key, value in row.items() if key not in times} for row in csv.DictReader(file)]
    result = json.loads((run_dir / "result.json").read_text())
    return {
        **{
            name: torch.load(run_dir / "checkpoints" / f"{name}.pt", weights_only=True)
            for name in ("last", "best")
        },
        "records": records(run_dir),
        "table": table,
        "result": {name: result[name] for name in ("metrics", "best", "steps", "plan")},
        "files": sorted(path.name for path in (run_dir / "checkpoints").iterdir()),
    }


@pytest.fixture
def training(shapes_overrides, tmp_path):
    made = Training(shapes_overrides, tmp_path)
    gc.freeze()  # what is here need not be looked through in each of the processes
    yield made
    gc.unfreeze()


@pytest.mark.parametrize(
    "moments", [range(5), pytest.param(range(5, MOMENTS), marks=pytest.mark.slow)], ids=["five", "all"]
)
def test_killed_and_run_again(training, tmp_path, moments):
    counts, seconds = training.whole()
    wanted = content(tmp_path / "whole")
    assert [record["step"] for record in wanted["records"]] == [1, 2, 3, 3, 4, 5, 6, 6]
    for number in moments:
        kind, rng = KINDS[number % len(KINDS)], random.Random(number)
        name = f"{number} {kind}"
        if kind == "no matter what":
            training.killed_after(name, rng.uniform(0.1, seconds))
        else:
            training.killed(name, kind, rng.randrange(counts[kind]))
        code = training.run(name)
        assert code == 0, (tmp_path / f"{name}.txt").read_text()
        same(content(tmp_path / name), wanted, name)
