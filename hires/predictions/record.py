"""The folder of a prediction: which one it is, and what all that lies in it depends on."""

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from hires.engine.files import jsonable, write_json
from hires.interfaces import ConfigError
from hires.predictions.inputs import Source, source_name

SETTINGS = "settings.json"


def folder_of(run_dir: Path, source: Source, out: str | Path | None) -> Path:
    """The one given, or one in the run's that is called as the source. Raises ConfigError for an empty name."""
    if out is not None:
        if not str(out).strip():
            raise ConfigError("out: got an empty text, allowed: a folder, or null for one in the run's")
        return Path(out).expanduser()
    return run_dir / "predict" / (source_name(source) or datetime.now().strftime("%Y-%m-%d_%H-%M-%S"))


def source_text(source: Source) -> str | list[str]:
    """Where the images are, whatever the working directory."""
    if isinstance(source, (str, Path)):
        return os.path.abspath(Path(source).expanduser())
    return [os.path.abspath(path) for path in source]


def keep_settings(folder: Path, settings: dict[str, Any], overwrite: bool) -> int:
    """Writes settings.json; returns since when files have been made by them, ns as file systems tell it.

    Raises ConfigError where predictions lie that were made with others.
    """
    path, new = folder / SETTINGS, json.loads(json.dumps(jsonable(settings)))
    try:
        old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else new
    except (OSError, ValueError, RecursionError):
        old = None
    how = _difference(old, new) if isinstance(old, dict) else "made in another way"
    if how and not overwrite:
        raise ConfigError(f"out: {folder} has predictions {how}; give another out=, or overwrite=true")
    if how or overwrite or not path.exists():
        write_json(path, new)
    return path.stat().st_mtime_ns


def is_made(path: Path, since: int, of: Path) -> bool:
    """Whether a file is there that was made since then, and not before the image that it is made `of`."""
    made, image = (file.stat().st_mtime_ns if file.exists() else None for file in (path, of))
    return made is not None and made >= max(since, image or 0)


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """The first key that is another; one that is absent is null."""
    key = next((key for key in [*new, *old] if old.get(key) != new.get(key)), None)
    return key and f"with {key}={old.get(key)}, not {new.get(key)}"
