"""The command `check-data`: reads every file of a data set and says what is broken or odd, and what to set."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hires import hydra_job, runs
from hires.data.checks.finding import SEVERITIES, Finding
from hires.data.checks.survey import Shown, Survey, survey
from hires.data.splits import SPLITS
from hires.engine.display import Terminal, log_to
from hires.engine.files import write_json, write_text
from hires.interfaces import DataError
from hires.proposals import Proposal, proposals
from hires.proposed_config import FILE, command_for, proposed_text
from hires.recipe import Recipe, read_recipe
from hires.visualize.data import page, summary

log = logging.getLogger(__name__)

RESULT, PAGE = "data.json", "data.html"
_SECONDS = 10  # between two lines of progress where there is no terminal


def check_data(cfg: DictConfig) -> dict[str, Any]:
    """Reads the data set of a configuration; returns what it writes to data.json.

    Raises DataError at the end if training would stop or be distorted, so that the exit code is 1.
    """
    console, begin = Terminal(), time.perf_counter()
    log_to(console, None)
    recipe = read_recipe(cfg)
    with _progress(console) as progress:
        seen = survey(recipe.data, shown_by(recipe), progress)
    chosen = proposals(recipe, seen)
    run_dir = runs.new_run_dir(cfg.run_dir, "check-data")  # only now: whatever was wrong has been said
    outcome = {
        "command": "check-data",
        "run_dir": str(run_dir),
        "overrides": hydra_job.overrides(),
        **described(recipe, seen, chosen),
        "proposed": {"file": str(run_dir / FILE), "command": command_for(run_dir)},
        "seconds": time.perf_counter() - begin,
    }
    console.print(*summary(outcome), sep="\n")  # before files: where these cannot be written this is all there is
    write_text(run_dir / FILE, proposed_text(cfg, run_dir, chosen))
    write_json(run_dir / RESULT, outcome)
    write_text(run_dir / PAGE, page(outcome))
    log.info("Done: %s", run_dir / PAGE)
    errors = outcome["counts"]["error"]
    if errors:
        raise DataError(f"{recipe.data.root}: {errors} kind(s) of errors, see above or {run_dir / PAGE}")
    return outcome


def shown_by(recipe: Recipe) -> Shown:
    """How the training of a recipe shows images."""
    neck = getattr(recipe.model, "neck", None)
    stride = 2 ** min(neck.levels) if neck is not None else 1
    return Shown(recipe.usual_size, recipe.data.fit, stride)


def described(recipe: Recipe, seen: Survey, chosen: list[Proposal]) -> dict[str, Any]:
    """What data.json says of a survey."""
    shown = shown_by(recipe)
    return {
        "root": str(recipe.data.root_path()),
        "image_size": list(shown.image_size) if shown.image_size else None,
        "fit": shown.fit,
        "counts": {s: sum(one.severity == s for one in seen.findings) for s in SEVERITIES},
        "findings": [_finding(one) for one in seen.findings],
        "images": seen.images(),
        "splits": {name: len(seen.splits[name]) for name in sorted(seen.splits, key=_rank)},
        "unit": seen.unit,
        "classes": [one.as_dict() for one in seen.classes],
        "proposals": [one._asdict() for one in chosen],
    }


def _rank(split: str) -> tuple[int, str]:
    return SPLITS.index(split) if split in SPLITS else len(SPLITS), split


def _finding(one: Finding) -> dict[str, Any]:
    return {**one._asdict(), "places": [place._asdict() for place in one.places]}


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[int, int], None]]:
    """A bar in a terminal, elsewhere a line now and then."""
    columns = (TextColumn("reading"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    last = time.monotonic()
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        bar = bars.add_task("reading", total=None)

        def tell(done: int, total: int) -> None:
            nonlocal last
            bars.update(bar, completed=done, total=total)
            if not console.is_terminal and time.monotonic() - last > _SECONDS:
                last = time.monotonic()
                log.info("read %d of %d images", done, total)

        yield tell
