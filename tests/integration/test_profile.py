"""`hires profile` through the command line: without data, for CUDA without a GPU, and against a measurement."""

import json
import math

import pytest

from hires.memory.timeline import CATEGORIES

SMALL = [
    "model=fpn",
    "backbone.name=resnet10t",
    "backbone.pretrained=false",
    "model.num_classes=4",
    "image_size=[64,96]",
    "batch_size=4",
    "micro_batch_size=2",
]
KEYS = [
    "command",
    "run_dir",
    "overrides",
    "device",
    "precision",
    "plan",
    "peak_bytes",
    "live",
    "live_measured",
    "peak_at",
    "categories",
    "reserved_parts",
    "units",
    "alternatives",
    "fitting",
    "timeline",
    "verdict",
    "seconds",
    "notes",
]


@pytest.fixture
def profile(hires, tmp_path):
    def run(*more: str) -> dict:
        code, output, error = hires("profile", *SMALL, f"run_dir={tmp_path / 'run'}", *more)
        assert code == 0, error
        outcome = json.loads((tmp_path / "run" / "memory.json").read_text())
        assert outcome["verdict"].split()[0] in output
        assert outcome["verdict"].split("`")[0] in (tmp_path / "run" / "memory.html").read_text()
        return outcome

    return run


def test_what_a_profile_leaves(profile, tmp_path):
    outcome = profile("memory.activation_checkpointing={stage3: full, head: selective}", "memory.device=cpu")
    assert list(outcome) == KEYS
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"memory.json", "memory.html"}
    assert (outcome["device"], outcome["precision"]) == ("cpu", "32-true")
    assert outcome["peak_bytes"]["predicted"]["allocated"] >= outcome["live"] > 0
    assert outcome["peak_bytes"]["predicted"]["reserved"] > outcome["peak_bytes"]["predicted"]["allocated"]
    assert (outcome["peak_bytes"]["allocated"], outcome["live_measured"]) == (None, None)
    assert list(outcome["categories"]) == list(CATEGORIES)
    assert sum(outcome["categories"].values()) == outcome["peak_bytes"]["predicted"]["allocated"]
    assert (outcome["plan"]["micro_batch_size"], outcome["plan"]["accumulation_steps"]) == (2, 2)
    assert outcome["plan"]["policies"] == {name: unit["policy"] for name, unit in outcome["units"].items()}
    assert outcome["units"]["stage3"]["policy"] == "full"
    assert outcome["units"]["head"]["policy"] == "selective"
    assert outcome["units"]["stage1"]["policy"] == "none"
    for unit in outcome["units"].values():
        assert set(unit["policies"]) == {"none", "selective", "full"}
        assert unit["policies"]["none"]["cost"] == 0
        assert 0 <= unit["cost"] < 1
    lengths = {len(row) for row in outcome["timeline"]["bytes"].values()}
    assert len(lengths) == 1
    assert lengths.pop() <= 300


def test_full_saves_what_it_says(profile):
    plain = profile("memory.device=cpu")
    full = profile("memory.device=cpu", "memory.activation_checkpointing=full")
    predicted = full["peak_bytes"]["predicted"]["allocated"]
    assert predicted < plain["peak_bytes"]["predicted"]["allocated"]
    assert predicted == plain["alternatives"]["full"]["allocated"]
    assert {name: unit["kept"] for name, unit in full["units"].items()} == {
        name: unit["policies"]["full"]["kept"] for name, unit in plain["units"].items()
    }


def test_the_cheapest_policies_within_a_budget(profile):
    outcome = profile("memory.device=cuda", "memory.budget=0.7GiB", "image_size=256")
    found = outcome["fitting"]
    assert found["fits"]
    assert found["reserved"] <= found["budget"] == int(0.7 * 2**30)
    assert found["reserved"] < outcome["peak_bytes"]["predicted"]["reserved"]
    assert 0 < found["cost"] < outcome["alternatives"]["full"]["cost"]
    assert "memory.activation_checkpointing=" in found["override"]


@pytest.mark.parametrize(
    "precision", ["16-mixed", *(pytest.param(p, marks=pytest.mark.slow) for p in ("32-true", "bf16-mixed"))]
)
def test_cuda_needs_no_gpu(profile, precision):
    outcome = profile("memory.device=cuda", f"trainer.precision={precision}", "trainer.ema_decay=0.9")
    assert outcome["device"] == "cuda"
    assert set(outcome["alternatives"]) == {"none", "selective", "full", "offload"}
    predicted = outcome["peak_bytes"]["predicted"]
    assert predicted["allocated"] % 512 == 0
    assert predicted["reserved"] == sum(outcome["reserved_parts"].values())
    assert outcome["reserved_parts"]["allocator"] % 2**21 == 0
    assert outcome["categories"]["EMA"] == outcome["categories"]["parameters"]
    assert any("Not run on CUDA" in note for note in outcome["notes"])


