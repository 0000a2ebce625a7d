"""Saved tensors in files come back as they were."""

import os

import pytest
import torch
from blocks import Trunk, assert_same, batch_norm, total
from torch import nn

from hires.interfaces import ConfigError, TrainingError
from hires.memory import offload
from hires.memory.checkpointing import apply_policies, give_policies
from hires.memory.meter import LivePeak, tensors_of
from hires.memory.offload import DiskOffload
from hires.memory.units import find_units


@pytest.fixture(autouse=True)
def _everything_counts(monkeypatch):
    monkeypatch.setattr(offload, "SMALLEST", 1)


def gradients(network: nn.Module, image: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(3)
    network.zero_grad()
    total(network(image)).backward()
    return [parameter.grad.clone() for parameter in network.parameters()]


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_offload_changes_nothing(tmp_path, memory_format):
    torch.manual_seed(0)
    network = Trunk(batch_norm(None)).to(memory_format=memory_format)
    image = torch.randn(2, 3, 16, 16).contiguous(memory_format=memory_format)
    expected = gradients(network, image)
    apply_policies(
        network, find_units(network, network.stages()), "offload", offload=DiskOffload(tmp_path / "new")
    )
    assert_same(expected, gradients(network, image))
    assert not os.listdir(tmp_path / "new")  # the files have no names


def test_what_is_offloaded_is_not_in_memory(tmp_path):
    network, kept = Trunk(batch_norm(0.1)), {}
    units = find_units(network, network.stages())
    for policy in ("none", "offload"):
        apply_policies(network, units, policy, offload=DiskOffload(tmp_path))
        with LivePeak(tensors_of(network)) as meter:
            loss = total(network(torch.randn(2, 3, 64, 64)))
            kept[policy] = meter.live - meter.start
        del loss
    assert kept["offload"] < 0.3 * kept["none"]


def test_a_cpu_without_a_folder_keeps_everything(caplog):
    network = Trunk(batch_norm(0.1))
    with caplog.at_level("INFO"):
        units = find_units(network, network.stages())
        give_policies(network, units, "offload", device=torch.device("cpu"), offload_dir=None)
    assert caplog.text.count("does nothing on a CPU unless memory.offload_dir is set") == 1
    assert not any("forward" in module.__dict__ for module in network.modules())


def test_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"memory\.offload_dir: .*file cannot be used \(File exists\)"):
        DiskOffload(tmp_path / "file")


def test_a_full_disk(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(TrainingError, match="cannot hold what is offloaded"):
        DiskOffload(tmp_path).store(torch.zeros(3))
    assert not os.listdir(tmp_path)
