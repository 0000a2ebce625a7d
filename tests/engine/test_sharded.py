"""Steps of two processes that have a part of every parameter each: what one process does, under every policy."""

from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch.nn.modules.dropout import _DropoutNd

from hires.engine.ema import make_average
from hires.engine.fabric import make_fabric
from hires.engine.optimizer import OptimizerSettings
from hires.engine.sharded import Gathered, ShardedAverage, shard_task
from hires.engine.sharded_optimizer import check_optimizer, shard_optimizer
from hires.engine.sharded_share import ShardedShare
from hires.engine.step import train_step
from hires.interfaces import ConfigError, DataLimits, LostProcess, Sample, TrainingError
from hires.learner import make_task as make_task_of
from hires.memory.checkpointing import apply_policies
from hires.memory.units import find_units
from hires.sharding import groups
from tests.engine.test_distributed_steps import Branches, close
from tests.processes import in_processes
from tests.recipes import small_recipe
from tests.recovering import CPU, CUDA, make_samples, make_task, same, seed

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="gloo is not available")
CPU_DEVICE = torch.device("cpu")
MOMENTUM = partial(torch.optim.SGD, momentum=0.9)  # Adam would make much of what is nearly zero


class Trained:
    """A task after a few steps on samples in micro-batches of `micro`, of which each process has a share."""

    def __init__(
        self,
        task,
        samples,
        ranks=None,
        *,
        steps=2,
        micro=1,
        precision="32-true",
        names=None,
        kind=torch.optim.AdamW,
        policies="none",
    ):
        self.task, share = task, {}
        fabric = make_fabric("cpu", precision)
        self.average = make_average(task, 0.9)
        optimizer = kind(task.parameters(), lr=1e-2, weight_decay=0.5)
        if ranks:
            self.average = ShardedAverage(self.average, task)
            before = dict(task.named_parameters())
            shard_task(task, groups(task, policies) if names is None else names, CPU_DEVICE)
            after = dict(task.named_parameters())
            shard_optimizer(optimizer, {before[name]: after[name] for name in before})
            self.average.shard()
            share = {"share": ShardedShare(ranks, task)}
            samples = samples[ranks.rank :: ranks.size]
        step = partial(train_step, task, samples, optimizer, micro_batch_size=micro, autocast=fabric.autocast)
        seed()
        for number in range(steps):
            clip = partial(torch.nn.utils.clip_grad_norm_, [*task.parameters()], 0.5)
            self.losses = step(clip=clip, **share)
            self.average.update(number + 1)
        parts = {"task": task, "ema": self.average, "optimizer": optimizer}
        self.state = {name: Gathered(part, True).state_dict() for name, part in parts.items()}


def test_two_processes_do_what_one_does_and_keep_half_each():
    """With shares of 3 and 2 samples, which are other numbers of micro-batches."""

    def check(group):
        samples = make_samples(make_task("group", 0.0), 64)[:5]
        with group.joined() as ranks:
            found = Trained(make_task("group", 0.0), samples, ranks, kind=MOMENTUM)
            kept = sum(parameter.to_local().numel() for parameter in found.task.parameters())
            with found.average.whole() as module:
                weights = {name: value.clone() for name, value in module.state_dict().items()}
                assert not module.training
            assert all(parameter.numel() == 0 for parameter in found.average.module.parameters())
        expected = Trained(make_task("group", 0.0), samples, micro=2, kind=MOMENTUM)
        assert kept < 0.51 * sum(p.numel() for p in expected.task.parameters())
        close(found.losses, expected.losses)
        for part in ("task", "ema"):
            close(found.state[part], expected.state[part])
            assert [*found.state[part]] == [*expected.state[part]]
        same(weights, dict(found.state["ema"]))
        moments = [run.state["optimizer"]["state"] for run in (found, expected)]
        for mine, theirs in zip(*(state.values() for state in moments), strict=True):
            close(mine, theirs, 1e-4)

    in_processes(2, check)


@pytest.mark.parametrize(
    "others", [("selective", "full@stage"), pytest.param(("full", "full@2"), marks=pytest.mark.slow)], ids=" ".join
)
def test_policies_give_the_same_bits(others):
    """With BatchNorm and dropout; a round for nothing moves no statistics."""

    def check(group):
        samples = make_samples(make_task("batch", 0.0), 64)[:5]
        with group.joined() as ranks:
            states = []
            for policy in ("none", *others):
                task = make_task("batch", 0.3)
                apply_policies(task, find_units(task, task.stages()), policy)
                how = {"precision": "bf16-mixed", "micro": 2, "policies": policy}
                states.append(Trained(task, samples, ranks, **how).state)
            for state in states[1:]:
                same(state, states[0])
            counts = [int(v) for name, v in states[0]["task"].items() if name.endswith("num_batches_tracked")]
            assert set(counts) == {4 if ranks.rank == 0 else 2}

    in_processes(2, check)


