"""A step with what is not finite leaves everything as it was, and is told with its images; too many end it all."""

import copy
import logging
import re
from functools import partial

import pytest
import torch

from hires.engine.fabric import make_fabric, scale_of
from hires.engine.nonfinite import Guard
from hires.engine.progress import Progress, RunningMean
from hires.engine.step import Trust, Updater, train_step
from hires.interfaces import CommonError
from tests.recovering import make_samples, make_task, same, seed

NAN, INF = float("nan"), float("inf")


class Small:
    """A training, two samples a step; `poison(step)` says by what a loss or gradient is multiplied."""

    def __init__(self, guarded=True, *, limit=2, precision="32-true", where="loss", poison=lambda step: 1.0):
        self.task, self.progress = make_task("batch", 0.3), Progress()
        self.where, self.poison = where, poison
        self.fabric = make_fabric("cpu", precision)
        self.optimizer = self.fabric.setup_optimizers(torch.optim.AdamW(self.task.parameters(), lr=1e-3))
        self.scaler = getattr(self.fabric.strategy.precision, "scaler", None)
        self.guard = Guard(
            self.task,
            self.progress,
            limit,
            scale=scale_of(self.fabric),
            state=lambda: "the learning rate is 0.001",
            advice="Try less",
        )
        self.averaged = []
        self.update = Updater(
            step=partial(
                train_step,
                self,
                optimizer=self.optimizer,
                micro_batch_size=1,
                autocast=self.fabric.autocast,
                backward=self._backward,
                guard=self.guard if guarded else Trust(),
            ),
            schedule=lambda step: None,
            average=self.averaged.append,
            progress=self.progress,
        )
        samples = make_samples(self.task, 64)
        self.samples = [sample._replace(name=f"{index}.png") for index, sample in enumerate(samples)]
        seed()

    def normalizers(self, targets):
        return self.task.normalizers(targets)

    def __call__(self, batch, normalizers):
        losses = self.task(batch, normalizers)
        name = next(iter(losses))
        self.calls += 1
        factor = self.poison(self.progress.step + 1) if self.where == "loss" and self.calls == 2 else 1.0
        return {**losses, name: losses[name] * factor}

    def _backward(self, loss):
        self.fabric.backward(loss)
        if self.where == "gradient":
            parameter = next(self.task.network.parameters())
            parameter.grad = parameter.grad * self.poison(self.progress.step + 1)

    def step(self):
        self.calls = 0
        first = 2 * self.progress.step % 8
        return self.update(self.samples[first : first + 2])

    def steps(self, count):
        return [self.step() for _ in range(count)]

    def state(self):
        state = {
            "task": self.task.state_dict(),
            "optimizer": self.optimizer.optimizer.state_dict()["state"],
            "scaler": self.scaler.state_dict() if self.scaler else {},
        }
        return copy.deepcopy(state)


@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_nothing_is_learnt_from_a_step_that_is_not_finite(where, value, caplog):
    run = Small(where=where, poison=lambda step: value if step == 2 else 1.0)
    run.step()
    before = run.state()
    with caplog.at_level(logging.WARNING, "hires"):
        assert run.step() == {}
    same(run.state(), before)
    assert all(parameter.grad is None for parameter in run.task.parameters())
    assert (run.progress.step, run.progress.skipped, run.averaged) == (2, 1, [1])
    (line,) = caplog.messages
    parameter = next(name for name, _ in run.task.named_parameters() if name.startswith("network."))
    what = (
        "loss .* is (nan|-?inf)" if where == "loss" else f"the norm of the gradient of {parameter} is not finite"
    )
    assert re.match(rf"step 2: {what}; .* \(1, at most 2\)\. Images of the batch: 2\.png, 3\.png$", line), line
    assert run.step()
    assert run.averaged == [1, 3]
    assert all(value.isfinite().all() for value in run.task.state_dict().values())


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_a_run_of_finite_steps_keeps_its_bits(precision):
    found = []
    for guarded in (True, False):
        run = Small(guarded, precision=precision)
        losses = run.steps(4)
        found.append({**run.state(), "losses": losses})
    same(*found)