@pytest.mark.slow
def test_a_last_micro_batch_that_is_smaller(profile):
    """The full one runs before there are gradients, the smaller one after: less than two full ones."""
    two = profile("batch_size=4", "memory.device=cpu", "image_size=128")["live"]
    less = profile("batch_size=3", "memory.device=cpu", "image_size=128")["live"]
    one = profile("batch_size=2", "memory.device=cpu", "image_size=128")["live"]
    assert one <= less < two


def test_what_training_would_refuse(hires, tmp_path):
    few = ["model=deeplabv3plus", "batch_size=1", "micro_batch_size=1", "memory.device=cpu"]
    code, _, error = hires("profile", *SMALL, f"run_dir={tmp_path / 'run'}", *few)
    assert code == 2
    assert "BatchNorm has a single value per channel" in error
    assert not (tmp_path / "run").exists()


def test_offload_without_a_folder_is_told(profile):
    outcome = profile("memory.device=cpu", "memory.activation_checkpointing=offload")
    assert any("offload_dir" in note for note in outcome["notes"])


@pytest.mark.parametrize(
    ("model", "precision"),
    [("fpn", "32-true"), ("fcos", "bf16-mixed")],
)
@pytest.mark.slow
def test_prediction_and_measurement(profile, model, precision):
    outcome = profile(
        f"model={model}",
        "image_size=[160,128]",
        "memory.device=cpu",
        "trainer.accelerator=cpu",
        "memory.measure=true",
        f"trainer.precision={precision}",
        "memory.activation_checkpointing=selective",
    )
    predicted, measured = outcome["peak_bytes"]["predicted"], outcome["peak_bytes"]
    # a dispatch mode makes the engine add gradients out of place: measured so, live is a little more
    assert math.isclose(outcome["live"], outcome["live_measured"], rel_tol=0.02)
    assert math.isclose(predicted["allocated"], measured["allocated"], rel_tol=0.02)
    assert measured["reserved"] > 0


FEW = ("model.proposals.candidates=40", "model.proposals.proposals=40", "model.regions.samples=16")


@pytest.mark.slow
@pytest.mark.parametrize("model", [["model=retinanet"], ["model=mask_rcnn", *FEW]], ids=lambda given: given[0])
def test_detectors_without_data(profile, model):
    outcome = profile(*model, "image_size=64", "batch_size=1", "micro_batch_size=1", "memory.device=cpu")
    assert outcome["peak_bytes"]["predicted"]["allocated"] > outcome["categories"]["parameters"] > 0
    assert any("up to 100 objects" in note for note in outcome["notes"])


def test_the_objects_of_the_data(hires, tmp_path, shapes_overrides):
    code, _, error = hires("profile", *shapes_overrides, "memory.device=cpu")
    assert code == 0, error
    outcome = json.loads((tmp_path / "run" / "memory.json").read_text())
    assert outcome["notes"] == []


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["memory.device=gpu"], "memory.device: got 'gpu', allowed: cpu, cuda or null"),
        (
            ["memory.device=cuda", "memory.measure=true"],
            "torch finds no CUDA device here; leave out memory.measure=true to predict the step on CUDA without",
        ),
        (
            ["memory.budget=8GB"],
            "memory.budget: got '8GB', allowed: null, auto (what is free), a size with its unit",
        ),
        (["memory.device=cuda", "memory.budget=0.9"], "memory.budget: got 0.9, but torch finds no CUDA device"),
        (["memory.activation_checkpointing={stage9: full}"], "no such stage"),
        (["model.num_classes=1"], "model.num_classes): got 1, allowed: 2 and more, one for each pixel; count the"),
        (["image_size=100"], "image_size: got [100, 100], allowed: multiples of 32"),
        (["micro_batch_size=8"], "micro_batch_size: got 8, allowed: at most batch_size, 4"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(hires, tmp_path, overrides, message):
    code, _, error = hires("profile", *SMALL, f"run_dir={tmp_path / 'run'}", *overrides)
    assert code == 2
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "run").exists()
