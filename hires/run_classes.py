"""classes.json of a run: what it learns to tell apart, so that a prediction needs no training data."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from hires.data.settings import DataSettings
from hires.engine.files import write_json
from hires.interfaces import DataError

CLASSES = "classes.json"


class Classes(NamedTuple):
    """The classes of a run, in the order of their indices."""

    names: tuple[str, ...]
    category_ids: tuple[int, ...]  # as the annotation files number them; from 1 where they do not


def classes_of(source: Any) -> Classes:
    """Those of the images of a split."""
    names = tuple(source.classes)
    return Classes(names, tuple(getattr(source, "category_ids", range(1, len(names) + 1))))


def save_classes(source: Any, run_dir: Path) -> None:
    """Writes classes.json."""
    names, ids = classes_of(source)
    write_json(run_dir / CLASSES, {"classes": list(names), "category_ids": list(ids)})


def classes_of_run(run_dir: Path, data: DataSettings) -> Classes:
    """Those of a run; of one that has no classes.json, by an older version, those of its training images.

    Raises DataError where the file is broken, or there are no such images any more.
    """
    path = run_dir / CLASSES
    if not path.exists():
        return classes_of(data.source("train"))
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        names, ids = content["classes"], content["category_ids"]
        if not names or len(names) != len(ids) or not all(isinstance(name, str) for name in names):
            raise ValueError("not a name and a number for each class")
        return Classes(tuple(names), tuple(map(int, ids)))
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(f"{path}: not the classes of a run ({error}); copy the run again") from error
