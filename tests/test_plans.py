"""Plans as files, and as configurations."""

import random
from dataclasses import replace

import pytest
from omegaconf import OmegaConf

from hires import plans
from hires.autobatch import by_plan
from hires.interfaces import ConfigError, DataError, MemoryPlan, Peaks
from hires.memory.rungs import rungs_of
from hires.plans import plan_text, read_plan, with_plan
from hires.runs import check_run_dir


def some_plan(seed=0):
    draw = random.Random(seed)
    micro = draw.randint(2, 9)
    plan = MemoryPlan(
        micro,
        -(-12 // micro),
        (draw.randint(1, 40) * 32, 512),
        draw.choice(["32-true", "bf16-mixed", "16-mixed"]),
        {"stem": "none", "stage1.0": "full@2", "stage1.1": "full@stage", "loss": draw.choice(["full", "offload"])},
        budget=draw.choice([None, 2**33]),
        margin=draw.choice([None, 0, 123]),
        predicted=draw.choice([None, Peaks(1, 2**40)]),
        measured=draw.choice([None, Peaks(5, 6)]),
        evaluation_batch_size=draw.choice([None, 4]),
        evaluation=draw.choice([None, Peaks(7, 8)]),
        reasons=("it fits: {really}", "'quotes', #hash, ${interpolation} and é", "a line\nand another")[
            : draw.randint(0, 3)
        ],
    )
    return replace(plan, rungs=rungs_of(plan, 12, {"stem": "full", "loss": "full"}))


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "plan.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize("seed", range(10))
def test_a_plan_is_read_as_it_was_written(written, seed):
    plan = some_plan(seed)
    assert read_plan(written(plan_text(plan))) == plan


def test_rungs_have_rungs_too(written):
    plan = some_plan()
    nested = replace(plan, rungs=(plan, replace(plan, rungs=(plan,))))
    assert read_plan(written(plan_text(nested))) == nested


LEAST = "micro_batch_size: 2\naccumulation_steps: 1\nimage_size: [64, 96]\nprecision: 32-true\n"
BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(12)
)


