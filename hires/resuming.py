"""Resuming: which run goes on, and what of its configuration the command line may change."""

import logging
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from hires import hydra_job
from hires.config_values import leaves
from hires.engine.lock import check_free, holder
from hires.engine.lost import check_not_lost
from hires.engine.slurm import is_requeued, job_id
from hires.interfaces import ConfigError
from hires.runs import CONFIG, existing_run, experiment, independent, load_config

log = logging.getLogger(__name__)

_ABSENT = object()
_ONE_VALUE = ("memory.activation_checkpointing",)
"""Keys whose mappings are values, all of which another one replaces."""
_WHICH_RUN = ("resume", "allow_targets", "run_dir", "experiment", "run_config", "log_level")
"""Keys of the command line that say which run to resume, not what to change in it."""
_MAY_CHANGE = (
    *("trainer.", "evaluation.", "scheduler.", "logger.", "optimizer.lr", "optimizer.weight_decay"),
    *("micro_batch_size", "memory.", "data_dir", "data.root", "data.workers", "data.cache_", "data.on_error"),
    "data.max_pixels",
)
"""Keys (or their beginnings) that a resumed run may have otherwise; all else would make it another run."""


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
    return _changed(kept, independent(cfg), hydra_job.said(), _found_by_plan(cfg, kept)), run_dir


def _found_by_plan(cfg: DictConfig, kept: DictConfig) -> tuple[str, ...]:
    """Keys in which a run has what was found instead of what its command line says, which may be given again."""
    memory = cfg.memory
    found: tuple[str, ...] = ("image_size", "micro_batch_size", "memory.activation_checkpointing")
    if memory.maximize is None and memory.plan is None:
        found = tuple(key for key in found if OmegaConf.select(cfg, key) == "auto")
    if not found:
        return ()
    scaled = ("batch_size",) if memory.scale_batch_size else ()
    # a plan may have lowered it; less than that may be asked for
    views, most = (OmegaConf.select(each, "evaluation.batch_size", default=1) for each in (cfg, kept))
    lowered = ("evaluation.batch_size",) if views > most else ()
    return (*found, *scaled, *lowered, "memory.maximize", "memory.plan")


def _find_run(cfg: DictConfig) -> Path | None:
    """The run to resume. For `auto` the one in run_dir, or the newest of the experiment; None without any.

    A job of a sweep has its own directory, and a job that SLURM starts again goes on with the run that it began.
    """
    if cfg.resume != "auto":
        return existing_run(cfg.resume)
    own = cfg.run_dir or hydra_job.folder_in_sweep()
    if own is not None:
        given = Path(own).expanduser()
        return given if (given / CONFIG).is_file() else None
    saved = [(path.parent.parent, path) for path in (Path("runs") / experiment()).glob("*/checkpoints/last*.pt")]
    if is_requeued():
        began = {run: holder(run) for run, _ in saved}
        saved = [each for each in saved if (by := began[each[0]]) and by.job == job_id()] or saved
    newest = max(saved, key=lambda each: (each[1].stat().st_mtime, each[0].name), default=None)
    return newest[0] if newest else None


def _changed(cfg: DictConfig, given: DictConfig, keys: list[str], but: tuple[str, ...] = ()) -> DictConfig:
    """A run's configuration with the values that the command line gives below some keys, `but` those.

    What is as it was may be given too, so that the command line of a run with `resume=auto` continues it.
    Raises ConfigError for a value that a resumed run may not change.
    """
    old, new = dict(leaves(cfg, _ONE_VALUE)), dict(leaves(given, _ONE_VALUE))
    differ = {
        leaf: None
        for key in keys
        if key not in _WHICH_RUN
        for leaf in dict.fromkeys([*old, *new])
        if leaf not in but
        and _below(leaf, key)
        and old.get(leaf, _ABSENT) != new.get(leaf, _ABSENT)
        # a key that is newer than the run counts only where it is named itself
        and (leaf in old or leaf == key or leaf not in new)
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
    old, new = dict(leaves(load_config(run_dir), _ONE_VALUE)), dict(leaves(independent(cfg), _ONE_VALUE))
    changed = [key for key in new if key not in _WHICH_RUN and key in old and old[key] != new[key]]
    if changed:
        log.info("From now on: %s", ", ".join(f"{key}={new[key]} (was {old[key]})" for key in changed))
