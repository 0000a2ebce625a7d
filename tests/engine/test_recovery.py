"""Memory that runs out in a step: the training goes on as if nothing had been, to the same bits."""

import weakref

import pytest
import torch

from hires.engine.recovery import Ladder, described
from hires.engine.undo import Undo
from hires.interfaces import TrainingError
from tests.recovering import CPU, CUDA, PLACES, Run, plan, same

RUNGS = (plan(2, stage1="full", decoder="selective"), plan(2, stem="full", stage1="full", decoder="full@stage"))


@pytest.fixture(scope="module")
def undisturbed():
    return Run(plan()).train(40).state()


@pytest.mark.parametrize(
    ("place", "error"),
    [
        pytest.param(
            place, error, id=f"{place}-{name}", marks=[] if PLACES.index(place) % 2 == turn else pytest.mark.slow
        )
        for place in PLACES
        for turn, (name, error) in enumerate({"cuda": CUDA, "cpu": CPU}.items())
    ],
)
def test_other_policies_end_in_the_same_bits(place, error, undisturbed):
    run = Run(plan(2, *RUNGS))
    run.troubles = {(place, 1): error, (place, 37): error}
    state = run.train(40).state()
    assert not run.troubles
    assert run.ladder.used == 2
    assert [each.policies for each in run.plans] == [rung.policies for rung in RUNGS]
    same(state, undisturbed)


def test_two_shortages_in_one_step(undisturbed):
    run = Run(plan(2, *RUNGS))
    run.troubles = {("loss", 37): CUDA, ("update", 37): CPU}
    same(run.train(40).state(), undisturbed)
    assert run.ladder.used == 2


def test_memory_that_runs_out_deep_in_a_backward(undisturbed):
    """In a unit that is computed again, with random numbers and buffers of before."""
    run = Run(plan(2, *RUNGS[1:], stage1="full"))
    steps = []

    def short(*_):
        if run.progress.step == 4 and run.calls["backward"] == 2 and not run.plans:
            steps.append(run.progress.step)
            raise CUDA

    run.task.get_submodule("network.backbone.net.model.layer1.0.conv1").register_forward_hook(short)
    same(run.train(40).state(), undisturbed)
    assert steps == [4]


def test_smaller_micro_batches_train_the_same():
    how = {"norm": "group", "drop": 0.0, "optimizer": torch.optim.SGD, "lr": 1e-3, "side": 64}
    whole = Run(plan(4), **how).train(40)
    run = Run(plan(4, plan(2, stem="full"), plan(1, stem="full")), **how)
    run.troubles = {("loss", 1): CUDA, ("backward", 37): CPU}
    run.train(40)
    assert run.sizes[:3] == [4, 2, 2]
    assert run.sizes[-5:] == [2, 1, 1, 1, 1]
    torch.testing.assert_close(torch.tensor(run.losses), torch.tensor(whole.losses), rtol=1e-5, atol=0)
    for (name, one), other in zip(run.task.named_parameters(), whole.task.parameters(), strict=True):
        assert (one - other).norm() <= 1e-5 * other.norm(), name


@pytest.mark.parametrize("place", ["backward", "update"])
def test_the_scaler_of_half_precision_is_what_it_was(place):
    plain = Run(plan(), precision="16-mixed").train(6).state()
    run = Run(plan(2, *RUNGS), precision="16-mixed")
    run.troubles = {(place, 4): CUDA, (place, 5): CUDA}
    same(run.train(6).state(), plain)
    assert run.ladder.used == 2


def test_an_overflow_before_the_shortage_counts_once():
    run = Run(plan(2, *RUNGS), precision="16-mixed")
    run.train(1)
    before = run.scaler.get_scale()
    run.scaler._scale.fill_(2.0**40)  # every gradient overflows
    run.troubles = {("backward", 2): CUDA}
    run.train(2)
    assert run.scaler.get_scale() == 2.0**39 != before


def test_what_the_failed_step_held_is_free_before_the_retry():
    run = Run(plan(2, *RUNGS))
    calls, held, left = [], [], []

    def short(module, inputs, output):
        if held:
            left.append([reference() for reference in held])
            return
        calls.append(module)
        if len(calls) < 2:
            return
        cycle = [output * 1]
        cycle.append(cycle)
        gradients = [p.grad for p in run.task.parameters() if p.grad is not None]
        held.extend(weakref.ref(tensor) for tensor in (inputs[0], output, cycle[0], *gradients))
        raise CUDA  # which somebody holds

    run.train(1)
    handle = run.task.network.register_forward_hook(short)
    run.train(2)
    handle.remove()
    assert len(held) > 50  # with the gradients of the first micro-batch
    assert left[0] == [None] * len(held)


