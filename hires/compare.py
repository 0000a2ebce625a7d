"""The command `compare`: the same training under several settings, step by step in turns."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from hires import hydra_job, runs
from hires.compare_runs import found_of_runs
from hires.compare_settings import Setting, named
from hires.compare_turns import take_turns
from hires.config_values import settings_of
from hires.engine.display import Display, Terminal, log_to
from hires.engine.files import jsonable, write_json, write_text
from hires.interfaces import ConfigError, ImageSource
from hires.measured_memory import measure_memory
from hires.recipe import Count, read_recipe
from hires.run_files import of_a_run
from hires.settings import Settings
from hires.sharding import check_whole
from hires.trainings import Material, open_material
from hires.unplanned import settled_for
from hires.visualize import run_comparison
from hires.visualize.comparison import page, table

log = logging.getLogger(__name__)

RESULT, PAGE = "compare.json", "compare.html"


@dataclass(frozen=True)
class Options(Settings):
    """How to compare."""

    steps: Count = 10
    evaluate: bool = False
    measure_memory: bool = True


def compare(cfg: DictConfig, settings: dict[str, Setting] | None = None) -> dict[str, Any]:
    """Compares the settings, the first of which is the reference, or finished runs where there are none.

    Returns what it writes to compare.json.
    """
    console = Terminal()
    log_to(console, None)
    if settings is None:
        return _compare_runs(cfg, console)
    options = _options(cfg)
    settings = {name: _settled(setting) for name, setting in settings.items()}
    materials = _materials(settings, options)
    run_dir = _run_dir(cfg.run_dir)
    log.info("Comparing %s: %d steps each, in turns", ", ".join(settings), options.steps)
    with Display(console, options.steps) as display:
        found = take_turns(materials, options.steps, options.evaluate, display)
    # nothing of the trainings is left, so that their memory does not stand in the way of what is measured now
    outcome = {
        "command": "compare",
        "run_dir": str(run_dir),
        "overrides": hydra_job.overrides(),
        "reference": next(iter(settings)),
        "steps": options.steps,
        "settings": {
            name: {"overrides": setting.overrides, **_memory(name, setting, options), **found[name]}
            for name, setting in settings.items()
        },
    }
    write_json(run_dir / RESULT, outcome)
    write_text(run_dir / PAGE, page(outcome))
    console.print(table(outcome))
    log.info("Done: %s", run_dir / PAGE)
    return outcome


def _settled(setting: Setting) -> Setting:
    said = [*hydra_job.said(), *hydra_job.said(setting.overrides)]
    return setting._replace(cfg=settled_for("compare", setting.cfg, said))


def _compare_runs(cfg: DictConfig, console: Terminal) -> dict[str, Any]:
    if cfg.settings is not None:
        raise ConfigError("settings: belongs to trainings that are still to be made; leave it out beside runs=")
    with of_a_run("runs"):
        found = found_of_runs(cfg.runs)
        text, shown = run_comparison.page(jsonable(found)), run_comparison.table(jsonable(found))
    run_dir = _run_dir(cfg.run_dir)
    outcome = {"command": "compare", "run_dir": str(run_dir), **found}
    write_json(run_dir / RESULT, outcome)
    write_text(run_dir / PAGE, text)
    console.print(shown)
    log.info("Done: %s", run_dir / PAGE)
    return outcome


def _options(cfg: DictConfig) -> Options:
    if cfg.resume is not None:
        raise ConfigError("resume: a comparison begins anew; init_from= begins with the weights of a run")
    return settings_of(Options, cfg)


def _materials(settings: dict[str, Setting], options: Options) -> dict[str, Material]:
    """What each setting is made of. Raises ConfigError for the first thing that is wrong in one."""
    recipes = {}
    for name, setting in settings.items():
        with named(name):
            recipes[name] = read_recipe(setting.cfg)
            check_whole(recipes[name])
            if recipes[name].processes > 1:
                raise ConfigError(
                    f"trainer.devices: got {recipes[name].processes} processes, but settings are compared in one; "
                    "set trainer.devices=1 trainer.num_nodes=1"
                )
    materials, opened = {}, dict[str, ImageSource]()
    for name, setting in settings.items():
        with named(name):
            materials[name] = open_material(recipes[name], setting.cfg, opened)
            if options.evaluate and not recipes[name].data.has_split("val"):
                raise ConfigError("evaluate: got true, but the data has no validation split")
    return materials


def _run_dir(given: str | None) -> Path:
    if given and any((Path(given).expanduser() / file).exists() for file in (RESULT, runs.CONFIG)):
        raise ConfigError(f"run_dir: {given} holds results already; choose another directory")
    return runs.new_run_dir(given, "compare")


def _memory(name: str, setting: Setting, options: Options) -> dict[str, int | None]:
    if not options.measure_memory:
        return {"allocated": None, "reserved": None}
    log.info("Measuring the memory of %s", name)
    peak = measure_memory(name, setting.cfg)
    return {"allocated": peak.allocated, "reserved": peak.reserved}
