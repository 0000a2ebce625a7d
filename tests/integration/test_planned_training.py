"""`hires train` with a plan that is searched for or read, within a budget, and resumed with it."""

import json
import resource
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hires.interfaces import MemoryPlan
from hires.measured_memory import Measured
from hires.ops.process_memory import lift_limit, vm_data
from hires.plans import plan_text, read_plan

MIB = 2**20


@pytest.fixture(autouse=True)
def _lifted():
    yield
    lift_limit()


@pytest.fixture
def probes(monkeypatch):
    """Plans that were tried; each takes what was predicted, without a process."""
    tried = []

    def measure(name, cfg, examples, limit):
        tried.append((cfg, limit))
        return Measured(limit * 8 // 10, limit * 98 // 100, seconds=0.1)

    monkeypatch.setattr("hires.plans.measure_memory", measure)
    return tried


@pytest.fixture
def train(hires, shapes_overrides, tmp_path):
    def run(*more: str) -> tuple[int, str]:
        overrides = [*shapes_overrides, "model=fpn", "optimizer=sgd", "memory.choices=[none,full]", *more]
        code, _, error = hires("train", *[o for o in overrides if not o.startswith("model.decoder_channels")])
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.getrlimit(resource.RLIMIT_DATA)[1]
        return code, error

    return run


def config(run_dir: Path) -> dict:
    return yaml.safe_load((run_dir / "config.yaml").read_text())


def result(run_dir: Path) -> dict:
    return json.loads((run_dir / "result.json").read_text())


AUTO = ("micro_batch_size=auto", "memory.activation_checkpointing=auto", "memory.budget=140MiB", "batch_size=6")


def test_a_plan_is_found_carried_out_and_resumed(train, probes, tmp_path):
    run_dir = tmp_path / "run"
    code, error = train(*AUTO)
    assert code == 0, error
    plan, said = read_plan(run_dir / "plan.yaml"), config(run_dir)
    assert probes[0][1] == plan.budget == 140 * MIB
    assert said["micro_batch_size"] == plan.micro_batch_size
    assert said["memory"]["activation_checkpointing"] == plan.policies
    assert (said["image_size"], said["batch_size"]) == (64, 6)
    assert said["evaluation"]["batch_size"] == plan.evaluation_batch_size
    assert plan.micro_batch_size * plan.accumulation_steps >= 6
    assert plan.predicted.reserved <= plan.budget
    outcome = result(run_dir)
    assert outcome["plan"] == yaml.safe_load((run_dir / "plan.yaml").read_text())
    assert outcome["peak_bytes"]["predicted"] == outcome["plan"]["predicted"]
    assert outcome["peak_bytes"]["allocated"] == plan.measured.allocated
    assert 0 < outcome["peak_bytes"]["reserved"] <= plan.budget

    found = len(probes)
    code, error = train(*AUTO, "resume=auto", "trainer.max_steps=5")  # the same command line again
    assert code == 0, error
    assert len(probes) == found, "nothing is searched for again"
    assert read_plan(run_dir / "plan.yaml") == plan
    assert result(run_dir)["steps"] == 5
    assert config(run_dir)["memory"] == said["memory"]
    assert config(run_dir)["micro_batch_size"] == said["micro_batch_size"]


@pytest.mark.slow
def test_the_image_size_is_found(train, probes, tmp_path):
    code, error = train("image_size=auto", "memory.budget=400MiB", "batch_size=2", "trainer.max_steps=3")
    assert code == 0, error
    plan = read_plan(tmp_path / "run" / "plan.yaml")
    height, width = plan.image_size
    assert height == width
    assert height % 32 == 0
    assert 64 <= height <= 192, "the largest image has 201 x 185 pixels"
    assert config(tmp_path / "run")["image_size"] == [height, width]
    assert set(plan.policies.values()) == {"none"}, "only the size was auto"


def given(micro, steps, size, *rungs, **more):
    return MemoryPlan(micro, steps, (size, size), "32-true", dict.fromkeys(UNITS, "none"), rungs=rungs, **more)


UNITS = ("stem", "stage1", "stage2", "stage3", "stage4", "decoder", "head", "loss")


@pytest.fixture
def saved(tmp_path):
    def write(plan):
        (tmp_path / "given.yaml").write_text(plan_text(plan))
        return f"memory.plan={tmp_path / 'given.yaml'}"

    return write


def test_a_plan_from_a_file_is_carried_out(train, saved, probes, tmp_path):
    policies = {"stem": "full", "stage3": "selective", "decoder": "full"}
    plan = replace(given(2, 8, 96), policies=policies, budget=2**33, reasons=("made by hand",))
    plan = replace(plan, rungs=(replace(plan, micro_batch_size=1, accumulation_steps=4),))
    code, error = train(saved(plan), "memory.maximize=batch", "micro_batch_size=auto")
    assert code == 0, error
    assert probes == []
    ran, said = result(tmp_path / "run")["plan"], config(tmp_path / "run")
    assert (ran["micro_batch_size"], ran["accumulation_steps"], ran["image_size"]) == (2, 2, [96, 96])
    assert {name: policy for name, policy in ran["policies"].items() if policy != "none"} == {
        "stem": "full",
        "stage3": "selective",
        "decoder.0": "full",
        "decoder.1": "full",
    }
    assert (ran["reasons"], ran["budget"], len(ran["rungs"])) == (["made by hand"], 2**33, 1)
    assert (said["image_size"], said["micro_batch_size"]) == ([96, 96], 2)
    code, error = train("resume=auto", saved(plan), "memory.maximize=batch", "micro_batch_size=auto")
    assert code == 0, error
    assert result(tmp_path / "run")["plan"] == ran


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (given(2, 2, 100), "image_size: got [100, 100], allowed: multiples of 32"),
        (replace(given(2, 2, 64), policies={"stage9": "full"}), "stage9: no such stage"),
        (replace(given(2, 2, 64), policies={"stem": "some"}), "got some, allowed: none, selective"),
        (replace(given(2, 2, 64), precision="8-true"), "trainer.precision: got '8-true', allowed"),
        (given(8, 1, 64), "its micro-batches have 8 samples, but batch_size is 4; set batch_size=8"),
    ],
    ids=["size", "stage", "policy", "precision", "batch"],
)
def test_a_plan_of_another_model(train, saved, tmp_path, plan, message):
    code, error = train(saved(plan))
    assert code == 2
    assert message in error.splitlines()[-1]
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_a_plan_may_raise_the_batch_size_where_that_is_said(train, saved, tmp_path):
    more = ("memory.scale_batch_size=true", "trainer.max_steps=1")
    code, error = train(saved(given(5, 1, 64)), *more)
    assert code == 0, error
    assert config(tmp_path / "run")["batch_size"] == 5
    code, error = train(saved(given(5, 1, 64)), *more, "resume=auto")
    assert code == 0, error