def test_nothing_left_to_fall_back_to():
    run = Run(plan(4, plan(2, stem="full")))
    run.train(2)
    run.troubles = {("loss", 3): CUDA}
    run.train(3)
    run.troubles = {("backward", 5): CPU}
    with pytest.raises(TrainingError) as caught:
        run.train(5)
    message = str(caught.value)
    assert message.startswith(
        "step 5: out of memory with micro-batches of 2, full for 1 of 1 units at image_size=[32"
    )
    assert "can't allocate memory" in message
    assert all(hint in message for hint in ("hires autobatch", "smaller image_size"))


class Torn(torch.optim.SGD):
    """Runs out of memory between two parameters."""

    @torch.no_grad()
    def step(self, closure=None):
        self.param_groups[0]["params"][0].add_(1)
        raise CUDA


def test_an_update_that_is_half_done_is_not_repeated():
    run = Run(plan(2, *RUNGS), optimizer=Torn)
    with pytest.raises(
        TrainingError, match=r"step 1: .*half done.*Tried to allocate.*resume=RUN goes on from the"
    ):
        run.train(1)
    assert run.ladder.used == 0


def test_other_errors_pass():
    run = Run(plan(2, *RUNGS))
    run.troubles = {("loss", 1): RuntimeError("shape mismatch")}
    with pytest.raises(RuntimeError, match="shape mismatch"):
        run.train(1)
    assert not run.plans


def test_a_plan_without_rungs_lets_everything_pass(monkeypatch):
    run = Run(plan())
    monkeypatch.setattr(Undo, "note", lambda self: pytest.fail("nothing needs to be noted"))
    run.train(1)
    run.troubles = {("loss", 2): CUDA}
    with pytest.raises(torch.OutOfMemoryError) as caught:
        run.train(2)
    assert caught.value is CUDA


def test_the_log_says_what_happened(caplog):
    run = Run(plan(4, plan(2, stem="full", stage1="none", loss="full")))
    run.troubles = {("forward", 2): CUDA}
    run.train(2)
    assert caplog.messages == [
        "step 2: out of memory with micro-batches of 4, no checkpointing (CUDA out of memory. Tried to allocate "
        "2.00 GiB.); the same batch again, and all that follow, with micro-batches of 2, full for 2 of 3 units"
    ]


def test_a_ladder_is_resumed_on_its_rung():
    top = plan(4, *RUNGS)
    used = Ladder(top)
    assert Ladder(top).plan == top
    used.step_down()
    resumed = Ladder(top)
    resumed.load_state_dict(used.state_dict())
    assert resumed.plan == used.plan
    assert resumed.plan.policies == RUNGS[0].policies
    assert resumed.plan.rungs == RUNGS[1:]
    assert resumed.used == 1


def test_a_run_that_fell_back_after_its_checkpoint_goes_on_with_its_rung():
    """plan.yaml is written when memory runs out, the checkpoint is from before."""
    begun = Ladder(plan(4, *RUNGS))
    saved = begun.state_dict()
    begun.step_down()
    resumed = Ladder(begun.plan)
    resumed.load_state_dict(saved)
    assert (resumed.plan, resumed.used) == (begun.plan, 1)
    begun.step_down()
    assert Ladder(begun.plan).plan == begun.plan
    last = Ladder(begun.plan)
    last.load_state_dict(saved)
    assert last.used == 2, "so that a lack of memory is told as the end of the ladder"


def test_another_ladder_is_begun_at_its_top(caplog):
    caplog.set_level("INFO")
    used = Ladder(plan(4, *RUNGS))
    used.step_down()
    saved = Ladder(used.plan)  # what plan.yaml holds by then
    saved.load_state_dict(used.state_dict())
    assert (saved.plan, saved.used, caplog.messages) == (used.plan, 1, [])
    other = Ladder(plan(2, plan(1)))
    other.load_state_dict(used.state_dict())
    assert (other.plan, other.used) == (plan(2, plan(1)), 0)
    assert "another than that of the checkpoint" in caplog.text


def test_a_plan_in_words():
    assert described(plan(2)) == "micro-batches of 2, no checkpointing"
    mixed = plan(1, a="full", b="none", c="full", d="selective")
    assert described(mixed) == "micro-batches of 1, full for 2 of 4 units, selective for 1 of 4 units"
