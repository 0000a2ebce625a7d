"""`hires autobatch` through the command line: probed on the CPU, and predicted for CUDA without a GPU."""

import json
from typing import Any

import pytest
import yaml

from hires.measured_memory import Measured
from hires.plans import read_plan

SMALL = [
    "model=fpn",
    "backbone.name=test_resnet",
    "backbone.pretrained=false",
    "model.num_classes=3",
    "optimizer=sgd",
    "image_size=[64,96]",
    "batch_size=8",
    "memory.choices=[none,full]",
    "trainer.accelerator=cpu",
]
PEAKS = {"allocated": int, "reserved": int}
STEP = {
    "micro_batch_size": int,
    "image_size": [int],
    "policies": (str, dict),
    "allocated": int,
    "reserved": int,
    "cost": (int, float),
    "time": float,
    "fits": bool,
}
MEASURED = {
    "allocated": (int, None),
    "reserved": (int, None),
    "live": (int, None),
    "seconds": (float, None),
    "spread": (int, None),
    "retries": int,
    "out_of_memory": bool,
}
PLAN: dict[str, Any] = {
    "micro_batch_size": int,
    "accumulation_steps": int,
    "image_size": [int],
    "precision": str,
    "policies": dict,
    "budget": int,
    "margin": (int, None),
    "predicted": (PEAKS, None),
    "measured": (PEAKS, None),
    "evaluation_batch_size": (int, None),
    "evaluation": (PEAKS, None),
    "reasons": [str],
    "rungs": [],
}
PLAN["rungs"] = [PLAN]
SCHEMA = {
    "command": str,
    "run_dir": str,
    "overrides": [str],
    "device": str,
    "goal": (str, None),
    "budget": int,
    "plan": PLAN,
    "override": str,
    "peak_bytes": {"predicted": PEAKS, "allocated": (int, None), "reserved": (int, None)},
    "tried": [STEP],
    "probes": [{**STEP, "measured": MEASURED}],
    "seconds": float,
    "notes": [str],
}


def assert_schema(value: Any, schema: Any, path: str = "") -> None:
    """All keys of a dictionary and no others, in order; the types of all values."""
    if isinstance(schema, tuple):
        schema = next((one for one in schema if one is not None and _is(value, one)), None)
    if schema is None:
        assert value is None, path
    elif isinstance(schema, dict):
        assert list(value) == list(schema), path
        for key, inner in schema.items():
            assert_schema(value[key], inner, f"{path}.{key}")
    elif isinstance(schema, list):
        for index, inner in enumerate(value):
            assert_schema(inner, schema[0], f"{path}[{index}]")
    else:
        assert type(value) is schema, path


def _is(value: Any, schema: Any) -> bool:
    return isinstance(value, dict) if isinstance(schema, dict) else type(value) is schema


@pytest.fixture
def autobatch(hires, tmp_path):
    def run(*more: str) -> tuple[dict, str]:
        code, output, error = hires("autobatch", *SMALL, f"run_dir={tmp_path / 'run'}", *more)
        assert code == 0, error
        names = {path.name for path in (tmp_path / "run").iterdir()}
        assert names == {"plan.yaml", "search.json", "search.html"}
        outcome = json.loads((tmp_path / "run" / "search.json").read_text())
        assert_schema(outcome, SCHEMA)
        assert yaml.safe_load((tmp_path / "run" / "plan.yaml").read_text()) == outcome["plan"]
        assert read_plan(tmp_path / "run" / "plan.yaml").micro_batch_size == outcome["plan"]["micro_batch_size"]
        page = (tmp_path / "run" / "search.html").read_text()
        assert all(reason.split(" is predicted")[0] in page for reason in outcome["plan"]["reasons"])
        assert outcome["override"].split(" ")[0] in output
        return outcome, output

    return run


