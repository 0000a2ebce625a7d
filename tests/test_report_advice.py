"""What would make a run faster or let it go bigger: said where it was measured, and nowhere else."""

import pytest

from hires.report_advice import advice

SETTINGS = {
    "data.workers": 2,
    "trainer.precision": "32-true",
    "evaluation.every": "10ep",
    "trainer.checkpoint_every": 1000,
    "trainer.checkpoint_minutes": 10,
}
GIB = 2**30


def said(seconds=None, reserved=None, budget=None, policies=None, steps=1, device="cpu"):
    plan = {"budget": budget, "policies": policies or {"stem": "none"}, "accumulation_steps": steps}
    return [what for what, _ in advice(SETTINGS, seconds or {}, {"reserved": reserved}, plan, device)]


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [
        ({}, []),
        ({"forward": 70.0, "waiting": 10.0, "evaluation": 18.0, "saving": 2.0}, []),
        ({"forward": 70.0, "waiting": 30.0}, ["data.workers=4"]),
        ({"forward": 60.0, "evaluation": 40.0}, ["evaluation.every=20ep"]),
        ({"forward": 90.0, "saving": 10.0}, ["trainer.checkpoint_every=2000 trainer.checkpoint_minutes=20"]),
    ],
)
def test_time(seconds, wanted):
    assert said(seconds) == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"reserved": GIB}, []),  # no budget
        ({"budget": GIB}, []),  # nothing measured
        ({"reserved": GIB // 2, "budget": GIB}, ["hires autobatch ... memory.maximize=resolution"]),
        (
            {"reserved": GIB // 2, "budget": GIB, "policies": {"stem": "full"}, "steps": 4},
            [
                "memory.activation_checkpointing=auto",
                "micro_batch_size=auto",
                "hires autobatch ... memory.maximize=resolution",
            ],
        ),
        ({"reserved": 9 * GIB // 10, "budget": GIB}, []),
        ({"reserved": GIB, "budget": GIB}, ["memory.activation_checkpointing=auto"]),
        ({"reserved": GIB, "budget": GIB, "policies": {"stem": "selective"}}, []),
    ],
)
def test_memory(given, wanted):
    assert said(**given) == wanted


def test_an_evaluation_at_the_end_alone_cannot_be_rarer():
    for batch, wanted in ((1, 4), (8, 16)):
        settings = {"evaluation.every": None, "evaluation.batch_size": batch}
        ((what, why),) = advice(settings, {"forward": 1.0, "evaluation": 1.0}, {}, {}, "cpu")
        assert what == f"evaluation.batch_size={wanted}"
        assert "Rarer" not in why
    ((what, _),) = advice(SETTINGS, {"forward": 1.0, "evaluation": 1.0}, {}, {}, "cpu", evaluations=1)
    assert what == "evaluation.batch_size=4"


def test_no_search_is_named_to_a_run_that_can_have_none():
    plan = {"budget": GIB, "policies": {"stem": "full"}, "accumulation_steps": 4}
    assert advice({"trainer.strategy": "ddp"}, {}, {"reserved": GIB // 2}, plan, "cpu")
    assert not advice({"trainer.strategy": "fsdp2"}, {}, {"reserved": GIB // 2}, plan, "cpu")


def test_precision():
    assert said(device="cuda") == ["trainer.precision=bf16-mixed"]
    assert said(device="cpu") == []


def test_reasons_name_what_was_measured():
    ((_, why),) = advice(SETTINGS, {"forward": 3.0, "waiting": 1.0}, {}, {}, "cpu")
    assert why.startswith("25% of the time went into waiting for data, with 2 worker processes.")
