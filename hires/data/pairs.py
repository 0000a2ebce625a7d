"""Finds images and the files of their truth by globs, and pairs those whose wildcards matched the same text."""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from hires.data.disagreement import agreed, difference
from hires.data.glob_keys import kept_by, key_of
from hires.data.globbing import Found
from hires.data.letter_case import other_case, warn_of_other_case
from hires.interfaces import DataError

log = logging.getLogger(__name__)

_SHOWN = 5  # names in an error message
LEAVE_OUT = ", or leave these images out: data.missing_labels=skip, or data.exclude=[GLOB]"
IMAGE_ENDINGS = frozenset(
    (
        *(".bmp", ".dib", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".mpo", ".png", ".webp"),
        *(".j2c", ".j2k", ".jp2", ".jpc", ".jpf", ".jpx", ".pam", ".pbm", ".pfm", ".pgm", ".pnm", ".ppm"),
        *(".btf", ".gtiff", ".tf8", ".tif", ".tiff", ".dcm", ".dicom", ".npy"),
        *(".bif", ".czi", ".mrxs", ".ndpi", ".scn", ".svs", ".svslide", ".vms", ".vmu"),
    )
)


class Pair(NamedTuple):
    """An image and its mask or annotations, as paths relative to the root, and the key that both share."""

    key: str
    image: str
    truth: str  # "" where an image may have none


Missing = Literal["error", "negative", "skip"]
"""What becomes of images without truth: an error, images that show nothing, or none at all."""


def find_pairs(
    root: Path, images: str, masks: str, missing: Missing = "error", exclude: Sequence[str] = ()
) -> list[Pair]:
    """Images and masks in order of the images' paths. Raises DataError for what cannot be paired.

    What a glob of `exclude` matches is left out.
    """
    found = (find(root, images, "images", kept_by(exclude)), find(root, masks, "masks", kept_by(exclude)))
    return joined(root, *found, "mask", masks, missing=missing, hint=LEAVE_OUT)


def joined(
    root: Path,
    images: dict[str, str],
    truths: dict[str, str],
    what: str,
    pattern: str,
    *,
    missing: Missing = "error",
    hint: str = "",
    counts: Callable[[str], bool] = bool,
) -> list[Pair]:
    """Pairs of the files that `find` gave, in order of the images' paths.

    Where no keys agree, files are paired by their folders if that leaves no doubt. `what` a file of the truth is
    called, and `pattern` where they are, is for messages; the error of `missing` has a `hint` on what else to do.
    `counts` says whether a file without image is worth a warning.
    """
    images, truths = agreed(images, truths)
    lonely = [path for key, path in images.items() if key not in truths]
    unused = {key: path for key, path in truths.items() if key not in images and counts(path)}
    differ = difference(images, {key: path for key, path in truths.items() if key in images} | unused, what)
    if lonely and missing == "error":
        raise DataError(
            f"{root}: {len(lonely)} image(s) without {what}: {some(lonely)}; {what}s are looked for "
            f"as {pattern!r}; {f'{differ}; else ' if differ else ''}add the {what}s, or narrow data.images{hint}"
        )
    if lonely and missing == "skip":
        log.warning("%s: %d image(s) without %s are left out: %s", root, len(lonely), what, some(lonely))
        images = {key: path for key, path in images.items() if key in truths}
    if unused:
        why = f"; {differ}" if differ else ""
        log.warning(
            "%s: %d %s(s) without image are not used: %s%s", root, len(unused), what, some(unused.values()), why
        )
    pairs = [Pair(key, path, truths.get(key, "")) for key, path in images.items()]
    return sorted(pairs, key=lambda pair: pair.image)


def is_image_name(path: str) -> bool:
    """Whether a file is an image by its ending."""
    return os.path.splitext(path)[1].lower() in IMAGE_ENDINGS


def find(root: Path, pattern: str, what: str, accept: Callable[[str], bool] = bool) -> dict[str, str]:
    """Accepted files below `root` that match, by key. `what` is the setting's name. Raises DataError."""
    if not root.is_dir():
        raise no_folder(root)
    keyed: dict[str, str] = {}
    for path in filter(accept, _files(root, pattern, what)):
        key = key_of(path, pattern)
        if key in keyed:
            raise DataError(
                f"{root}: {keyed[key]} and {path} have the same key {key!r}: one of them must go, "
                f"or data.{what} must match only one"
            )
        keyed[key] = path
    if not keyed:
        other = other_case(root, pattern, (), accept)
        case = (
            f"data.{what}={other.both!r} does, with {other.paths[0]}" if other else "upper and lower case differ"
        )
        raise DataError(
            f"{root}: no file matches data.{what}={pattern!r} ({case}); "
            f"{root} has {some(_inside(root)) or 'nothing that can be read'}"
        )
    warn_of_other_case(root, what, pattern, keyed, accept)
    return keyed


def _inside(root: Path) -> list[str]:
    try:
        return sorted(os.listdir(root))
    except OSError:
        return []


def no_folder(root: Path) -> DataError:
    """What to say of a data set that is not there; of a relative path, where it was looked for."""
    problem = "is not a folder" if root.exists() else "no such folder"
    where = "" if root.is_absolute() else f" below {os.getcwd()}"
    return DataError(f"{root}: {problem}{where}; point data.root= (or data_dir=) at the data set")


def _files(root: Path, pattern: str, what: str) -> list[str]:
    matched = Found(root, pattern, once=what == "images")
    if matched.left and what == "images":  # the files of the truth lie below the same links, or are as many
        links = some(matched.left)
        log.warning("%s: link(s) to folders that are read already are not followed: %s", root, links)
    files = [path.replace(os.sep, "/") for path in matched.paths if not (root / path).is_dir()]
    if len(files) < len(matched.paths) and "**" not in pattern:  # which matches folders on its way
        folders = len(matched.paths) - len(files)
        log.warning("%s: %d folder(s) match %r and are skipped", root, folders, pattern)
    return files


def links_left(root: Path, pattern: str) -> list[str]:
    """Links below `root` that are not followed where images are looked for by a glob."""
    return Found(root, pattern, once=True).left


def some(names: Iterable[str]) -> str:
    """The first few names for a message."""
    listed = list(names)
    return ", ".join(listed[:_SHOWN]) + (", ..." if len(listed) > _SHOWN else "")