def test_too_many_end_the_training_with_a_diagnosis():
    run = Small(poison=lambda step: 1.0 if step < 3 else INF)
    with pytest.raises(CommonError) as error:
        run.steps(9)
    assert run.progress.step == 4  # the fifth one ended it
    said = str(error.value)
    assert said.startswith("step 5: the training diverged: 3 updates had to be skipped lately")
    assert "trainer.max_skipped is 2; at first step 3 (loss" in said
    assert said.endswith("the learning rate is 0.001. Try less")


def test_none_may_be_skipped():
    run = Small(limit=0, poison=lambda step: NAN)
    with pytest.raises(CommonError, match="step 1: the training diverged"):
        run.step()


def test_skips_are_forgotten_after_as_many_finite_steps():
    run = Small(poison=lambda step: NAN if step % 3 == 0 else 1.0)
    run.steps(15)
    assert (run.progress.skipped, run.progress.recent_skips) == (5, 1)
    run = Small(poison=lambda step: NAN if step % 2 == 0 else 1.0)
    with pytest.raises(CommonError, match="step 6: "):
        run.steps(15)


def test_infinite_gradients_of_half_precision_are_those_of_the_scaler(caplog):
    run = Small(precision="16-mixed", where="gradient", poison=lambda step: INF if step == 1 else 1.0)
    scale = run.scaler.get_scale()
    before = copy.deepcopy(dict(run.task.named_parameters()))
    run.step()
    assert run.scaler.get_scale() == scale / 2
    same({name: p.data for name, p in before.items()}, {n: p.data for n, p in run.task.named_parameters()})
    assert run.progress.skipped == 0
    assert not caplog.messages


def test_a_loss_of_half_precision_that_is_nan_is_not():
    run = Small(precision="16-mixed", poison=lambda step: NAN if step == 2 else 1.0)
    run.step()
    before = run.state()
    run.step()
    same(run.state(), before)
    assert run.progress.skipped == 1


def test_gradients_that_stay_nan_in_half_precision_end_the_training():
    """No scale is small enough for them."""
    run = Small(precision="16-mixed", where="gradient", poison=lambda step: NAN)
    run.steps(17)  # it begins with 2^16
    assert (run.scaler.get_scale(), run.progress.skipped) == (0.5, 0)
    with pytest.raises(CommonError, match=r"step 20: the training diverged: .*first step 18 \(the norm of the"):
        run.steps(9)
    assert run.scaler.get_scale() == 0.5


def test_a_small_scale_alone_ends_nothing():
    run = Small(precision="16-mixed")
    run.step()
    run.scaler.update(0.5)
    assert all(run.steps(3))
    assert run.progress.skipped == 0


def test_skipped_steps_do_not_count_in_means():
    mean = RunningMean()
    for values in ({"a": torch.tensor(1.0)}, {}, {"a": torch.tensor(3.0)}):
        mean.add(values)
    assert mean.take() == {"a": 2.0}
    mean.add({})
    assert mean.take() == {}


def test_counts_are_part_of_a_checkpoint_and_older_ones_lack_them():
    run = Small(poison=lambda step: NAN)
    run.step()
    state = run.progress.state_dict()
    progress = Progress()
    progress.load_state_dict(state)
    assert (progress.skipped, progress.recent_skips, progress.last_skip) == (1, 1, 1)
    assert progress.first_skip.startswith("step 1 (loss")
    for name in ("skipped", "recent_skips", "last_skip", "first_skip"):
        del state[name]
    progress = Progress()
    progress.load_state_dict(state)
    assert (progress.step, progress.skipped) == (1, 0)


def test_gradients_whose_squares_are_not_finite_would_spoil_the_optimizer():
    run = Small(where="gradient", poison=lambda step: 1e15 if step == 2 else 1.0)
    run.step()
    before = run.state()
    assert run.step() == {}
    same(run.state(), before)
