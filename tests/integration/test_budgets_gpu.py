"""Plans within budgets on CUDA, under its limit of a process's memory. Not run on CUDA so far."""

import pytest
import torch
from hydra import compose, initialize_config_dir

from hires.examples import examples_of
from hires.measured_memory import measure_memory
from hires.memory.predictions import Shape
from hires.memory.profile import CONTEXT
from hires.plans import find_plan, with_plan
from hires.recipe import read_recipe
from hires.request import config_dir

GIB = 2**30
STEPS = 20

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]


def config(gib: int, goal: str):
    overrides = [
        "model=unet",
        "backbone=timm",
        "backbone.name=resnet18",
        "backbone.pretrained=false",
        "model.num_classes=19",
        "image_size=512",
        f"batch_size={256 if goal == 'batch' else 4}",
        "trainer.accelerator=cuda",
        "trainer.precision=bf16-mixed",
        f"memory.budget={gib}GiB",
        f"memory.maximize={goal}",
    ]
    with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        return compose("autobatch", overrides)


@pytest.mark.parametrize(
    ("gib", "goal"), [(8, "batch"), (11, "batch"), (24, "batch"), (8, "resolution"), (24, "resolution")]
)
def test_a_plan_trains_within_its_budget_and_the_next_larger_fails(gib, goal):
    if torch.cuda.mem_get_info()[0] < gib * GIB + CONTEXT["cuda"]:
        pytest.skip(f"less than {gib} GiB are free")
    cfg = config(gib, goal)
    plan, planner, _ = find_plan(cfg, read_recipe(cfg))
    assert len(planner.probes) <= 3
    assert sum(not probe.fits for probe in planner.probes) <= 1
    examples, _ = examples_of(read_recipe(cfg))
    settled = with_plan(cfg, plan)
    settled.batch_size = min(settled.batch_size, 2 * plan.micro_batch_size)
    steps = measure_memory("20 steps", settled, examples, limit=planner.budget, steps=STEPS)
    assert not steps.out_of_memory
    assert not steps.retries
    assert 0.8 * gib * GIB < steps.reserved <= gib * GIB
    assert steps.reserved == pytest.approx(plan.predicted.reserved, rel=0.1)
    _check_next(cfg, planner, Shape(plan.micro_batch_size, *plan.image_size))


def _check_next(cfg, planner, shape: Shape) -> None:
    """The next larger is predicted to need more than there is, and does, with the policies that need least."""
    larger = next((each for each in planner.shapes if each.pixels > shape.pixels), None)
    if larger is None:
        return
    found = planner.search.smallest(larger)
    assert found.reserved > planner.budget - planner.budget // 10
    cfg = cfg.copy()
    cfg.image_size, cfg.micro_batch_size = [larger.height, larger.width], larger.micro_batch
    cfg.batch_size = min(cfg.batch_size, 2 * larger.micro_batch)
    cfg.memory.activation_checkpointing, cfg.memory.maximize = planner.short(found.policies), None
    examples, _ = examples_of(read_recipe(cfg))
    measured = measure_memory("the next", cfg, examples, limit=planner.budget, steps=STEPS)
    assert measured.out_of_memory or measured.reserved > 0.99 * planner.budget or found.reserved <= planner.budget
