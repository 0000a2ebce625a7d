"""Which images below a folder are no images to predict, but the truth of a data set that lies there."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hires.data.glob_keys import glob_regex
from hires.data.mask_parts import MaskParts
from hires.interfaces import DataError
from hires.predictions.inputs import Input, Source, output_names

_TRUTH = ("masks", "labels")  # settings of data sets whose globs match files of the truth


def without_truth(items: Sequence[Input], source: Source, data: Any) -> tuple[list[Input], dict[str, int]]:
    """The images of a folder but the truth of a run's `data`; and how many each setting that matched leaves out.

    Only where the source is a folder: files, lists and globs say themselves what they mean. Files that the data
    has for images stay. Raises DataError where none is left.
    """
    if not isinstance(source, (str, Path)) or not Path(source).expanduser().is_dir():
        return list(items), {}
    root, folder = (os.path.realpath(path) for path in (data.root_path(), items[0].root))
    globs, images = _globs(data)
    kept, left = [], dict.fromkeys(globs, 0)
    for item in items:
        path = os.path.relpath(os.path.join(folder, item.name), root).replace(os.sep, "/")
        name = None if path.startswith("../") else _matching(path, globs, images)
        if name is None:
            kept.append(item)
        else:
            left[name] += 1
    left = {f"data.{name}={' '.join(globs[name])!r}": count for name, count in left.items() if count}
    if not kept:
        raise DataError(
            f"source={source}: holds only what {' or '.join(left)} of the run matches; give a glob for it"
        )
    names = output_names([item.name for item in kept])
    return [item._replace(output=output) for item, output in zip(kept, names, strict=True)], left


def _globs(data: Any) -> tuple[dict[str, list[str]], Any]:
    """The settings that match files of the truth with their globs, and the glob of images that are none."""
    if isinstance(data, MaskParts):  # whose truth comes first
        return {"classes": [glob for _, glob in data.globs()]}, None
    given = {name: getattr(data, name, None) for name in _TRUTH}
    return {name: [glob] for name, glob in given.items() if isinstance(glob, str)}, getattr(data, "images", None)


def _matching(path: str, globs: dict[str, list[str]], images: Any) -> str | None:
    """The setting of the truth that matches a path below the root, if its images do not."""
    if isinstance(images, str) and glob_regex(images).fullmatch(path):
        return None
    return next((name for name, each in globs.items() if any(glob_regex(g).fullmatch(path) for g in each)), None)
