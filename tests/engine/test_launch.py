"""How many processes a training has, and the command lines that start them."""

import sys
from types import SimpleNamespace

import pytest
from hydra.types import RunMode

from hires.engine import launch
from hires.engine.launch import processes, processes_here
from hires.engine.settings import TrainerSettings
from hires.interfaces import ConfigError

TORCHRUN = {"TORCHELASTIC_RUN_ID": "1", "LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8"}
SLURM = {"SLURM_STEP_NUM_TASKS": "6", "SLURM_STEP_NUM_NODES": "2"}
ONE_TASK = {"SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_JOB_ID": "7"}


def settings(**values):
    return TrainerSettings(accelerator="cpu", **values)


@pytest.mark.parametrize(
    ("environment", "here"),
    [({}, 1), (TORCHRUN, 4), (SLURM, 3), (ONE_TASK, 1)],
    ids=["none", "torchrun", "slurm", "one"],
)
def test_as_many_as_were_started(monkeypatch, environment, here):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert processes_here(settings(devices="auto")) == here
    assert processes(settings(devices="auto", num_nodes=2)) == 2 * here
    assert processes_here(settings(devices=5)) == 5


@pytest.mark.parametrize("environment", [TORCHRUN, SLURM], ids=["torchrun", "slurm"])
def test_another_number_than_was_started_is_refused(monkeypatch, environment):
    """Also one alone: each would train by itself, in one run directory."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for devices in (1, 2):
        with pytest.raises(ConfigError, match=r"set trainer.devices=[43] trainer.num_nodes=2"):
            launch.launch(settings(devices=devices))


def test_one_process_is_alone():
    fabric, ranks = launch.launch(settings())
    assert fabric is None
    assert (ranks.main, ranks.size, ranks.gather(3), ranks.by_main(lambda: 4)) == (True, 1, [3], 4)


def test_a_job_of_a_sweep_is_started_by_its_own_command_line(monkeypatch):
    words = ["hires", "train", "-m", "--config-dir", "mine", "a=1,2", "+b=3", "hydra.sweep.dir=x", "c=choice(4,5)"]
    job = SimpleNamespace(mode=RunMode.MULTIRUN, overrides=SimpleNamespace(task=["a=2", "+b=3", "c=5"]))
    monkeypatch.setattr(launch, "HydraConfig", SimpleNamespace(initialized=lambda: True, get=lambda: job))
    monkeypatch.setattr(sys, "argv", words)
    with launch._command_line_of_this_job():
        assert sys.argv == ["hires", "train", "--config-dir", "mine", "+b=3", "a=2", "c=5"]
    assert sys.argv == words


def test_what_fabric_does_not_take_is_told_in_one_line(monkeypatch):
    """SLURM's --ntasks says nothing of how many are on a machine."""
    for name, value in {**SLURM, "SLURM_NTASKS": "6", "SLURM_JOB_NAME": "train"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"trainer.devices: .*ntasks-per-node") as caught:
        launch.launch(settings(devices="auto", num_nodes=2))
    assert "\n" not in str(caught.value)
