"""`hires train trainer.strategy=fsdp2` in two processes on a CPU: the training and the files of one process."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.integration.test_distributed_training import PLAIN, alike, boxes, checkpoint, overrides
from tests.processes import Group, in_processes

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
