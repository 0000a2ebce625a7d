"""A small training whose memory runs out where a test says, with all that recovery is made of."""

import random
from functools import partial

import numpy as np
import torch
from torch import nn

from hires.engine.ema import make_average
from hires.engine.fabric import make_fabric
from hires.engine.progress import Progress
from hires.engine.ranks import Alone
from hires.engine.recovery import Averaging, Ladder, Recovering
from hires.engine.share import OfSeveral
from hires.engine.step import Updater, Whole, train_step
from hires.engine.undo import Undo
from hires.interfaces import DataLimits, MemoryPlan, Sample
from hires.losses.segmentation import LossSettings
from hires.memory.checkpointing import apply_policies
from hires.memory.units import find_units
from hires.models.backbone import BackboneSettings
from hires.models.segmentation.fpn import FpnSettings
from hires.tasks.segmentation import SegmentationSettings

CUDA = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:121] data. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "8589934592 bytes. Error code 12 (Cannot allocate memory)"
)
PLACES = ["forward", "loss", "backward", "update"]


def plan(size=2, *rungs, **policies):
    return MemoryPlan(size, -(-4 // size), (32, 32), "32-true", policies, rungs=rungs)


def make_task(norm, drop):
    torch.manual_seed(0)
    backbone = BackboneSettings(name="test_resnet", pretrained=False, drop_path_rate=drop).build()
    network = FpnSettings(norm=norm, dropout=drop, pyramid_channels=32, segmentation_channels=32).build(
        backbone, 3
    )
    for parameter in network.parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.3)
    return SegmentationSettings(loss=LossSettings()).build(network, 3)


class Run:
    """A training on eight samples, with troubles that a test puts in its way."""

    def __init__(
        self,
        plan,
        *,
        norm="batch",
        drop=0.3,
        precision="32-true",
        optimizer=torch.optim.AdamW,
        lr=1e-3,
        side=32,
        ranks=None,
    ):
        self.ranks = ranks or Alone()
        self.task, self.progress, self.ladder = make_task(norm, drop), Progress(), Ladder(plan)
        self.side, self.fabric = side, make_fabric("cpu", precision)
        self.average = make_average(self.task, 0.9)
        self.optimizer = self.fabric.setup_optimizers(optimizer(self.task.parameters(), lr=lr))
        self.scaler = getattr(self.fabric.strategy.precision, "scaler", None)
        self.share = OfSeveral(ranks, self.optimizer.optimizer) if ranks else Whole()
        self.units = find_units(self.task, self.task.stages())
        self.losses, self.plans, self.troubles, self.sizes = [], [], {}, []
        clip = partial(
            self.fabric.clip_gradients, self.task, self.optimizer, max_norm=1.0, error_if_nonfinite=False
        )
        self.recovering = Recovering(
            partial(
                self._step,
                optimizer=self.optimizer,
                autocast=self.fabric.autocast,
                backward=self._backward,
                clip=clip,
                share=self.share,
            ),
            self.ladder,
            undo=Undo(self.task, self.optimizer.optimizer, self.scaler),
            apply=self._apply,
            on_change=self.plans.append,
            progress=self.progress,
        )
        self.share.on_strain = self.recovering.strained
        self.update = Updater(
            step=self.recovering,
            schedule=lambda step: None,
            average=Averaging(self.average),
            progress=self.progress,
        )
        self._apply(plan)
        self.task.register_forward_pre_hook(lambda *_: self.strike("forward"))
        self.task.loss.register_forward_pre_hook(lambda *_: self.strike("loss"))
        self.optimizer.optimizer.register_step_pre_hook(lambda *_: self.strike("update"))
        seed()
        self.ranks.seed(1)

    def _step(self, samples, *, micro_batch_size, **how):
        self.calls = dict.fromkeys(PLACES, 0)
        self.sizes.append(micro_batch_size)
        return train_step(self.task, samples, micro_batch_size=micro_batch_size, **how)

    def _backward(self, loss):
        self.strike("backward")
        self.fabric.backward(loss)

    def _apply(self, plan):
        apply_policies(self.task, self.units, plan.policies)

    def strike(self, place):
        """Raises what a test has put there; in the second micro-batch, where a place is passed twice."""
        self.calls[place] += 1
        last = self.calls[place] == (1 if place == "update" else -(-self.samples // self.sizes[-1]))
        error = self.troubles.get((place, self.progress.step + 1)) if last else None
        if error is not None:
            del self.troubles[place, self.progress.step + 1]
            raise error

    def train(self, steps):
        samples = make_samples(self.task, self.side)
        for step in range(self.progress.step, steps):
            batch = samples[step % 2 :: 2][self.ranks.rank :: self.ranks.size]
            self.samples = len(batch)
            losses = self.update(batch)
            self.losses.append(float(sum(losses.values())))
        return self

    def state(self):
        return {
            "task": {name: value.clone() for name, value in self.task.state_dict().items()},
            "ema": self.average.state_dict(),
            "optimizer": self.optimizer.optimizer.state_dict()["state"],
            "scaler": self.scaler.state_dict() if self.scaler else {},
            "losses": self.losses,
            "random": (torch.get_rng_state(), random.random(), np.random.rand()),
        }


def seed():
    for function in (torch.manual_seed, random.seed, np.random.seed):
        function(1)


def make_samples(task, side):
    batch = task.example_batch(8, (side, side), DataLimits())
    for index, target in enumerate(batch.targets):
        target["mask"][: 4 * index] = index % 3
    return [Sample(i, t, "") for i, t in zip(batch.images, batch.targets, strict=True)]


def same(one, other, path=""):
    assert type(one) is type(other), path
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), path
    elif isinstance(one, (dict, list, tuple)):
        assert len(one) == len(other), path
        for key in one if isinstance(one, dict) else range(len(one)):
            same(one[key], other[key], f"{path}.{key}")
    else:
        assert one == other, path