def test_what_is_no_plan(train, tmp_path):
    code, error = train(f"memory.plan={tmp_path / 'absent.yaml'}")
    assert code == 1
    assert "absent.yaml: cannot be read (No such file or directory)" in error.splitlines()[-1]


def test_a_budget_that_nothing_fits_into(train, probes, tmp_path):
    code, error = train("micro_batch_size=auto", "memory.budget=20MiB")
    assert code == 2
    assert error.splitlines()[-1].startswith("memory.budget: nothing fits into 20.0 MiB: a micro-batch of ")
    assert not (tmp_path / "run" / "config.yaml").exists()
    assert probes == []


@pytest.mark.parametrize("goal", ["batch", "resolution", "throughput"])
def test_a_profile_has_no_goal(hires, shapes_overrides, tmp_path, goal):
    code, _, error = hires("profile", *shapes_overrides, f"memory.maximize={goal}")
    assert code == 2
    assert "is searched for by `hires autobatch`" in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(vm_data() is None, reason="limits the data of a process, which needs /proc")
def test_the_budget_holds_in_training(train, saved, tmp_path):
    """A step takes about 315 MiB, on its rung about 95."""
    plan = given(4, 1, 320)
    rung = replace(plan, micro_batch_size=1, accumulation_steps=4)
    code, error = train(saved(replace(plan, rungs=(rung,))), "memory.budget=180MiB", "trainer.max_steps=2")
    assert code == 0, error
    ran = result(tmp_path / "run")
    assert (ran["plan"]["micro_batch_size"], ran["plan"]["accumulation_steps"], ran["steps"]) == (1, 4, 2)
    assert ran["peak_bytes"]["reserved"] <= 180 * MIB
    assert yaml.safe_load((tmp_path / "run" / "plan.yaml").read_text()) == ran["plan"]
    assert "step 1: out of memory with micro-batches of 4" in (tmp_path / "run" / "train.log").read_text()


@pytest.mark.skipif(vm_data() is None, reason="limits the data of a process, which needs /proc")
def test_a_plan_without_rungs_above_the_budget(train, saved):
    code, error = train(saved(given(4, 1, 768)), "memory.budget=50MiB", "trainer.max_steps=2")
    assert code == 1
    last = error.strip().splitlines()[-1]
    assert last.startswith("memory ran out: ")
    assert "hires autobatch" in last
