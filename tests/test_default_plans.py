"""What is planned where nothing is said: image size, micro-batch, policies; and trainings without a plan."""

import json
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from hires import planning, plans
from hires.autobatch import found as said_of
from hires.examples import Examples
from hires.interfaces import ConfigError, DataLimits
from hires.losses.segmentation import SegmentationLoss
from hires.memory.allocator_settings import MIB
from hires.memory.budget import UnknownBudget
from hires.memory.predictions import Shape
from hires.memory.simulate_values import SimulationError
from hires.planning import Planner
from hires.request import parse
from hires.unplanned import settled
from hires.visualize.search_words import why
from tests.made_up import MadeUp
from tests.recipes import small_recipe

AUTO = ("image_size=auto", "micro_batch_size=auto", "memory.choices=[none,selective,full]")
NETWORK = ["model=fpn", "backbone.name=test_resnet", "backbone.pretrained=false", "model.num_classes=3"]
NETWORK += ["trainer.accelerator=cpu"]


class Trainings:
    """Made up, in the place of simulated ones."""

    made = MadeUp(2)

    def __init__(self, recipe, examples, device):
        self.recipe = recipe

    def recipe_at(self, size):
        return replace(self.recipe, top=replace(self.recipe.top, image_size=size))

    def at(self, size):
        return SimpleNamespace(
            units=self.made.units,
            stride=32,
            least_micro_batch=2,
            offloads=False,
            evaluation=lambda views: self.made.profile(Shape(views, *size), "none"),
        )

    def simulate(self, shape, policies):
        return self.made.profile(shape, policies)


@pytest.fixture
def planner(monkeypatch):
    monkeypatch.setattr(planning, "Trainings", Trainings)

    def make(*overrides, largest=(3000, 4000)):
        examples = Examples(("a", "b", "c"), DataLimits(max_shape=largest))
        return Planner(small_recipe(*AUTO, *overrides), examples, "cpu", None)

    return make


def shape_of(plan):
    return Shape(plan.micro_batch_size, *plan.image_size)


def test_with_room_for_all_it_is_1024_pixels_and_the_whole_batch_and_takes_one_simulation(planner):
    found = planner("memory.budget=1000GiB")
    plan = found.plan()
    assert (shape_of(plan), plan.accumulation_steps) == (Shape(16, 1024, 1024), 1)
    assert set(plan.policies.values()) == {"none"}
    assert len(found.search.tried) == 1
    assert plan.rungs[0].policies == dict.fromkeys(plan.policies, "full")
    assert plan.reasons[1] == "No larger image is asked for."


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("budget", [1000, 8000])
def test_the_largest_image_then_the_micro_batch_of_most_throughput(planner, monkeypatch, seed, budget):
    monkeypatch.setattr(Trainings, "made", MadeUp(seed + 2))
    found = planner(f"memory.budget={budget}MiB")
    plan = found.plan()
    room = plan.budget - plan.margin
    side = plan.image_size[0]
    assert plan.predicted.reserved <= room
    assert plan.image_size == (side, side)
    assert Trainings.made.least(Shape(2, side, side)) <= room
    if side < 1024:
        assert Trainings.made.least(Shape(2, side + 32, side + 32)) > room
        assert f"at {side + 32} x {side + 32}, is predicted to reserve" in plan.reasons[1]
    assert 2 <= plan.micro_batch_size <= 16
    at_size = planner(f"image_size={side}", f"memory.budget={budget}MiB", "memory.maximize=throughput").plan()
    assert (plan.micro_batch_size, plan.policies) == (at_size.micro_batch_size, at_size.policies)


def test_a_micro_batch_that_is_given_stays(planner):
    plan = planner("micro_batch_size=5", "memory.budget=1000MiB").plan()
    assert plan.micro_batch_size == 5
    side = plan.image_size[0]
    assert Trainings.made.least(Shape(5, side + 32, side + 32)) > plan.budget - plan.margin


