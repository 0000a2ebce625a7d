"""Run directories: where they lie, what they keep of their configuration, how a run is found again."""

import os
import tempfile
from datetime import datetime
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from hires import hydra_job
from hires.config_values import plain
from hires.engine.files import write_text
from hires.engine.lock import check_free
from hires.interfaces import ConfigError, DataError
from hires.ops.plain_yaml import check_plain

CONFIG, LAST = "config.yaml", "checkpoints/last.pt"


def new_run_dir(given: str | None, folder: str | None = None) -> Path:
    """A new directory: the one given, or runs/<folder>/<timestamp>, never one that another run holds.

    The folder is the experiment unless it is said; the jobs of a sweep share a directory. Raises ConfigError
    when the one given already holds a run.
    """
    if given is None:
        own = Path("runs") / (folder or experiment()) / datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        return _exclusive(hydra_job.folder_in_sweep() or own)
    if not given.strip():
        raise ConfigError("run_dir: got an empty text, allowed: a folder, or null for one with a name of its own")
    run_dir = Path(given).expanduser()
    check_free(run_dir)
    if (run_dir / CONFIG).exists():
        raise ConfigError(f"run_dir: {run_dir} holds a run already; use resume={given}, or another directory")
    _check_writable(run_dir)
    return run_dir


def check_run_dir(given: str | None) -> None:
    """Raises ConfigError for a directory that `new_run_dir` would refuse, before what takes long."""
    if given is not None and given.strip():
        folder = Path(given).expanduser()
        there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise ConfigError(f"run_dir: {folder} cannot be written to; choose another")


def _check_writable(run_dir: Path) -> None:
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=run_dir):
            pass
    except OSError as error:
        raise ConfigError(f"run_dir: {run_dir} cannot be written to ({error.strerror}); choose another") from error


def _exclusive(wanted: Path) -> Path:
    """Creates the directory, or one with a number behind its name when another process was first."""
    candidate, number = wanted, 1
    while True:
        try:
            wanted.parent.mkdir(parents=True, exist_ok=True)
            candidate.mkdir()
            return candidate
        except FileExistsError:
            number += 1
            candidate = wanted.with_name(f"{wanted.name}-{number}")
        except OSError as error:
            raise ConfigError(
                f"run_dir: {candidate} cannot be made ({error.strerror}); give another with run_dir="
            ) from error


def experiment() -> str:
    """The name that the command line has chosen."""
    return hydra_job.choices().get("experiment") or "default"


def existing_run(given: str) -> Path:
    """A run directory that was given by name. Raises DataError when it is none."""
    run_dir = Path(given).expanduser()
    if not (run_dir / CONFIG).is_file():
        where = "" if run_dir.is_absolute() else f" below {os.getcwd()}"
        why = f"it has no {CONFIG}" if run_dir.is_dir() else f"there is no such folder{where}"
        raise DataError(f"{run_dir}: not a run directory, {why}; give one that `hires train` made")
    return run_dir


PATHS = (
    *("data_dir", "data.root", "data.cache_dir", "backbone.weights", "init_from"),
    *("memory.plan", "memory.offload_dir"),
)
"""Keys whose values are paths, relative ones from the working directory."""


def save_config(cfg: DictConfig, run_dir: Path) -> None:
    """Writes config.yaml: interpolations stay, relative paths become absolute."""
    saved = independent(cfg)
    saved.run_dir, saved.resume = os.path.abspath(run_dir), None
    write_text(run_dir / CONFIG, OmegaConf.to_yaml(saved))


def independent(cfg: DictConfig) -> DictConfig:
    """A copy of a configuration that does not depend on the working directory."""
    copy: DictConfig = OmegaConf.create(plain(cfg))
    copy.data_dir = cfg.data_dir  # may come from the environment
    for key in PATHS:
        parent, _, name = key.rpartition(".")
        node = (copy.get(parent) if parent else copy) or {}
        if node.get(name) is not None and not OmegaConf.is_interpolation(node, name):
            node[name] = os.path.abspath(os.path.expanduser(node[name]))
    return copy


def load_config(run_dir: Path) -> DictConfig:
    """The configuration of a run. Raises DataError when the file is not one."""
    cfg = read_config(run_dir / CONFIG)
    cfg.run_dir = str(run_dir)
    return cfg


def read_config(path: Path) -> DictConfig:
    """The configuration that a run has kept in a file. Raises DataError when it is not one."""
    try:
        check_plain(path.read_text(encoding="utf-8"))  # OmegaConf itself would copy what aliases repeat
        cfg = OmegaConf.load(path)
    except (OSError, ValueError, OmegaConfBaseException) as error:
        raise DataError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    except YAMLError as error:
        raise DataError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(cfg, DictConfig) or "data" not in cfg:
        raise DataError(f"{path}: not the configuration of a training")
    return cfg


def checkpoint_path(run_dir: Path, name: str) -> Path:
    """The file of a checkpoint: best, last, or a path. `best` is `last` in a run that evaluated nothing."""
    if name not in ("best", "last"):
        return Path(name).expanduser()
    path = run_dir / "checkpoints" / f"{name}.pt"
    return path if path.exists() or name == "last" else run_dir / LAST


def weights_path(given: str) -> Path:
    """The file of weights to start from: a checkpoint, or the best one of a run directory."""
    path = Path(given).expanduser()
    return checkpoint_path(path, "best") if path.is_dir() else path


def with_given(cfg: DictConfig, given: DictConfig) -> DictConfig:
    """A run's configuration, in place, with the values that a command on runs gives, where they are not null.

    Raises ConfigError for a size that its views do not have.
    """
    if given.data_dir is not None:
        cfg.data_dir = given.data_dir
    for group in ("data", "evaluation", "trainer"):
        for key, value in given.get(group, {}).items():
            if value is not None:
                cfg[group][key] = value
    idle, used = ("image_size", "window") if cfg.evaluation.fit == "window" else ("window", "image_size")
    if given.evaluation.get(idle) is not None:
        raise ConfigError(
            f"evaluation.{idle}: got {given.evaluation[idle]}, allowed: null with evaluation.fit="
            f"{cfg.evaluation.fit}, whose size is evaluation.{used}"
        )
    return cfg
