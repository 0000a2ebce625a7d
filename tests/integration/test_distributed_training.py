"""`hires train` in two processes on a CPU: the same training as in one, one run directory, one that speaks."""

import json
import logging
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import yaml

from hires.engine.display import ALIKE, log_beside
from hires.engine.trainer import Trainer
from hires.recipe import Recipe
from hires.tasks.segmentation import SegmentationTask
from tests.integration.test_detection import write_image
from tests.processes import Group, in_processes
from tests.recovering import CUDA

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="gloo is not available")
TWO = "trainer.devices=2"
STEPS = 4
PLAIN = (
    "optimizer=sgd",
    "optimizer.lr=0.05",
    "model.norm=group",
    "trainer.log_every=1",
    "trainer.clip_grad_norm=1",
)
RUNGS = ({"stage1": "full", "loss": "full"}, {"stem": "full", "stage1": "full", "decoder": "full@stage"})


@pytest.fixture
def overrides(shapes_overrides) -> list[str]:
    return [o for o in shapes_overrides if not o.startswith("run_dir=")]


@pytest.fixture
def boxes(tmp_path) -> list[str]:
    for index in range(7):
        write_image(tmp_path, str(index), index)
    (tmp_path / "5.txt").write_text("")
    return [
        "data=yolo",
        f"data.root={tmp_path}",
        "data.images=*.png",
        "data.labels=*.txt",
        "data.classes=[disc,bar]",
        "data.splits={val: '[456].png'}",
        "data.workers=0",
        "model=fcos",
        "model.neck.levels=[2,3]",
        "model.neck.extra_levels=0",
        "model.neck.channels=64",
        "model.head_convs=1",
        "backbone.name=test_resnet",
        "backbone.pretrained=false",
        "image_size=64",
        "batch_size=4",
        f"trainer.max_steps={STEPS}",
        "trainer.accelerator=cpu",
        "scheduler.warmup_steps=1",
        "evaluation.every=null",
    ]


def checkpoint(run_dir: Path, name: str = "last") -> dict:
    return torch.load(run_dir / "checkpoints" / f"{name}.pt", weights_only=True)


def records(run_dir: Path, kind: str = "train") -> list[dict]:
    times = ("time", "seconds_per_step", "images_per_second")
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in times} for line in lines if line["kind"] == kind]


def same(one: object, other: object, path: str = "") -> None:
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), path
    elif isinstance(one, (dict, list, tuple)):
        assert len(one) == len(other), path
        for key in one if isinstance(one, dict) else range(len(one)):
            same(one[key], other[key], f"{path}.{key}")
    else:
        assert one == other, path


def alike(one: Path, other: Path) -> None:
    """The same to rounding: losses, parameters, and what of metrics hardly depends on them."""
    losses = [[{k: v for k, v in line.items() if k != "kind"} for line in records(run)] for run in (one, other)]
    for mine, theirs in zip(*losses, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-5)
    weights, expected = (checkpoint(run)["task"] for run in (one, other))
    for name, value in expected.items():
        assert (weights[name] - value).norm() <= 1e-5 * value.norm().clamp(min=1e-6), name
    mine, theirs = (json.loads((run / "result.json").read_text())["metrics"] for run in (one, other))
    assert mine == pytest.approx(theirs, abs=2e-3, nan_ok=True)


def test_segmentation(overrides, tmp_path):
    """With shares of 3 and 2 in micro-batches of 2, and one image to evaluate, so that one process has none."""
    how = [*overrides, *PLAIN, "batch_size=5", "micro_batch_size=2"]

    def check(group: Group) -> None:
        name = "one" if group.size == 1 else "two"
        answer = group.hires("train", *how, f"trainer.devices={group.size}", f"run_dir={tmp_path / name}")
        assert answer.code == 0, answer.error
        assert ("Done" in answer.output) == (group.rank == 0)
        assert group.rank == 0 or (answer.output, answer.error) == ("", "")

    in_processes(1, check)
    in_processes(2, check)
    one, two = tmp_path / "one", tmp_path / "two"
    alike(two, one)
    assert sorted(f.name for f in two.rglob("*") if "tfevents" not in f.name) == sorted(
        f.name for f in one.rglob("*") if "tfevents" not in f.name
    )
    assert len(list(two.rglob("*tfevents*"))) == len(list(one.rglob("*tfevents*")))
    result = json.loads((two / "result.json").read_text())
    assert result["plan"]["accumulation_steps"] == 2
    assert result["peak_bytes"]["reserved"] is None or result["peak_bytes"]["reserved"] > 0


