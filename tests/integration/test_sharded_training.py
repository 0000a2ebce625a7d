"""`hires train trainer.strategy=fsdp2` in two processes on a CPU: the training and the files of one process."""

import shutil
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from hires.cli import run_command
from hires.engine.trainer import Trainer
from hires.tasks.segmentation import SegmentationTask
from tests.integration.test_distributed_training import PLAIN, alike, boxes, checkpoint, overrides, records, same
from tests.processes import Group, in_processes
from tests.recovering import CUDA

__all__ = ["boxes", "overrides"]  # fixtures
pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="gloo is not available")
TWO = ("trainer.devices=2", "trainer.strategy=fsdp2")
UNEVEN = ("batch_size=5", "micro_batch_size=1")  # one process has three micro-batches, the other two


def trained(group: Group, *how: str) -> None:
    answer = group.hires("train", *how)
    assert answer.code == 0, answer.error
    assert group.rank == 0 or answer.error == ""


def in_one_and_in_two(how: list[str], folder: Path) -> tuple[Path, Path]:
    """The same training in one process, and split over two."""
    one, two = folder / "one", folder / "two"
    in_processes(1, lambda group: trained(group, *how, f"run_dir={one}"))
    in_processes(2, lambda group: trained(group, *how, *TWO, f"run_dir={two}"))
    return one, two


def test_segmentation(overrides, tmp_path):
    """The training of one process to rounding; its checkpoint is one of one process, and goes on there."""
    how = [*overrides, *PLAIN, *UNEVEN, "trainer.ema_decay=0.9"]
    one, two = in_one_and_in_two(how, tmp_path)
    alike(two, one)
    mine, expected = checkpoint(two), checkpoint(one)
    assert [*mine["task"]] == [*expected["task"]]
    assert [*mine["ema"]] == [*expected["ema"]]
    for part in ("ema", "task"):
        for name, value in expected[part].items():
            assert (mine[part][name] - value).norm() <= 1e-5 * value.norm().clamp(min=1e-6), name
    for name, state in expected["optimizer"]["state"].items():
        torch.testing.assert_close(mine["optimizer"]["state"][name], state, rtol=1e-3, atol=1e-5)

    def alone(group: Group) -> None:
        answer = group.hires("evaluate", f"run={two}")
        assert answer.code == 0, answer.error
        trained(group, f"resume={two}", "trainer.devices=1", "trainer.strategy=auto", "trainer.max_steps=5")

    in_processes(1, alone)
    assert checkpoint(two)["progress"]["step"] == 5


@pytest.mark.slow
def test_detection(boxes, tmp_path):
    alike(*reversed(in_one_and_in_two([*boxes, *PLAIN, "micro_batch_size=1"], tmp_path)))


@pytest.mark.slow
def test_a_resumed_training_ends_in_the_same_bits(overrides, tmp_path):
    """Also with BatchNorm and random numbers of their own; resumed as ddp, and one of ddp split, to rounding."""
    how = [*overrides, *PLAIN[:3], "trainer.ema_decay=0.9", "trainer.checkpoint_every=1", "evaluation.every=2"]
    whole, stopped, of_ddp, by_ddp = (tmp_path / name for name in ("whole", "stopped", "of_ddp", "by_ddp"))

    def trained_to_three(group: Group, *how: str) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Trainer, "_after_step", stop)
            assert group.hires("train", *how).code == 130

    after_step = Trainer._after_step

    def stop(self: Trainer, batch_size: int) -> None:
        after_step(self, batch_size)
        if self.progress.step == 3:
            raise KeyboardInterrupt

    def check(group: Group) -> None:
        random = "backbone.drop_path_rate=0.2"
        trained(group, *how, *TWO, random, f"run_dir={whole}")
        trained_to_three(group, *how, *TWO, random, f"run_dir={stopped}")
        if group.rank == 0:
            shutil.copytree(stopped, by_ddp)
        torch.rand(7)
        trained(group, f"resume={stopped}")
        trained(group, f"resume={by_ddp}", "trainer.strategy=ddp")
        trained_to_three(group, *how, TWO[0], random, f"run_dir={of_ddp}")
        trained(group, f"resume={of_ddp}", "trainer.strategy=fsdp2")

    in_processes(2, check)
    for name in ("last", "best"):
        same(checkpoint(stopped, name), checkpoint(whole, name))
    for kind in ("train", "evaluate"):
        assert records(stopped, kind) == records(whole, kind)
    alike(by_ddp, whole)
    alike(of_ddp, whole)


@pytest.mark.slow
def test_memory_that_runs_out_in_one_process(overrides, tmp_path):
    def check(group: Group) -> None:
        forward, calls = SegmentationTask.forward, []

        def short(self, *args):
            calls.append(1)
            if group.rank == 1 and len(calls) == 6:
                raise CUDA
            return forward(self, *args)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(SegmentationTask, "forward", short)
            how = ["micro_batch_size=1", "trainer.checkpoint_every=1", f"run_dir={tmp_path / 'run'}"]
            answer = group.hires("train", *overrides, *TWO, *how)
        assert answer.code == 1
        said = ("one of its processes has ended", "out of memory in process 1 (CUDA out of memory.")[group.rank]
        assert said in answer.error.splitlines()[-1]
        assert "Traceback" not in answer.error

    in_processes(2, check)
    assert checkpoint(tmp_path / "run")["progress"]["step"] == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["trainer.devices=1"], "trainer.strategy: got fsdp2 with one process"),
        (["trainer.precision=16-mixed"], "trainer.precision: got 16-mixed, allowed with trainer.strategy=fsdp2"),
        (["trainer.compile=true"], "trainer.compile: got true, allowed with trainer.strategy=fsdp2: false"),
        (["memory.maximize=batch"], "memory: `auto` and memory.maximize are for processes that keep all"),
        (
            ["memory.activation_checkpointing=offload"],
            "memory.activation_checkpointing: got offload, allowed with trainer.strategy=fsdp2: none, selective",
        ),
    ],
)
def test_what_cannot_be_split_is_refused(overrides, tmp_path, capsys, more, message):
    """Before another process is started."""
    assert run_command("train", [*overrides, *TWO, *more, f"run_dir={tmp_path / 'run'}"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_plans_for_split_parameters_are_not_searched_for(capsys, tmp_path):
    how = ["model.num_classes=3", "backbone.pretrained=false", *TWO, f"run_dir={tmp_path / 'run'}"]
    assert run_command("autobatch", how) == 2
    assert "memory: `auto` and memory.maximize are for processes that keep all" in capsys.readouterr().err
