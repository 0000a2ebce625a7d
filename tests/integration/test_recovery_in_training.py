"""`hires train` under a plan with rungs, when memory runs out: it goes on, says so, and ends in the same bits."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from hires.engine.checkpoint_file import write
from hires.evaluation.segmentation import SegmentationEvaluator
from hires.recipe import Recipe
from hires.tasks.segmentation import SegmentationTask

STEPS = 6
SHORT = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
RUNGS = ({"stage1": "full", "loss": "full"}, {"stem": "full", "stage1": "full", "decoder": "full@stage"})


@pytest.fixture
def rungs(monkeypatch):
    """Gives the plan of a configuration rungs: policies, and the micro-batch where it is another."""

    def give(*policies: dict[str, str], micro_batch_size: int | None = None) -> None:
        def plan(recipe, make=Recipe.given_plan):
            top = make(recipe)
            size = micro_batch_size or top.micro_batch_size
            steps = -(-recipe.top.batch_size // size)
            below = [replace(top, micro_batch_size=size, accumulation_steps=steps, policies=p) for p in policies]
            return replace(top, rungs=tuple(below))

        monkeypatch.setattr(Recipe, "given_plan", plan)

    return give


@pytest.fixture
def short(monkeypatch):
    """Memory runs out in the given calls (from 0) of the forward of a task, or of its prediction."""

    def make(name: str, *calls: int) -> None:
        original, made = getattr(SegmentationTask, name), []

        def method(self, *args):
            made.append(name)
            if len(made) - 1 in calls:
                torch.rand(5)  # and random numbers have been drawn
                raise SHORT
            return original(self, *args)

        monkeypatch.setattr(SegmentationTask, name, method)

    return make


@pytest.fixture
def train(hires, shapes_overrides, tmp_path):
    def run(name: str, *more: str) -> tuple[int, str]:
        overrides = [o for o in shapes_overrides if not o.startswith(("run_dir=", "trainer.max_steps="))]
        settings = [
            f"trainer.max_steps={STEPS}",
            "trainer.ema_decay=0.9",
            "trainer.log_every=1",
            "trainer.checkpoint_every=1",
            "backbone.drop_path_rate=0.2",
            "micro_batch_size=2",
            "evaluation.every=3",
            "evaluation.batch_size=4",
            f"run_dir={tmp_path / name}",
        ]
        code, _, error = hires("train", *overrides, *settings, *more)
        return code, error

    return run


def checkpoint(run_dir: Path) -> dict:
    return torch.load(run_dir / "checkpoints" / "last.pt", weights_only=True)


def same(one: object, other: object, path: str = "") -> None:
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), path
    elif isinstance(one, (dict, list, tuple)):
        assert len(one) == len(other), path
        for key in one if isinstance(one, dict) else range(len(one)):
            same(one[key], other[key], f"{path}.{key}")
    else:
        assert one == other, path


def same_trainings(one: Path, other: Path) -> None:
    first, second = checkpoint(one), checkpoint(other)
    for part in first.keys() - {"plan"}:
        same(first[part], second[part], part)
    assert len(losses(one)) == STEPS
    assert losses(one) == losses(other)


def losses(run_dir: Path) -> list[float]:
    records = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [record["loss"] for record in records if record["kind"] == "train"]


@pytest.fixture
def plain(train, copied, tmp_path):
    def make():
        code, error = train("plain")
        assert code == 0, error

    return copied(tmp_path / "plain", make)


def test_a_training_goes_on_to_the_same_bits(train, plain, rungs, short, tmp_path):
    rungs(*RUNGS)
    short("forward", 1, 9)  # two micro-batches a step: in the second of step 1, and again in step 4
    short("predict", 0)
    code, error = train("run")
    assert code == 0, error
    same_trainings(plain, tmp_path / "run")
    plan = yaml.safe_load((tmp_path / "run" / "plan.yaml").read_text())
    assert plan == json.loads((tmp_path / "run" / "result.json").read_text())["plan"]
    assert (plan["rungs"], plan["micro_batch_size"]) == ([], 2)
    assert {name for name, policy in plan["policies"].items() if policy != "none"} >= {
        "stem",
        "stage1",
        "decoder.0",
    }
    log = (tmp_path / "run" / "train.log").read_text()
    assert (
        "WARNING hires.engine.recovery: step 1: out of memory with micro-batches of 2, no checkpointing (" in log
    )
    assert "step 4: out of memory with micro-batches of 2, full for 2 of" in log
    assert "evaluation: out of memory with 4 views at a time" in log


def test_a_run_is_resumed_on_its_rung(train, plain, rungs, short, hires, tmp_path):
    rungs(*RUNGS)
    with pytest.MonkeyPatch.context() as patched:
        short("forward", 3)
        patched.setattr(SegmentationEvaluator, "compute", interrupted)
        code, error = train("run")  # stopped in the evaluation at step 3
    assert code == 130, error
    kept = checkpoint(tmp_path / "run")["plan"]
    assert (kept["used"], len(kept["rungs"])) == (1, 2)
    code, _, error = hires("train", f"resume={tmp_path / 'run'}", f"trainer.max_steps={STEPS}")
    assert code == 0, error
    same_trainings(plain, tmp_path / "run")
    plan = yaml.safe_load((tmp_path / "run" / "plan.yaml").read_text())
    assert len(plan["rungs"]) == 1
    assert {name for name, policy in plan["policies"].items() if policy == "full"} == {"stage1", "loss"}


def interrupted(self):
    if self.confusion.counts.sum():
        raise KeyboardInterrupt
    return {"mIoU": 0.0}


def test_a_checkpoint_without_a_plan_is_resumed(train, hires, tmp_path):
    code, error = train("old", "trainer.max_steps=3", "scheduler=constant")
    assert code == 0, error
    path = tmp_path / "old" / "checkpoints" / "last.pt"
    state = checkpoint(tmp_path / "old")
    del state["plan"]
    write(path, state)
    code, _, error = hires("train", f"resume={tmp_path / 'old'}", "trainer.max_steps=4")
    assert code == 0, error
    assert checkpoint(tmp_path / "old")["plan"]["used"] == 0


def test_smaller_micro_batches(train, rungs, short, tmp_path):
    """The batch that the optimizer sees stays."""
    how = ["model.norm=group", "backbone.drop_path_rate=0", "optimizer=sgd", "micro_batch_size=4"]
    assert train("plain", *how)[0] == 0
    rungs({}, micro_batch_size=1)
    short("forward", 2)
    code, error = train("run", *how)
    assert code == 0, error
    plan = yaml.safe_load((tmp_path / "run" / "plan.yaml").read_text())
    assert (plan["micro_batch_size"], plan["accumulation_steps"]) == (1, 4)
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "plain"), rel=1e-5)
    one, other = (
        torch.cat([p.flatten() for p in checkpoint(tmp_path / n)["task"].values()]) for n in ("plain", "run")
    )
    assert (one - other).norm() <= 1e-5 * one.norm()


LIMITED = """
import resource
import torch
from tests.recovering import Run, plan

