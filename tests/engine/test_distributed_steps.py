"""Steps of two processes: what one process does, and what all do when one of them runs out of memory."""

import resource
import sys

import pytest
import torch
import torch.distributed as dist

from hires.engine.fabric import make_fabric
from hires.engine.share import OfSeveral
from hires.engine.step import train_step
from hires.interfaces import CommonError, Sample
from hires.ops.process_memory import fix_threshold, vm_data
from tests.processes import in_processes
from tests.recovering import CPU, CUDA, PLACES, Run, make_samples, make_task, plan, same

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="gloo is not available")

RUNGS = (plan(2, stage1="full", decoder="selective"), plan(2, stem="full", stage1="full", decoder="full@stage"))
SPLIT = {"norm": "group", "drop": 0.0, "optimizer": torch.optim.SGD, "side": 64}


def close(one, other, norm=1e-5):
    for name, value in other.items():
        assert (one[name] - value).norm() <= norm * value.norm().clamp(min=1e-12), name


@pytest.mark.parametrize(("count", "micro"), [(4, 2), (5, 2), (5, 1), (2, 3)])
def test_two_processes_do_what_one_does(count, micro, tmp_path):
    """With shares of 3 and 2 samples too, which are other numbers of micro-batches."""

    def step(samples, whole=None):
        task = make_task("group", 0.0)
        optimizer = torch.optim.SGD(task.parameters(), lr=0.1)
        share = {"share": OfSeveral(whole, optimizer)} if whole else {}

        def clip():
            torch.nn.utils.clip_grad_norm_(task.parameters(), 0.5)

        losses = train_step(task, samples, optimizer, micro_batch_size=micro, clip=clip, **share)
        return losses, dict(task.named_parameters())

    def check(group):
        samples = make_samples(make_task("group", 0.0), 64)[:count]
        with group.joined() as ranks:
            losses, found = step(samples[ranks.rank :: ranks.size], ranks)
        expected, parameters = step(samples)
        close(found, parameters)
        close(losses, expected)
        torch.save(found, tmp_path / f"{group.rank}.pt")

    in_processes(2, check)
    same(*(torch.load(tmp_path / f"{rank}.pt") for rank in range(2)))


class Branches(torch.nn.Module):
    """Each sample takes the branch that its target names; the third is taken by none."""

    def __init__(self):
        super().__init__()
        self.branches = torch.nn.ModuleList(torch.nn.Linear(2, 1) for _ in range(3))

    def normalizers(self, targets):
        return {"samples": torch.tensor(len(targets))}

    def forward(self, batch, normalizers):
        found = [
            self.branches[int(t["branch"])](i.float()) for i, t in zip(batch.images, batch.targets, strict=True)
        ]
        return {"loss": torch.cat(found).sum() / normalizers["samples"]}


def test_gradients_that_only_one_process_has():
    samples = [Sample(torch.tensor([1, n]), {"branch": torch.tensor(n)}, "") for n in (0, 1)]

    def trained(samples, ranks=None):
        torch.manual_seed(0)
        task = Branches()
        optimizer = torch.optim.AdamW(task.parameters(), weight_decay=0.5)
        share = {"share": OfSeveral(ranks, optimizer)} if ranks else {}
        train_step(task, samples, optimizer, micro_batch_size=2, **share)
        return {name: p.detach() for name, p in task.named_parameters()}

    def check(group):
        expected = trained(samples)
        with group.joined() as ranks:
            close(trained(samples[ranks.rank :: 2], ranks), expected)
        torch.manual_seed(0)
        assert torch.equal(expected["branches.2.weight"], Branches().branches[2].weight)  # not even decayed

    in_processes(2, check)


def test_memory_that_runs_out_in_one_process():
    """At every place, at step 1 and 37: both go on, on the same rung, to the bits of undisturbed processes."""
    ladder = plan(2, *RUNGS, *RUNGS, *RUNGS, *RUNGS, RUNGS[0])

    def check(group):
        with group.joined() as ranks:
            undisturbed = Run(plan(2), ranks=ranks).train(38).state()
            run = Run(ladder, ranks=ranks)
            run.troubles = {("loss", 5): CPU} if ranks.rank == 0 else {("backward", 5): CUDA}  # and once in both
            if ranks.rank == 1:
                run.troubles |= {
                    (place, step): error for place in PLACES for step, error in ((1, CUDA), (37, CPU))
                }
            run.train(38)
            assert not run.troubles
            assert run.ladder.used == 9
            assert [each.policies for each in run.plans] == [rung.policies for rung in ladder.rungs]
            same(run.state(), undisturbed)
            numbers = ranks.gather(undisturbed["random"][1])
            assert numbers[0] != numbers[1]  # so that dropout is not the same in both

    in_processes(2, check)


