"""The folder of a prediction: which one it is, and what all that lies in it depends on."""

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from hires.engine.files import jsonable, write_json
from hires.interfaces import ConfigError
from hires.predictions.inputs import Source, source_name

SETTINGS = "settings.json"
IMAGES = "images"  # in it: the image of each output


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


def keep_settings(folder: Path, settings: dict[str, Any], images: Mapping[str, str], overwrite: bool) -> int:
    """Writes settings.json; returns since when files have been made by them, ns as file systems tell it.

    `images`: path of the image by the name of its output, of those to predict now. Those of former calls stay
    listed. Raises ConfigError where predictions lie that were made with others, or of images that were called
    otherwise.
    """
    path, new = folder / SETTINGS, json.loads(json.dumps(jsonable(settings)))
    there = path.exists()
    try:
        old = json.loads(path.read_text(encoding="utf-8")) if there else new
    except (OSError, ValueError, RecursionError):
        old = None
    listed = old.get(IMAGES) if isinstance(old, dict) else None
    before = listed if isinstance(listed, dict) else {}
    how = _difference(old, new, bool(before)) if isinstance(old, dict) else "made in another way"
    how = how or _renamed(before, images)
    if how and not overwrite:
        raise ConfigError(f"out: {folder} has predictions {how}; give another out=, or overwrite=true")
    if how or overwrite or not there:
        write_json(path, {**new, IMAGES: dict(images)})
    elif not images.keys() <= before.keys():
        since = path.stat()
        write_json(path, {**old, IMAGES: {**before, **images}})
        os.utime(path, ns=(since.st_atime_ns, since.st_mtime_ns))  # what is made counts on
    return path.stat().st_mtime_ns


def is_made(path: Path, since: int, of: Path) -> bool:
    """Whether a file is there that was made since then, and not before the image that it is made `of`."""
    made, image = (file.stat().st_mtime_ns if file.exists() else None for file in (path, of))
    return made is not None and made >= max(since, image or 0)


def _difference(old: dict[str, Any], new: dict[str, Any], listed: bool) -> str | None:
    """The first key that is another; one that is absent is null. Where images are listed, the source is free."""
    free = {IMAGES, "source"} if listed else {IMAGES}
    key = next((key for key in [*new, *old] if key not in free and old.get(key) != new.get(key)), None)
    return key and f"with {key}={old.get(key)}, not {new.get(key)}"


def _renamed(before: Mapping[str, str], images: Mapping[str, str]) -> str | None:
    """How the first image is called that has another output than before, or whose output was of another one."""
    called = {image: output for output, image in before.items()}
    for output, image in images.items():
        if before.get(output, image) != image:
            return f"called {output} of {before[output]}, not of {image}"
        if called.get(image, output) != output:
            return f"of {image} called {called[image]}, not {output}"
    return None