def test_detection(boxes, tmp_path):
    def check(group: Group) -> None:
        name = "one" if group.size == 1 else "two"
        how = [*boxes, *PLAIN, f"trainer.devices={group.size}", f"run_dir={tmp_path / name}"]
        answer = group.hires("train", *how)
        assert answer.code == 0, answer.error

    in_processes(1, check)
    in_processes(2, check)
    alike(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow
def test_a_resumed_training_ends_in_the_same_bits(overrides, tmp_path, monkeypatch):
    """With random numbers of their own in both processes, BatchNorm, averaged weights and loader workers."""
    how = [
        *overrides,
        TWO,
        "trainer.max_steps=5",
        "trainer.checkpoint_every=1",
        "trainer.ema_decay=0.9",
        "trainer.log_every=3",
        "backbone.drop_path_rate=0.2",
        "data.workers=1",
        "evaluation.every=2",
    ]
    after_step = Trainer._after_step

    def stop(self, batch_size):
        after_step(self, batch_size)
        if self.progress.step == 3:
            raise KeyboardInterrupt

    def check(group: Group) -> None:
        assert group.hires("train", *how, f"run_dir={tmp_path / 'whole'}").code == 0
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Trainer, "_after_step", stop)
            assert group.hires("train", *how, f"run_dir={tmp_path / 'stopped'}").code == 130
        torch.rand(7)
        answer = group.hires("train", f"resume={tmp_path / 'stopped'}")
        assert answer.code == 0, answer.error

    in_processes(2, check)
    for name in ("last", "best"):
        same(checkpoint(tmp_path / "stopped", name), checkpoint(tmp_path / "whole", name))
    for kind in ("train", "evaluate"):
        assert records(tmp_path / "stopped", kind) == records(tmp_path / "whole", kind)
    state = checkpoint(tmp_path / "whole")
    assert not torch.equal(state["random"]["torch"], state["random_of_others"][0]["torch"])

    def alone(group: Group) -> None:
        answer = group.hires(
            "train",
            f"resume={tmp_path / 'whole'}",
            "trainer.devices=1",
            "trainer.max_steps=6",
            "scheduler=constant",
        )
        assert answer.code == 0, answer.error
        assert "The checkpoint is of 2 processes, this training of 1" in answer.output

    in_processes(1, alone)


@pytest.mark.slow
def test_memory_that_runs_out_in_one_process(overrides, tmp_path, monkeypatch):
    def rungs(recipe, make=Recipe.given_plan):
        top = make(recipe)
        return type(top)(
            **{**top.__dict__, "rungs": tuple(type(top)(**{**top.__dict__, "policies": p}) for p in RUNGS)}
        )

    def short(name, calls):
        original, made = getattr(SegmentationTask, name), []

        def method(self, *args):
            made.append(name)
            if len(made) - 1 in calls:
                raise CUDA
            return original(self, *args)

        monkeypatch.setattr(SegmentationTask, name, method)

    how = [*overrides, TWO, "micro_batch_size=1", "trainer.log_every=1", "backbone.drop_path_rate=0.2"]

    def check(group: Group) -> None:
        assert group.hires("train", *how, f"run_dir={tmp_path / 'plain'}").code == 0
        monkeypatch.setattr(Recipe, "given_plan", rungs)
        if group.rank == 1:
            short("forward", (1, 5))
        else:
            short("predict", (0,))
        answer = group.hires("train", *how, "evaluation.batch_size=4", f"run_dir={tmp_path / 'run'}")
        assert answer.code == 0, answer.error
        assert group.rank == 0 or answer.error == ""

    in_processes(2, check)
    plain, run = checkpoint(tmp_path / "plain"), checkpoint(tmp_path / "run")
    same({k: v for k, v in run.items() if k != "plan"}, {k: v for k, v in plain.items() if k != "plan"})
    assert records(tmp_path / "run") == records(tmp_path / "plain")
    plan = yaml.safe_load((tmp_path / "run" / "plan.yaml").read_text())
    assert (plan["rungs"], plan["micro_batch_size"]) == ([], 1)
    log = (tmp_path / "run" / "train.log").read_text()
    assert log.count("out of memory with micro-batches of 1") == 2
    assert "(process 1: CUDA out of memory." in log


@pytest.mark.slow
def test_a_plan_that_is_searched_for(overrides, tmp_path, monkeypatch):
    """For the share of one process, within the budget of the one that has least."""
    how = [*overrides, TWO, "batch_size=6", "micro_batch_size=auto", "memory.budget=auto", "model=fpn"]
    how = [o for o in how if "decoder_channels" not in o]

    def check(group: Group) -> None:
        import hires.planning
        from hires.plans import Planner

        least = 3 * 2**29
        monkeypatch.setattr(hires.planning, "budget_bytes", lambda *_: 2 * (2**32 if group.rank == 0 else least))
        budgets, make = [], Planner.__init__

        def noted(self, *args):
            make(self, *args)
            budgets.append(self.budget)

        monkeypatch.setattr(Planner, "__init__", noted)
        answer = group.hires("train", *how, f"run_dir={tmp_path / 'run'}")
        assert answer.code == 0, answer.error
        assert budgets == ([least] if group.rank == 0 else [])

    in_processes(2, check)
    plan = yaml.safe_load((tmp_path / "run" / "plan.yaml").read_text())
    assert plan["micro_batch_size"] * plan["accumulation_steps"] >= 3
    assert plan["micro_batch_size"] <= 3
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["batch_size"] == 6


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([TWO, "model.norm=sync"], "model.norm: got sync, which torch has for CUDA only"),
        ([TWO, "evaluation.metric=mIuO"], "evaluation.metric: got mIuO; did you mean mIoU?"),
    ],
)
def test_mistakes(overrides, tmp_path, more, message):
    def check(group: Group) -> None:
        answer = group.hires("train", *overrides, *more, f"run_dir={tmp_path / 'run'}")
        if answer.code != 0:
            assert answer.code == 2
            assert message in answer.error.splitlines()[-1]
        else:
            assert group.rank == 1  # what all find wrong after they have joined, one says
            assert answer.error == ""
        assert not (tmp_path / "run" / "config.yaml").exists()

    in_processes(2, check)


def test_what_only_the_others_warn_of_is_told(capsys, monkeypatch):
    ours = logging.getLogger("hires")
    for name in ("level", "propagate", "handlers"):
        monkeypatch.setattr(ours, name, getattr(ours, name))
    monkeypatch.setattr(ours, "handlers", [])
    log_beside(3)
    log = logging.getLogger("hires.test")
    log.info("nothing new")
    log.warning("all say so", extra=ALIKE)
    log.warning("here alone")
    assert capsys.readouterr().err == "process 3: here alone\n"
