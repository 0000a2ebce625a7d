"""The commands as functions, for notebooks and other programs.

Arguments are the overrides of the command line: `train("experiment=demo", "trainer.max_steps=20")`. Wrong ones
raise ConfigError, unusable files DataError, both with the line that the command would print.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, open_dict

from hires import instantiate, resuming, runs, verbosity
from hires.cli.compose import composed
from hires.interfaces import ConfigError, MemoryPlan
from hires.request import parse
from hires.run_files import read_json, records


@dataclass(frozen=True)
class Run:
    """A run directory."""

    path: Path

    @cached_property
    def config(self) -> DictConfig:
        """What it was trained with."""
        return runs.load_config(self.path)

    @property
    def result(self) -> dict[str, Any] | None:
        """What result.json holds; None before the training has ended."""
        file = self.path / "result.json"
        return read_json(file) if file.is_file() else None

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The records of metrics.jsonl so far, in order; a last one that is being written is left out."""
        return records(self.path)


def load_run(path: str | Path) -> Run:
    """A run by its directory. Raises DataError when it is none."""
    return Run(runs.existing_run(str(path)))


def train(*overrides: str) -> Run:
    """Trains, as `hires train` does, in this process.

    Raises ConfigError for several processes, unless torchrun or SLURM has started them.
    """
    with _composed("train", overrides) as cfg:
        _check_processes(cfg)
        outcome = import_module("hires.build").train(cfg)
    return Run(Path(outcome["run_dir"]))


def predict(
    run: Run | str | Path,
    source: str | Path | Sequence[str | Path],
    *,
    checkpoint: str = "best",
    out: str | Path | None = None,
    data: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    trainer: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Writes what a run says of images, as `hires predict` does; returns what predict.json holds.

    `source`: an image, a folder, a glob, a .txt list, or a list of paths. `settings` are those of `hires predict`
    (`probabilities="uint8"`, `score=0.4`); the mappings are values of the run's settings that are to be others.
    Images that failed are in the result, under `failures`.
    """
    module = import_module("hires.predict_images")
    outcome: dict[str, Any] = module.predict_images(
        run.path if isinstance(run, Run) else run,
        source,
        checkpoint=checkpoint,
        out=out,
        settings=module.PredictionSettings(**settings),
        data=data,
        evaluation=evaluation,
        trainer=trainer,
    )
    return outcome


def plan(*overrides: str) -> MemoryPlan:
    """The plan that `hires autobatch` finds; nothing is written.

    A search on this machine's own device runs its answer in a process of its own.
    """
    with _composed("autobatch", overrides) as cfg:
        plans = import_module("hires.plans")
        cfg = plans.as_a_training_would(cfg)
        found: MemoryPlan = plans.find_plan(cfg, import_module("hires.recipe").read_recipe(cfg))[0]
    return found


def _check_processes(cfg: DictConfig) -> None:
    """The others would be started by this process's own command line, which is another program's."""
    recipe = import_module("hires.recipe").read_recipe(resuming.continued(cfg)[0])
    if recipe.processes > 1 and not import_module("hires.engine.launch").started_from_outside():
        raise ConfigError(
            f"trainer.devices: got {recipe.processes} processes, allowed from Python: 1, unless torchrun or SLURM "
            "has started this one; use the command line, `hires train`"
        )


@contextmanager
def _composed(command: str, overrides: tuple[str, ...]) -> Iterator[DictConfig]:
    """The checked configuration of a command, as Hydra's while it runs."""
    cfg, node = composed(parse(command, overrides))
    instantiate.check(cfg, "", ())
    hydra = HydraConfig.instance()
    before, whole, level = hydra.cfg, cfg.copy(), verbosity.chosen()
    with open_dict(whole):
        whole.hydra = node
    try:
        verbosity.choose(cfg.log_level)
        hydra.set_config(whole)
        yield cfg
    finally:
        hydra.cfg = before
        verbosity.choose(level)
