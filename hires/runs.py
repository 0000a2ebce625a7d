"""Run directories: where they lie, what they keep of their configuration, how a run is found again."""

import logging
import os
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from hires.engine.files import write_text
from hires.engine.lock import check_free, holder
from hires.engine.lost import check_not_lost
from hires.engine.slurm import is_requeued, job_id
from hires.interfaces import ConfigError, DataError
from hires.ops.plain_yaml import check_plain

log = logging.getLogger(__name__)

CONFIG, LAST = "config.yaml", "checkpoints/last.pt"


def new_run_dir(given: str | None, folder: str | None = None) -> Path:
    """A new directory: the one given, or runs/<folder>/<timestamp>, never one that another run holds.

    The folder is the experiment unless it is said; the jobs of a sweep share a directory. Raises ConfigError
    when the one given already holds a run.
    """
    if given is None:
        return _exclusive(_default_run_dir(folder or _experiment()))
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


def _default_run_dir(folder: str) -> Path:
    if _in_sweep():
        return Path(HydraConfig.get().sweep.dir) / str(HydraConfig.get().job.num)
    return Path("runs") / folder / datetime.now().strftime("%Y-%m-%d_%H-%M-%S")


def _in_sweep() -> bool:
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


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


def continued(cfg: DictConfig) -> tuple[DictConfig, Path | None]:
    """The configuration to train with, and the run to resume if there is one.

    A resumed run has its own configuration, with what the command line may change in it.
    """
    run_dir = _find_run(cfg) if cfg.resume else None
    if run_dir is None:
        return cfg, None
    check_free(run_dir)
    kept = load_config(run_dir)
    check_not_lost(run_dir, OmegaConf.select(kept, "trainer.checkpoint_every", default=0))
    overrides = HydraConfig.get().overrides.task if HydraConfig.initialized() else []
    keys = [override.partition("=")[0].lstrip("+~") for override in overrides]
    return _changed(kept, _independent(cfg), keys, _found_by_plan(cfg)), run_dir


def _found_by_plan(cfg: DictConfig) -> tuple[str, ...]:
    """Keys in which a run has what was found instead of what its command line says, which may be given again."""
    memory = cfg.memory
    found: tuple[str, ...] = ("image_size", "micro_batch_size", "memory.activation_checkpointing")
    if memory.maximize is None and memory.plan is None:
        found = tuple(key for key in found if OmegaConf.select(cfg, key) == "auto")
    if not found:
        return ()
    scaled = ("batch_size",) if memory.scale_batch_size else ()
    return (*found, *scaled, "memory.maximize", "memory.plan", "evaluation.batch_size")


def _find_run(cfg: DictConfig) -> Path | None:
    """The run to resume. For `auto` the one in run_dir, or the newest of the experiment; None without any.

    A job of a sweep has its own directory, and a job that SLURM starts again goes on with the run that it began.
    """
    if cfg.resume != "auto":
        return existing_run(cfg.resume)
    own = cfg.run_dir or (_default_run_dir("") if _in_sweep() else None)
    if own is not None:
        given = Path(own).expanduser()
        return given if (given / CONFIG).is_file() else None
    saved = [(path.parent.parent, path) for path in (Path("runs") / _experiment()).glob("*/checkpoints/last*.pt")]
    if is_requeued():
        began = {run: holder(run) for run, _ in saved}
        saved = [each for each in saved if (by := began[each[0]]) and by.job == job_id()] or saved
    newest = max(saved, key=lambda each: (each[1].stat().st_mtime, each[0].name), default=None)
    return newest[0] if newest else None


def _experiment() -> str:
    choices = HydraConfig.get().runtime.choices if HydraConfig.initialized() else {}
    return choices.get("experiment") or "default"


def existing_run(given: str) -> Path:
    """A run directory that was given by name. Raises DataError when it is none."""
    run_dir = Path(given).expanduser()
    if not (run_dir / CONFIG).is_file():
        where = "" if run_dir.is_absolute() else f" below {os.getcwd()}"
        why = f"it has no {CONFIG}" if run_dir.is_dir() else f"there is no such folder{where}"
        raise DataError(f"{run_dir}: not a run directory, {why}; give one that `hires train` made")
    return run_dir


_PATHS = ("data_dir", "data.root", "backbone.weights", "init_from", "data.cache_dir")


