"""Launchers of sweeps: what they are given, what stops them before anything starts, and jobs that really run."""

import json
import os
import sys
from pathlib import Path

import pytest
import torch.distributed as dist
import yaml
from omegaconf import OmegaConf

from hires.cli import launchers
from tests.command_lines import Hires, wrong

config = pytest.importorskip("hydra_plugins.hydra_submitit_launcher.config")
CONFIGS = Path(__file__).parents[2] / "configs" / "hydra" / "launcher"
SLURM, LOCAL = "hydra/launcher=submitit_slurm", "hydra/launcher=submitit_local"

SBATCH = """#!{python}
import os, subprocess, sys
script = sys.argv[1]
(tasks,) = [line.rpartition("=")[2].strip() for line in open(script) if "--ntasks-per-node=" in line]
environment = dict(os.environ, SLURM_JOB_ID="42", SLURM_JOB_NAME="hires", SLURM_NNODES="1")
environment.update(SLURM_JOB_NUM_NODES="1", SLURM_NTASKS=tasks, SLURM_NTASKS_PER_NODE=tasks)
environment.update(SLURM_JOB_NODELIST="127.0.0.1", SLURM_NODELIST="127.0.0.1")
folder = os.path.dirname(sys.argv[0])
command = f"bash {script} > {folder}/log 2>&1; touch {folder}/ended"
silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)  # submitit reads to the end of its pipes
subprocess.Popen(command, shell=True, env=environment, start_new_session=True, **silent)
print("Submitted batch job 42")
"""
"""Starts the job at once, in the place of the one of SLURM."""

