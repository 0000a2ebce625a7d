"""Launchers that run the jobs of a sweep in processes of their own, here or on a cluster: `hydra/launcher=...`."""

import json
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from hires.errors import ConfigError, HiresError, TrainingError
from hires.instantiate import TARGET, no_such_key, unknown_key
from hires.request import Request, config_dir

GROUP = "hydra/launcher"
_FAILED = ".failed"  # a folder in that of a sweep
_PLUGIN = "hydra_plugins.hydra_submitit_launcher"
_SLURM, _LOCAL = (f"{_PLUGIN}.submitit_launcher.{name}Launcher" for name in ("Slurm", "Local"))
_FILES = {_SLURM: "submitit_slurm.yaml", _LOCAL: "submitit_local.yaml"}


def check(cfg: DictConfig, request: Request) -> None:
    """Raises ConfigError for a launcher that cannot start the jobs. `cfg` has hydra's node in it."""
    node, option = cfg.hydra.launcher, cfg.hydra.runtime.choices.get(GROUP)
    if option in (None, "basic"):
        return
    if str(node[TARGET]).startswith(_PLUGIN) and not _installed():
        raise ConfigError(
            f"{GROUP}: {option} needs the package hydra-submitit-launcher; pip install 'hires[slurm]' brings it"
        )
    if node[TARGET] in _FILES:
        _check_keys(node, config_dir() / GROUP / _FILES[node[TARGET]])
    if request.flags.cfg or request.flags.info:
        return
    if not request.flags.multirun:
        raise ConfigError(f"{GROUP}: {option} starts the jobs of a sweep; add -m (one job is a sweep too)")
    if node[TARGET] == _SLURM:
        _check_tasks(cfg, option)
        if not (shutil.which("sbatch") and shutil.which("srun")):
            raise ConfigError(
                f"{GROUP}: {option} needs sbatch and srun, which are not on the PATH; start it on a machine of a "
                f"SLURM cluster, or take {GROUP}=submitit_local for processes of this one"
            )
    if node[TARGET] == _LOCAL and _devices(cfg) != 1:
        raise ConfigError(
            f"{GROUP}: jobs of {option} are one process each, but trainer.devices is {_devices(cfg)}; leave out "
            f"{GROUP}={option}, and the jobs run one after the other"
        )


def _check_tasks(cfg: DictConfig, option: str) -> None:
    """SLURM starts all processes of a training: one that is a single task could not start the others."""
    node, devices = cfg.hydra.launcher, _devices(cfg)
    if devices == "auto":
        for key in ("tasks_per_node", "gpus_per_node"):
            if OmegaConf.is_interpolation(node, key):
                raise ConfigError(
                    f"trainer.devices: got auto; with {GROUP}={option} give the number on each machine, for which "
                    "SLURM is asked"
                )
    elif devices != node.tasks_per_node:
        raise ConfigError(
            f"hydra.launcher.tasks_per_node: got {node.tasks_per_node}, but trainer.devices is {devices}; SLURM "
            "has to start a task for each"
        )


def _check_keys(node: DictConfig, file: Path) -> None:
    allowed = [str(key) for key in yaml.safe_load(file.read_text(encoding="utf-8"))]
    for key in map(str, node):
        if key not in allowed:
            raise ConfigError(unknown_key("hydra.launcher", key, allowed))


def _devices(cfg: DictConfig) -> Any:
    return OmegaConf.select(cfg, "trainer.devices", default=1) or 1


def _installed() -> bool:
    try:
        return find_spec(_PLUGIN) is not None
    except ModuleNotFoundError:  # no plugin at all
        return False


def quiet() -> None:
    """Hydra would say that our files, which have the names of a plugin's, are read with its types; so they are."""
    warnings.filterwarnings("ignore", message=r"\s*'hydra/launcher/\w+' is validated against ConfigStore schema")


def key_problems(override: Override, request: Request) -> Iterator[str]:
    """What is wrong with a key below `hydra.`, of the launcher or another part that the overrides choose."""
    chosen = [text for text in request.overrides if text.lstrip("+").startswith("hydra/")]
    parts = override.key_or_group.split(".")
    if override.is_add() or override.is_force_add():
        return
    try:
        node: Any = request.compose(chosen)
    except HydraException:  # what is wrong is the choice
        return
    for depth, part in enumerate(parts):
        if not OmegaConf.is_dict(node):
            return
        if part not in node:
            where = ".".join(parts[:depth])
            allowed = [str(each) for each in node if not str(each).startswith("_")]
            near = get_close_matches(part, allowed, n=1)
            yield no_such_key(".".join(parts), f"{where}.{near[0]}" if near else None, where, allowed)
            return
        node = OmegaConf.select(node, part, throw_on_missing=False)


@contextmanager
def explained() -> Iterator[None]:
    """What a launcher raises for a job that left no result becomes one line; what the job printed says why."""
    try:
        yield
    except HiresError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "submitit":
            raise
        raise TrainingError(f"{GROUP}: {_said_by_submitit(str(error))}") from error


def _said_by_submitit(text: str) -> str:
    """Which job it is, and the last line of its log or traceback."""
    lines = [line.strip() for line in text.partition("You can check full logs")[0].splitlines()]
    first, *others = [line for line in lines if line.strip("-")] or ["a job left no result"]
    if others and others[0].startswith("has not"):
        first = f"{first} {others.pop(0)}"
    return "; ".join([first, *others[-1:]])


def sweep_dir(cfg: DictConfig, request: Request) -> str | None:
    """Where a sweep writes whose jobs run in other processes; None if there is none."""
    if not request.flags.multirun or cfg.hydra.runtime.choices.get(GROUP) in (None, "basic"):
        return None
    return str(cfg.hydra.sweep.dir)


def as_override(folder: str) -> str:
    """Keeps the time in a folder's name what it is now."""
    quoted = folder.replace("'", "\\'")
    return f"hydra.sweep.dir='{quoted}'"


def expect_failures(folder: str) -> None:
    """Makes the place for what jobs that fail say, without what those of an earlier sweep said.

    It is there before the jobs are, since network file systems remember for a while what they did not find.
    """
    shutil.rmtree(Path(folder) / _FAILED, ignore_errors=True)
    (Path(folder) / _FAILED).mkdir(parents=True)


def report_failure(folder: str, job: int, code: int, message: str) -> None:
    """Leaves what a job ended with to the process that started it. The first of a job's processes says it.

    Where the place is gone, that process has ended before the job; the job's own log has the message too.
    """
    with suppress(OSError), (Path(folder) / _FAILED / str(job)).open("x", encoding="utf-8") as file:
        json.dump([code, message], file)


def failures(folder: str) -> list[tuple[int, str]]:
    """Code and message of every job that failed, in order; they are taken away."""
    paths = sorted((Path(folder) / _FAILED).iterdir(), key=lambda path: int(path.name))
    found = [tuple(json.loads(path.read_text(encoding="utf-8"))) for path in paths]
    shutil.rmtree(Path(folder) / _FAILED, ignore_errors=True)
    return found