def save_config(cfg: DictConfig, run_dir: Path) -> None:
    """Writes config.yaml: interpolations stay, relative paths become absolute."""
    saved = _independent(cfg)
    saved.run_dir, saved.resume = os.path.abspath(run_dir), None
    write_text(run_dir / CONFIG, OmegaConf.to_yaml(saved))


def _independent(cfg: DictConfig) -> DictConfig:
    """A copy of a configuration that does not depend on the working directory."""
    copy: DictConfig = OmegaConf.create(OmegaConf.to_container(cfg, resolve=False))  # type: ignore[assignment]
    copy.data_dir = cfg.data_dir  # may come from the environment
    for key in (*_PATHS, "memory.plan", "memory.offload_dir"):
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


_WHICH_RUN = ("resume", "allow_targets", "run_dir", "experiment", "run_config", "log_level")
"""Keys of the command line that say which run to resume, not what to change in it."""
_MAY_CHANGE = (
    *("trainer.", "evaluation.", "scheduler.", "logger.", "optimizer.lr", "optimizer.weight_decay"),
    *("micro_batch_size", "memory.", "data_dir", "data.root", "data.workers", "data.cache_", "data.on_error"),
    "data.max_pixels",
)
"""Keys (or their beginnings) that a resumed run may have otherwise; all else would make it another run."""


def _changed(cfg: DictConfig, given: DictConfig, keys: list[str], but: tuple[str, ...] = ()) -> DictConfig:
    """A run's configuration with the values that the command line gives below some keys, `but` those.

    What is as it was may be given too, so that the command line of a run with `resume=auto` continues it.
    Raises ConfigError for a value that a resumed run may not change.
    """
    old, new = dict(_leaves(cfg)), dict(_leaves(given))
    differ = {
        leaf: None
        for key in keys
        if key not in _WHICH_RUN
        for leaf in dict.fromkeys([*old, *new])
        if leaf not in but and _below(leaf, key) and old.get(leaf, _ABSENT) != new.get(leaf, _ABSENT)
    }
    may = [leaf for leaf in differ if leaf in old and leaf in new and leaf.startswith(_MAY_CHANGE)]
    wrong = [
        f"{leaf}: got {new.get(leaf)}, but the run has {old.get(leaf, 'no such key')}"
        for leaf in differ
        if leaf not in may
    ]
    if wrong:
        allowed = f" (it can change {', '.join(may)})" if may else ""
        raise ConfigError(
            f"{'; '.join(wrong)}, which resuming cannot change{allowed}; start another run with init_from=; "
            f"what may change: {', '.join(f'{key}*' if key[-1] in '._' else key for key in _MAY_CHANGE)}"
        )
    for leaf in may:
        OmegaConf.update(cfg, leaf, new[leaf], merge=False)
    return cfg


def _below(leaf: str, key: str) -> bool:
    return leaf == key or leaf.startswith(f"{key}.") or key.startswith(f"{leaf}.")


def tell_changes(run_dir: Path, cfg: DictConfig) -> None:
    """Says in one line what a resumed run has otherwise than before."""
    old, new = dict(_leaves(load_config(run_dir))), dict(_leaves(_independent(cfg)))
    changed = [key for key in new if key not in _WHICH_RUN and key in old and old[key] != new[key]]
    if changed:
        log.info("From now on: %s", ", ".join(f"{key}={new[key]} (was {old[key]})" for key in changed))


_ABSENT = object()
_ONE_VALUE = ("memory.activation_checkpointing",)
"""Keys whose mappings are values, all of which another one replaces."""


def _leaves(cfg: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values below a configuration, interpolations as they are written; lists are values."""
    plain: Any = OmegaConf.to_container(cfg, resolve=False) if OmegaConf.is_config(cfg) else cfg
    for key, value in plain.items():
        if isinstance(value, dict) and value and f"{prefix}{key}" not in _ONE_VALUE:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


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
    """A run's configuration with the values that an evaluation gives, where they are not null.

    Raises ConfigError for a size that its views do not have.
    """
    if given.data_dir is not None:
        cfg.data_dir = given.data_dir
    for group in ("data", "evaluation", "trainer"):
        for key, value in given[group].items():
            if value is not None:
                cfg[group][key] = value
    idle, used = ("image_size", "window") if cfg.evaluation.fit == "window" else ("window", "image_size")
    if given.evaluation[idle] is not None:
        raise ConfigError(
            f"evaluation.{idle}: got {given.evaluation[idle]}, allowed: null with evaluation.fit="
            f"{cfg.evaluation.fit}, whose size is evaluation.{used}"
        )
    return cfg