def test_smaller_micro_batches_in_all_when_one_runs_out():
    def check(group):
        with group.joined() as ranks:
            whole = Run(plan(2), ranks=ranks, **SPLIT).train(12)
            run = Run(plan(2, plan(1, stem="full")), ranks=ranks, **SPLIT)
            if ranks.rank == 0:
                run.troubles = {("forward", 3): CUDA}
            run.train(12)
            assert (run.sizes[0], run.sizes[-1]) == (2, 1)
            torch.testing.assert_close(torch.tensor(run.losses), torch.tensor(whole.losses), rtol=1e-5, atol=0)
            close(dict(run.task.named_parameters()), dict(whole.task.named_parameters()))

    in_processes(2, check)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the data of a process")
def test_memory_that_really_runs_out_in_one_process():
    """A step takes about 150 MiB, with 80 left in one of them: the losses are the same to the bit."""
    full = dict.fromkeys(("stem", "stage1", "stage2", "decoder", "head", "loss"), "full")
    how = {**SPLIT, "side": 384}

    def check(group):
        fix_threshold()
        with group.joined() as ranks:
            plain = Run(plan(2), ranks=ranks, **how).train(2).losses
            run = Run(plan(2, plan(2, **full), plan(1, **full)), ranks=ranks, **how)
            if ranks.rank == 1:
                resource.setrlimit(resource.RLIMIT_DATA, (vm_data() + 80 * 2**20, resource.RLIM_INFINITY))
            assert run.train(2).losses == plain
            assert (run.sizes, run.ladder.used) == ([2, 2, 2], 1)

    in_processes(2, check)


class Failing(torch.optim.SGD):
    """Runs out of memory `times` times, before anything or after the first parameter."""

    times, torn = 0, False

    @torch.no_grad()
    def step(self, closure=None):
        if Failing.times:
            Failing.times -= 1
            if Failing.torn:
                self.param_groups[0]["params"][0].add_(1)
            raise CUDA
        return super().step(closure)


def test_updates_that_fail(caplog):
    """Twice in both before anything: undone. Half done, or not done, in one while the other has: the end."""

    def check(group):
        with group.joined() as ranks:
            plain = Run(plan(2), ranks=ranks, optimizer=torch.optim.SGD).train(3).state()
            run = Run(plan(2, *RUNGS), ranks=ranks, optimizer=Failing)
            Failing.times = 2
            same(run.train(3).state(), plain)
            assert run.ladder.used == 1
            for torn, times in ((True, 1), (False, 2)):
                run = Run(plan(2, *RUNGS), ranks=ranks, optimizer=Failing)
                Failing.times, Failing.torn = times * ranks.rank, torn
                with pytest.raises(CommonError, match=r"process 1: CUDA out of memory.*no longer the same"):
                    run.train(1)

    in_processes(2, check)


def test_a_plan_without_rungs_ends_both_alike():
    def check(group):
        def train():
            with group.joined() as ranks:
                run = Run(plan(2), ranks=ranks)
                if ranks.rank == 1:
                    run.troubles = {("loss", 2): CPU}
                run.train(3)

        with pytest.raises(SystemExit if group.rank else MemoryError) as caught:
            train()
        if group.rank == 0:
            assert str(caught.value).startswith("process 1: DefaultCPUAllocator: can't allocate memory")

    in_processes(2, check)


def test_half_precision_scales_alike():
    """An overflow in one process is one of all: the step is left out, the scale lowered, in both."""

    def check(group):
        with group.joined() as ranks:
            run = Run(plan(2), ranks=ranks, precision="16-mixed").train(1)
            before = run.scaler.get_scale()

            def overflow(grad):
                return grad * float("inf") if ranks.rank == 1 and run.progress.step == 1 else grad

            next(run.task.parameters()).register_hook(overflow)
            parameters = [p.detach().clone() for p in run.task.parameters()]
            run.train(2)
            assert run.scaler.get_scale() == before / 2
            assert all(torch.equal(p, q) for p, q in zip(run.task.parameters(), parameters, strict=True))

    in_processes(2, check)


def test_one_device_needs_no_group():
    fabric = make_fabric("cpu", "32-true")
    assert (fabric.world_size, dist.is_initialized()) == (1, False)