def test_little_is_enough(written):
    assert read_plan(written(LEAST)) == MemoryPlan(2, 1, (64, 96), "32-true")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it must have micro_batch_size, accumulation_steps, image_size"),
        ("- 1\n- 2", "it must have micro_batch_size"),
        ("just words", "it must have micro_batch_size"),
        (LEAST + "micro_batch: 3", "it must have micro_batch_size"),
        (LEAST + "1: 3", "it must have micro_batch_size"),
        (LEAST.replace("precision: 32-true\n", ""), "missing 1 required positional argument: 'precision'"),
        (LEAST.replace(": 2", ": two"), "micro_batch_size: got 'two', allowed: a whole number"),
        (LEAST.replace(": 2", ": true"), "micro_batch_size: got True, allowed: a whole number"),
        (LEAST.replace(": 2", ": 0"), "micro_batch_size: got 0, allowed: 1 and more"),
        (LEAST.replace("[64, 96]", "[64]"), "image_size: got [64], allowed: [a whole number, a whole number]"),
        (LEAST.replace("[64, 96]", "[64, -96]"), "image_size: got [64, -96], allowed: 1 and more"),
        (LEAST.replace("[64, 96]", "64"), "image_size: got 64, allowed: [a whole number, a whole number]"),
        (LEAST.replace("32-true", "32"), "precision: got 32, allowed: text"),
        (LEAST + "policies: full", "policies: got 'full', allowed: a mapping from text to text"),
        (LEAST + "policies: {stem: 1}", "policies: got {'stem': 1}, allowed: a mapping from text to text"),
        (LEAST + "predicted: 5", "it must have allocated, reserved alone"),
        (LEAST + "predicted: {allocated: 5}", "missing 1 required positional argument: 'reserved'"),
        (LEAST + "predicted: {allocated: 5, reserved: much}", "reserved: got 'much', allowed: a whole number"),
        (LEAST + "budget: 8GiB", "budget: got '8GiB', allowed: a whole number or null"),
        (LEAST + "reasons: because", "reasons: got 'because', allowed: a list, each text"),
        (LEAST + "rungs: 5", "not a plan"),
        (LEAST + "rungs: [5]", "it must have micro_batch_size"),
        (
            LEAST + "rungs: [{micro_batch_size: 0, accumulation_steps: 1, image_size: [1, 1], precision: a}]",
            "got 0",
        ),
        ("a: [1", "not a plan"),
        (b"\xff\xfe\x00", "not a plan"),
        ("!!python/object/apply:os.system ['touch hacked']", "not a plan"),
        (LEAST + "reasons: !!python/name:os.system", "not a plan"),
        ("[" * 3000, "not a plan"),
        (BOMB, "it has aliases"),
    ],
)
def test_what_is_no_plan_is_said_in_a_line(written, tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    path = written(text)
    with pytest.raises(DataError) as told:
        read_plan(path)
    assert message in str(told.value)
    assert str(told.value).startswith(f"memory.plan: {path}: not a plan: ")
    assert len(str(told.value).splitlines()) == 1
    assert {file.name for file in tmp_path.iterdir()} == {"plan.yaml"}


def test_interpolations_stay_text(written, monkeypatch):
    monkeypatch.setenv("SECRET", "known")
    plan = read_plan(written(LEAST + "reasons: ['${oc.env:SECRET}']"))
    assert plan.reasons == ("${oc.env:SECRET}",)


@pytest.mark.parametrize("name", ["absent.yaml", "."])
def test_what_cannot_be_read(tmp_path, name):
    with pytest.raises(DataError, match="cannot be read"):
        read_plan(tmp_path / name)


def test_a_configuration_says_what_a_plan_has_found():
    text = "{image_size: auto, micro_batch_size: auto, batch_size: 12, trainer: {precision: 32-true}, "
    text += "evaluation: {batch_size: 8}, memory: {activation_checkpointing: auto, maximize: batch, plan: a}}"
    cfg = OmegaConf.create(text)
    plan = replace(some_plan(), evaluation_batch_size=4)
    found = with_plan(cfg, plan)
    assert tuple(found.image_size) == plan.image_size
    assert (found.micro_batch_size, found.batch_size) == (plan.micro_batch_size, 12)
    assert (found.trainer.precision, found.evaluation.batch_size) == (plan.precision, 4)
    assert found.memory.activation_checkpointing == plan.policies
    assert (found.memory.maximize, found.memory.plan) == (None, None)
    assert cfg.image_size == cfg.memory.activation_checkpointing == "auto"


def test_what_a_plan_overrules_is_told(monkeypatch, caplog):
    said = ["image_size=64", "trainer.precision=bf16-mixed", "micro_batch_size=2", "memory.plan=plan.yaml"]
    monkeypatch.setattr(plans.hydra_job, "overrides", lambda: said)
    cfg = OmegaConf.create(
        {
            "micro_batch_size": 2,
            "image_size": 64,
            "trainer": {"precision": "bf16-mixed"},
            "memory": {"maximize": "batch"},
        }
    )
    settled = OmegaConf.merge(
        cfg, {"image_size": [96, 128], "trainer": {"precision": "32-true"}, "memory": {"maximize": None}}
    )
    plans._tell_overruled(cfg, settled)
    assert [message.partition(" is overruled")[0] for message in caplog.messages] == [
        "image_size: 64",
        "trainer.precision: bf16-mixed",
    ], "what stays, and what was not said, is not told"


def test_a_batch_that_grows_is_told_with_the_rule_for_its_learning_rate(tmp_path):
    plan, cfg = replace(some_plan(), micro_batch_size=8), OmegaConf.create({"batch_size": 4})
    told = by_plan(cfg, plan, tmp_path)
    assert told.startswith(f"memory.plan={tmp_path}/plan.yaml batch_size=8; the batch grows 2 times")
    assert "linear scaling rule" in told
    assert by_plan(OmegaConf.create({"batch_size": 8}), plan, tmp_path) == f"memory.plan={tmp_path}/plan.yaml"


def test_a_run_directory_that_cannot_be_written_is_told_before_the_search(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="run_dir: .* cannot be written to"):
        check_run_dir(str(tmp_path / "file" / "runs" / "a"))
    check_run_dir(str(tmp_path / "runs" / "a"))
    check_run_dir(None)