SRUN = """#!{python}
import os, subprocess, sys
command = sys.argv[1:]
command = command[next(i for i, word in enumerate(command) if word == {python!r}):]
size = os.environ["SLURM_NTASKS"]
started = []
for rank in range(int(size)):
    ranks = dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID"), str(rank))
    tasks = dict(SLURM_STEP_NUM_TASKS=size, SLURM_STEP_NUM_NODES="1", SLURM_NODEID="0")
    started.append(subprocess.Popen(command, env=dict(os.environ, **ranks, **tasks)))
sys.exit(max(one.wait() for one in started))
"""
SACCT = """#!/bin/sh
echo 'JobID|State'
if [ -e "$(dirname "$0")/ended" ]; then echo '42|COMPLETED'; else echo '42|RUNNING'; fi
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with programs of SLURM's names, which run the tasks of a job on this machine."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in {"sbatch": SBATCH, "srun": SRUN, "sacct": SACCT, "scontrol": "#!/bin/sh\n"}.items():
        (folder / name).write_text(
            text.replace("{python!r}", repr(sys.executable)).replace("{python}", sys.executable)
        )
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize(("name", "plugins"), [("slurm", "SlurmQueueConf"), ("local", "LocalQueueConf")])
def test_the_plugins_keys_are_all_there(name: str, plugins: str) -> None:
    ours = yaml.safe_load((CONFIGS / f"submitit_{name}.yaml").read_text())
    assert set(ours) == set(OmegaConf.structured(getattr(config, plugins)))


def test_slurm_is_asked_for_what_the_training_needs(hires: Hires) -> None:
    overrides = ["trainer.devices=4", "trainer.num_nodes=2", "hydra.launcher.timeout_min=90"]
    flags = ["--cfg", "all", "-p", "hydra.launcher", "--resolve"]
    code, out, error = hires("train", SLURM, *overrides, *flags)
    assert (code, error) == (0, "")
    launcher = yaml.safe_load(out)
    asked = {key: launcher[key] for key in ("nodes", "tasks_per_node", "gpus_per_node", "timeout_min")}
    assert asked == {"nodes": 2, "tasks_per_node": 4, "gpus_per_node": 4, "timeout_min": 90}
    assert launcher["name"] == "hires-train"
    assert launcher["additional_parameters"] == {"signal": "USR1@120", "requeue": True}


def test_a_command_without_devices_is_one_task(hires: Hires) -> None:
    flags = ["--cfg", "all", "-p", "hydra.launcher.tasks_per_node", "--resolve"]
    assert hires("check-data", SLURM, *flags)[1].split()[-1] == "1"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["-m", SLURM, "hydra.launcher.partiton=gpu"], "did you mean hydra.launcher.partition?"),
        (["-m", SLURM, "+hydra.launcher.timeout=3"], "did you mean hydra.launcher.timeout_min?"),
        (["-m", SLURM, "hydra.swep.dir=x"], "did you mean hydra.sweep?"),
        (["-m", SLURM, "hydra.launcher.nodes=two"], "'two'"),
        (["-m", "hydra/launcher=submitit_slrm"], "did you mean hydra/launcher=submitit_slurm?"),
        (
            ["-m", "hydra/launcher=submitit_slrm", "hydra.launcher.qos=x"],
            "did you mean hydra/launcher=submitit_slurm?",
        ),
        ([SLURM], "add -m"),
        (["-m", SLURM, "trainer.devices=auto"], "trainer.devices: got auto"),
        (["-m", SLURM, "trainer.devices=4", "hydra.launcher.tasks_per_node=1"], "a task for each"),
        (["-m", LOCAL, "trainer.devices=2"], "one process each"),
    ],
)
def test_what_cannot_start_is_refused_in_a_line(
    hires: Hires, overrides: list[str], said: str, slurm: Path
) -> None:
    assert said in wrong(hires("train", *overrides))


def test_a_launcher_of_ones_own_extends_ours(hires: Hires, tmp_path: Path) -> None:
    file = tmp_path / "configs" / "hydra" / "launcher" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("defaults:\n  - submitit_slurm\n\npartition: gpu\n")
    own = ["--config-dir", str(tmp_path / "configs"), "hydra/launcher=mine", "trainer.devices=2"]
    code, out, error = hires("train", *own, "--cfg", "all", "-p", "hydra.launcher", "--resolve")
    assert (code, error) == (0, "")
    launcher = yaml.safe_load(out)
    assert (launcher["partition"], launcher["tasks_per_node"]) == ("gpu", 2)


def test_without_slurm(hires: Hires, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "needs sbatch and srun" in wrong(hires("train", "-m", SLURM))


def test_without_the_plugin_it_says_how_to_install_it(hires: Hires, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hydra_plugins.hydra_submitit_launcher", None)
    assert "pip install 'hires[slurm]'" in wrong(hires("train", "-m", SLURM))


def test_a_job_may_fail_after_the_sweep_has_ended(tmp_path: Path) -> None:
    launchers.expect_failures(str(tmp_path))
    for message in ("said first", "said later"):
        launchers.report_failure(str(tmp_path), 3, 2, message)
    assert launchers.failures(str(tmp_path)) == [(2, "said first")]
    launchers.report_failure(str(tmp_path), 4, 2, "nobody waits any more")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def sweep(shapes_overrides: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments of a sweep in tmp_path/sweep whose jobs are trainings of seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CONFIGS.parents[2]), os.environ.get("PYTHONPATH", "")]))
    kept = [
        text for text in shapes_overrides if not text.startswith(("run_dir=", "image_size=", "trainer.max_steps"))
    ]
    return ["train", "-m", *kept, f"hydra.sweep.dir={tmp_path / 'sweep'}"]


def results(sweep: Path) -> dict[str, int]:
    """Steps of every job that ended well."""
    return {path.parent.name: json.loads(path.read_text())["steps"] for path in sweep.glob("*/result.json")}


@pytest.mark.slow
def test_jobs_in_processes_of_their_own(hires: Hires, sweep: list[str], tmp_path: Path) -> None:
    """One of the two cannot train: the other one does, and the sweep says why and ends as the job would."""
    code, out, error = hires(*sweep, LOCAL, "image_size=64,63", "trainer.max_steps=2")
    assert code == 2, error
    assert str(tmp_path / "sweep") in out
    assert error == "job 1: image_size: got [63, 63], allowed: multiples of 32, for example [64, 64]\n"
    assert results(tmp_path / "sweep") == {"0": 2}
    (log,) = (path for path in (tmp_path / "sweep" / ".submitit").glob("*/*.err") if path.read_text())
    assert log.read_text() == error
    assert not (tmp_path / "sweep" / ".failed").exists()


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_gloo_available(), reason="gloo is not available")
def test_tasks_of_slurm_train_together(hires: Hires, sweep: list[str], tmp_path: Path, slurm: Path) -> None:
    """Programs in the place of SLURM's start two tasks with its variables, which become one training."""
    overrides = ["image_size=64", "trainer.max_steps=2", "trainer.devices=2", "hydra.launcher.gpus_per_node=null"]
    code, _, error = hires(*sweep, SLURM, *overrides)
    assert code == 0, error + (slurm / "log").read_text()
    assert results(tmp_path / "sweep") == {"0": 2}
    assert "2 processes, 2 of them here" in (tmp_path / "sweep" / "0" / "train.log").read_text()


@pytest.mark.slow
def test_a_sweep_goes_on_job_by_job(hires: Hires, sweep: list[str], tmp_path: Path) -> None:
    """As jobs do that were queued again: resume=auto is the run of the same job, not the newest one."""
    for steps in (2, 4):
        code, _, error = hires(*sweep, "image_size=64", "seed=0,1", "resume=auto", f"trainer.max_steps={steps}")
        assert code == 0, error
        assert results(tmp_path / "sweep") == {"0": steps, "1": steps}
    assert sorted(path.name for path in (tmp_path / "sweep").iterdir() if path.is_dir()) == ["0", "1"]