def test_gradients_that_only_one_process_has():
    samples = [Sample(torch.tensor([1, n]), {"branch": torch.tensor(n)}, "") for n in (0, 1)]

    def branches():
        torch.manual_seed(0)
        return Branches()

    def check(group):
        with group.joined() as ranks:
            found = Trained(branches(), samples, ranks, names=()).state["task"]
        close(found, Trained(branches(), samples, micro=2).state["task"])
        assert torch.equal(found["branches.2.weight"], branches().branches[2].weight)  # not even decayed

    in_processes(2, check)


@pytest.mark.parametrize(("place", "error"), [("forward", CPU), ("backward", CUDA)])
def test_memory_that_runs_out_in_one_process_ends_both(place, error):
    def check(group):
        task = make_task("group", 0.0)

        def strike(*_):
            raise error

        if group.rank == 1:
            module = task.network.decoder
            (module.register_forward_hook if place == "forward" else module.register_full_backward_hook)(strike)

        def train():
            with group.joined() as ranks:
                Trained(task, make_samples(task, 64)[:4], ranks)

        with pytest.raises(TrainingError if group.rank == 1 else LostProcess) as caught:
            train()
        said = "out of memory in process 1" if group.rank == 1 else "one of its processes has ended"
        assert said in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1

    in_processes(2, check)


def test_optimizers_are_tried():
    def check(group):
        with group.joined():
            torch.manual_seed(3)
            before = torch.get_rng_state()
            for name in ("adamw", "adafactor"):
                check_optimizer(name, OptimizerSettings(name=name).build, CPU_DEVICE)
            assert torch.equal(torch.get_rng_state(), before)
            with pytest.raises(ConfigError, match=r"optimizer.name: got novograd, which does not work on split"):
                check_optimizer("novograd", OptimizerSettings(name="novograd").build, CPU_DEVICE)

    in_processes(2, check)


def test_a_lost_process_is_no_fault_of_the_optimizer():
    def check(group):
        with group.joined():
            if group.rank == 1:
                return
            with pytest.raises(LostProcess, match="one of its processes has ended"):
                check_optimizer("adamw", OptimizerSettings(name="adamw").build, CPU_DEVICE)

    in_processes(2, check)


def test_single_numbers_are_refused():
    task = torch.nn.Module()
    task.scale = torch.nn.Parameter(torch.tensor(1.0))
    with pytest.raises(ConfigError, match="fsdp2, which cannot split scale, a single number"):
        shard_task(task, (), CPU_DEVICE)


@pytest.mark.slow
def test_networks_of_all_kinds():
    """Whoever calls their modules; two-stage detectors draw at random what they learn from."""
    networks = [
        ("model=unet", "test_resnet"),
        ("model=upernet", "test_vit"),
        ("model=deeplabv3plus", "test_efficientnet"),
        ("model=segformer", "test_convnext"),
        ("model=retinanet", "test_resnet"),
        ("model=mask_rcnn", "test_resnet"),
    ]

    def check(group):
        for model, backbone in networks:
            recipe = small_recipe(model, f"backbone.name={backbone}", "model.norm=group")

            def make(recipe=recipe):
                torch.manual_seed(0)
                task = make_task_of(recipe, ("a", "b", "c"), training=None, load_pretrained=False)
                for module in task.modules():
                    if isinstance(module, _DropoutNd):
                        module.p = 0.0
                return task

            batch = make().example_batch(4, (128, 128), DataLimits(max_objects=3))
            samples = [Sample(*pair, "") for pair in zip(batch.images, batch.targets, strict=True)]
            with group.joined() as ranks:
                task = make()
                apply_policies(task, find_units(task, task.stages()), "full")
                found = Trained(task, samples, ranks, steps=1, kind=MOMENTUM, policies="full")
            expected = Trained(make(), samples, steps=1, micro=2, kind=MOMENTUM)
            assert all(value.isfinite() for value in found.losses.values())
            if model != "model=mask_rcnn":
                close(found.losses, expected.losses)
                close(found.state["task"], expected.state["task"], 1e-3)  # biases were zero

    in_processes(2, check)