@pytest.mark.parametrize(
    ("cap", "largest", "side"),
    [
        (1024, (3000, 4000), 1024),
        (1000, (3000, 4000), 992),
        (20, (3000, 4000), 32),
        ("null", (1500, 4000), 1504),
        (1024, (480, 640), 480),
        (1024, (20, 30), 32),
        (1024, (0, 0), 1024),
    ],
)
def test_no_image_is_larger_than_the_cap_and_the_largest_image(planner, cap, largest, side):
    plan = planner("memory.budget=9000GiB", f"memory.max_image_size={cap}", largest=largest).plan()
    assert plan.image_size == (side, side)


def test_the_largest_that_fits_is_found_where_that_is_the_goal(planner):
    plan = planner("memory.budget=9000GiB", "memory.maximize=resolution", "memory.max_image_size=256").plan()
    assert plan.image_size[0] > 1024


def test_the_page_says_what_the_goal_was(planner):
    found = planner("memory.budget=1000MiB")
    outcome = said_of(found.plan(), found)
    outcome["plan"]["reasons"] = []
    assert "largest image, and at its size" in why(outcome)[0]


def composed(*overrides, command="train"):
    return parse(command, list(overrides)).compose(list(overrides))


def test_without_a_search_auto_stands_for_usual_values():
    cfg = settled(composed())
    assert (cfg.image_size, cfg.micro_batch_size, cfg.memory.activation_checkpointing) == (512, None, "none")
    cfg = settled(composed("image_size=96", "micro_batch_size=2"))
    assert (cfg.image_size, cfg.micro_batch_size) == (96, 2)
    assert settled(composed("memory.maximize=batch")).image_size == "auto"


