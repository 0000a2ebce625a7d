"""`hires compare` through the command line, on a small data set."""

import json
from pathlib import Path

import pytest

POLICIES = (
    "settings={none: [], full: [memory.activation_checkpointing=full], "
    "selective: [memory.activation_checkpointing=selective]}"
)
EQUAL = {kind: {"value": 0.0, "name": None} for kind in ("gradient", "parameter", "buffer")}


@pytest.fixture
def compare(hires, shapes_overrides, tmp_path):
    def run(*more: str) -> dict:
        code, _, error = hires("compare", *shapes_overrides, *more)
        assert code == 0, error
        return json.loads((tmp_path / "run" / "compare.json").read_text())

    return run


def losses(run_dir: Path) -> list[float]:
    records = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [record["loss"] for record in records if record["kind"] == "train"]


def test_what_a_comparison_leaves(compare, tmp_path):
    outcome = compare(POLICIES, "steps=3", "evaluate=true", "measure_memory=false", "trainer.ema_decay=0.9")
    assert list(outcome) == ["command", "run_dir", "overrides", "reference", "steps", "settings"]
    assert (outcome["command"], outcome["reference"], outcome["steps"]) == ("compare", "none", 3)
    assert list(outcome["settings"]) == ["none", "full", "selective"]
    for name, found in outcome["settings"].items():
        assert list(found) == [
            "overrides",
            "allocated",
            "reserved",
            "seconds_per_step",
            "ratio",
            "losses",
            "largest_difference",
            "metrics",
            "plan",
        ]
        assert (found["allocated"], found["reserved"]) == (None, None)
        assert found["seconds_per_step"] > 0
        assert found["ratio"] > 0
        assert set(found["metrics"]) >= {"mIoU", "IoU/disc"}
        assert set(found["plan"]["policies"].values()) == {name}
        assert len(found["losses"]) == 3
    assert outcome["settings"]["full"]["overrides"] == ["memory.activation_checkpointing=full"]
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"compare.json", "compare.html"}
    page = (tmp_path / "run" / "compare.html").read_text()
    assert all(name in page for name in ("none", "full", "selective", "mIoU"))


def test_policies_change_nothing_else(compare):
    outcome = compare(POLICIES, "steps=2", "measure_memory=false", "backbone.drop_path_rate=0.5")
    first, *others = outcome["settings"].values()
    for other in others:
        assert other["largest_difference"] == EQUAL
        assert other["losses"] == first["losses"]


def test_each_trains_as_it_would_alone(compare, hires, shapes_overrides, tmp_path):
    slower = "optimizer.lr=0.002"
    outcome = compare(f"settings={{a: [], b: [{slower}]}}", "steps=4", "measure_memory=false")
    for found, more in zip(outcome["settings"].values(), ([], [slower]), strict=True):
        run_dir = tmp_path / f"alone{len(more)}"
        code, _, error = hires("train", *shapes_overrides, "trainer.log_every=1", *more, f"run_dir={run_dir}")
        assert code == 0, error
        assert found["losses"] == losses(run_dir)


def test_what_differs_is_named(compare):
    settings = "{a: [], half: [trainer.precision=16-mixed], other: [model.decoder_channels=[16,16,16,8,8]]}"
    outcome = compare(f"settings={settings}", "steps=1", "measure_memory=false")
    half, other = (outcome["settings"][name] for name in ("half", "other"))
    for difference in half["largest_difference"].values():
        assert 0 < difference["value"] < 0.1  # also of gradients, whose scale is taken out
        assert difference["name"].startswith("network.")
    assert other["largest_difference"] == {"gradient": None, "parameter": None, "buffer": None}
    assert half["seconds_per_step"] is None
    assert half["ratio"] is None


@pytest.mark.slow
def test_memory(compare):
    """The default settings, none and full."""
    outcome = compare("steps=1", "image_size=128", "backbone.name=resnet10t")
    none, full = outcome["settings"].values()
    assert full["allocated"] < 0.9 * none["allocated"]
    assert none["allocated"] < none["reserved"] < 3 * none["allocated"]
    assert full["reserved"] < none["reserved"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["settings={a: [], b: [trainer.max_steps=abc]}"],
            "settings.b: trainer.max_steps: got 'abc', allowed: a whole",
        ),
        (["settings={a: [], b: [image_size=100]}"], "settings.b: image_size: got [100, 100], allowed: multiples"),
        (
            ["settings={a: [], b: [++trainer._target_=os.system]}"],
            "settings.b: trainer._target_: 'os.system' is not allowed",
        ),
        (["steps=0"], "steps: got 0, allowed: a whole number >= 1"),
        (["evaluate=true", "data.splits={val: null}"], "evaluate: got true, but the data has no validation split"),
        (["settings={a: [], b: [trainer.strategy=fsdp2]}"], "settings.b: trainer.strategy: got fsdp2"),
        (["resume=auto"], "resume: a comparison begins anew"),
    ],
)
def test_mistakes(hires, shapes_overrides, tmp_path, overrides, message):
    code, _, error = hires("compare", *shapes_overrides, *overrides)
    assert code == 2
    assert message in error
    assert not (tmp_path / "run" / "compare.json").exists()


def test_results_are_not_overwritten(hires, shapes_overrides, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "compare.json").write_text("{}")
    code, _, error = hires("compare", *shapes_overrides)
    assert code == 2
    assert f"run_dir: {tmp_path / 'run'} holds results already; choose another directory" in error