how = dict(norm="group", drop=0.0, optimizer=torch.optim.SGD, side=384)
full = dict.fromkeys(("stem", "stage1", "stage2", "decoder", "head", "loss"), "full")
print(Run(plan(4), **how).train(2).losses)
run = Run(plan(4, plan(4, **full), plan(2, **full)), **how)
used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData"))
limit = 1024 * used + 165 * 2**20
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
print(run.train(2).losses)
print(run.sizes)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the data of a process")
def test_memory_that_really_runs_out():
    """A step takes about 235 MiB, with 165 left: the losses are the same to the bit."""
    folders = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "PYTHONPATH": folders}
    done = subprocess.run([sys.executable, "-c", LIMITED], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plain, limited, sizes = done.stdout.splitlines()
    assert limited == plain
    assert sizes == "[4, 4, 4]"


def test_nothing_left_to_fall_back_to(train, rungs, short):
    rungs(RUNGS[0])
    short("forward", 2, 3, 4)
    code, error = train("run")
    assert code == 1
    assert (
        error.strip().splitlines()[-1].startswith("step 2: out of memory with micro-batches of 2, full for 2 of")
    )


def test_a_rung_that_the_model_does_not_have_is_said_at_once(train, rungs):
    rungs({"stage9": "full"})
    code, error = train("run")
    assert code == 2
    assert "stage9: no such stage" in error


def test_what_is_compared_falls_back_to_nothing(hires, shapes_overrides, rungs, short):
    rungs(*RUNGS)
    short("forward", 0)
    settings = "settings={a: [], b: [memory.activation_checkpointing=full]}"
    code, output, error = hires("compare", *shapes_overrides, settings, "steps=1", "measure_memory=false")
    assert code == 1
    assert "Tried to allocate 2.00 GiB" in error
    assert "the same batch again" not in output + error