@pytest.mark.parametrize("error", [SimulationError("it asks for a number"), UnknownBudget("not told here")])
def test_a_training_that_cannot_be_planned_goes_on(monkeypatch, caplog, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(plans, "find_plan", fail)
    cfg = composed(*NETWORK)
    cfg, plan = plans.planned(cfg, plans.read_recipe(cfg), SimpleNamespace(), None)
    assert (plan.image_size, plan.micro_batch_size) == ((512, 512), 8)
    assert cfg.image_size == 512
    assert [str(error) in record.message for record in caplog.records] == [True]
    for said in ("memory.budget=8GiB", "memory.maximize=resolution"):
        cfg = composed(*NETWORK, said)
        with pytest.raises(type(error)):
            plans.planned(cfg, plans.read_recipe(cfg), SimpleNamespace(), None)


def test_code_that_cannot_be_simulated_ends_no_training(monkeypatch, caplog):
    """A loss that asks for numpy, as those by distance transforms do."""
    original = SegmentationLoss.forward

    def forward(self, *args, **kwargs):
        args[0].detach().cpu().numpy()
        return original(self, *args, **kwargs)

    monkeypatch.setattr(SegmentationLoss, "forward", forward)
    cfg = composed(*NETWORK)
    source = SimpleNamespace()
    monkeypatch.setattr(plans, "examples_of", lambda *_: (Examples(("a", "b", "c"), DataLimits()), []))
    cfg, plan = plans.planned(cfg, plans.read_recipe(cfg), source, None)
    assert plan.image_size == (512, 512)
    assert "numpy" in caplog.text
    cfg = composed(*NETWORK, "memory.budget=8GiB")
    with pytest.raises(RuntimeError, match="numpy"):
        plans.planned(cfg, plans.read_recipe(cfg), source, None)


@pytest.mark.parametrize(
    ("said", "most"), [((), 512), (("memory.max_image_size=1024",), 1024), (("memory.budget=8GiB",), 1024)]
)
def test_on_a_cpu_windows_are_smaller_unless_something_was_said(monkeypatch, said, most):
    seen = []

    def find(cfg, recipe, source, budget, *, probe):
        seen.append(recipe.memory.max_image_size)
        raise SimulationError("enough")

    monkeypatch.setattr(plans, "find_plan", find)
    monkeypatch.setattr(plans.hydra_job, "overrides", lambda: list(said))
    cfg = composed(*NETWORK, *said)
    with suppress(SimulationError):
        plans.planned(cfg, plans.read_recipe(cfg), SimpleNamespace(), None)
    assert seen == [most]


def test_what_was_said_is_never_replaced():
    cfg = composed("memory=auto", "image_size=auto", "memory.budget=auto", command="profile")
    said = settled(cfg, {"memory", "image_size", "memory.budget"})
    assert (said.image_size, said.micro_batch_size) == ("auto", None)
    assert (said.memory.activation_checkpointing, said.memory.budget) == ("auto", "auto")
    assert settled(cfg).memory.budget is None


def test_rungs_recompute_where_the_choices_let_them(planner):
    plan = planner("memory.budget=1000GiB", "memory.choices=[none,selective]").plan()
    assert set(plan.rungs[0].policies.values()) == {"selective"}


@pytest.mark.parametrize(
    ("said", "probed"), [((), False), (("memory.budget=8GiB",), True), (("memory.maximize=throughput",), True)]
)
def test_on_a_cpu_plans_are_tried_where_a_budget_or_a_goal_was_said(monkeypatch, said, probed):
    tried = []

    def find(cfg, recipe, source, budget, *, probe):
        tried.append(probe)
        raise SimulationError("enough")

    monkeypatch.setattr(plans, "find_plan", find)
    cfg = composed(*NETWORK, *said)
    with suppress(SimulationError):
        plans.planned(cfg, plans.read_recipe(cfg), SimpleNamespace(), None)
    assert tried == [probed]


def test_autobatch_finds_what_a_training_would_find():
    assert plans.as_a_training_would(composed(command="autobatch")).memory.maximize is None
    assert plans.as_a_training_would(composed("image_size=128", command="autobatch")).memory.maximize == "batch"


def test_no_plan_is_searched_for_with_split_parameters():
    cfg = composed(*NETWORK, "trainer.strategy=fsdp2", "trainer.devices=2")
    with pytest.raises(ConfigError, match="processes that keep all parameters"):
        plans.find_plan(cfg, plans.read_recipe(cfg))


def test_a_profile_for_a_gpu_that_is_not_here_needs_no_budget(hires, tmp_path):
    code, output, error = hires("profile", *NETWORK[:4], "memory.device=cuda", f"run_dir={tmp_path / 'run'}")
    assert code == 0, error
    told = "image_size, micro_batch_size, memory.activation_checkpointing: auto is what a search finds"
    assert told in " ".join(output.split())
    assert json.loads((tmp_path / "run" / "memory.json").read_text())["plan"]["image_size"] == [512, 512]


def test_experiments_search_for_nothing():
    names = parse("train", []).groups()["experiment"]
    assert len(names) >= 8
    for name in names:
        cfg = composed(f"experiment={name}")
        assert (cfg.micro_batch_size, cfg.memory.activation_checkpointing) == (None, "none"), name
        assert isinstance(cfg.image_size, int), name


def test_training_by_the_bare_command(hires, shapes, tmp_path):
    """Of images of 201 x 171 pixels; what a run leaves is used by the other commands."""
    run_dir = tmp_path / "run"
    words = [
        *("data=mask_folder", f"data.root={shapes}", "data.classes={background: 0, disc: 100, bar: 200}"),
        *("data.ignore_values=[255]", "data.workers=0", "trainer.max_steps=1", f"run_dir={run_dir}"),
        *NETWORK[:3],
        "trainer.accelerator=cpu",
    ]
    code, _, error = hires("train", *words)
    assert code == 0, error
    told = [line for line in (run_dir / "train.log").read_text().splitlines() if "Planned in" in line]
    assert len(told) == 1
    plan, cfg = plans.read_plan(run_dir / "plan.yaml"), OmegaConf.load(run_dir / "config.yaml")
    side = plan.image_size[0]
    assert 160 <= side <= 192
    assert plan.micro_batch_size == cfg.micro_batch_size == 8
    assert set(plan.policies.values()) == {"none"}
    pinned = f"micro_batch_size=8 'image_size=[{side},{side}]' memory.activation_checkpointing=none"
    assert told[0].endswith(f"To have it without a search: {pinned}")
    assert plan.predicted.reserved < plan.budget - 100 * MIB
    code, _, error = hires("train", *words, "resume=auto", "trainer.max_steps=2")
    assert code == 0, error
    assert sum("Planned in" in line for line in (run_dir / "train.log").read_text().splitlines()) == 1
    assert plans.read_plan(run_dir / "plan.yaml") == plan