def test_a_plan_that_is_probed(autobatch, tmp_path):
    outcome, output = autobatch("memory.budget=300MiB")
    assert (outcome["command"], outcome["device"], outcome["goal"]) == ("autobatch", "cpu", "batch")
    plan = outcome["plan"]
    assert (plan["micro_batch_size"], plan["accumulation_steps"], plan["image_size"]) == (8, 1, [64, 96])
    assert set(plan["policies"].values()) == {"none"}, "there is room for all"
    (probe,) = outcome["probes"]
    assert probe["fits"]
    assert 0 < probe["measured"]["reserved"] <= outcome["budget"] == 300 * 2**20
    assert probe["measured"]["allocated"] == pytest.approx(probe["allocated"], rel=0.03)
    assert plan["measured"] == {name: probe["measured"][name] for name in PEAKS}
    assert [rung["micro_batch_size"] for rung in plan["rungs"]] == [8, 4, 2]
    assert plan["rungs"][0]["policies"] != plan["policies"]
    assert outcome["notes"] == []


def test_a_plan_for_a_gpu_that_is_not_here(autobatch):
    outcome, _ = autobatch("memory.device=cuda", "memory.budget=600MiB", "memory.maximize=resolution")
    plan = outcome["plan"]
    assert (outcome["device"], outcome["goal"], outcome["probes"]) == ("cuda", "resolution", [])
    assert (plan["micro_batch_size"], plan["accumulation_steps"], plan["measured"]) == (2, 4, None)
    height, width = plan["image_size"]
    assert abs(width - 1.5 * height) <= 16
    assert height % 32 == width % 32 == 0
    assert plan["predicted"]["reserved"] <= plan["budget"] - plan["margin"] < plan["budget"] == 600 * 2**20
    larger = [s for s in outcome["tried"] if s["image_size"][0] * s["image_size"][1] > height * width]
    assert min(step["reserved"] for step in larger) > plan["budget"] - plan["margin"]
    assert any("Not run on CUDA" in note for note in outcome["notes"])
    assert plan["evaluation"]["reserved"] <= plan["budget"]


@pytest.mark.slow
def test_a_probe_that_runs_out_of_memory(autobatch, monkeypatch):
    """The plan is another then, and the file tells of both."""
    results = [Measured(out_of_memory=True), Measured(30 * 2**20, 50 * 2**20, seconds=0.5)]
    monkeypatch.setattr("hires.plans.measure_memory", lambda *_, **__: results.pop(0))
    outcome, output = autobatch("memory.budget=110MiB")
    assert [probe["fits"] for probe in outcome["probes"]] == [False, True]
    first, second = (probe["reserved"] for probe in outcome["probes"])
    assert second < first
    assert outcome["peak_bytes"] == {
        "predicted": outcome["plan"]["predicted"],
        "allocated": 30 * 2**20,
        "reserved": 50 * 2**20,
    }
    assert "out of memory" in output


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        pytest.param(
            ["memory.budget=20MiB"],
            "memory.budget: nothing fits into 20.0 MiB: a micro-batch of ",
            marks=pytest.mark.slow,
        ),
        (
            ["image_size=auto", "memory.maximize=batch"],
            "image_size: got auto, but memory.maximize=batch needs one",
        ),
        (
            ["memory.maximize=speed"],
            "memory.maximize: got 'speed', allowed: batch, resolution, throughput or null",
        ),
        (["memory.choices=[none,some]"], "memory.choices: got some, allowed: none, selective, full, offload"),
        (["memory.choices=[]"], "memory.choices: got [], allowed: at least one policy"),
        (["memory.min_micro_batch=0"], "memory.min_micro_batch: got 0, allowed: a whole number >= 1 or null"),
        (["memory.device=cuda", "memory.budget=0.5"], "memory.budget: got 0.5, but torch finds no CUDA device"),
        (["image_size=[64,100]"], "image_size: got [64, 100], allowed: multiples of 32"),
        (["micro_batch_size=some"], "micro_batch_size: got 'some', allowed: auto or"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(hires, tmp_path, overrides, message):
    code, _, error = hires("autobatch", *SMALL, f"run_dir={tmp_path / 'run'}", *overrides)
    assert code == 2
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "run").exists()
