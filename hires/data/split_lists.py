"""Finds the images that a text file lists, in the forms that data sets list them in."""

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hires.data.glob_keys import glob_regex
from hires.data.pairs import Pair, some
from hires.interfaces import DataError

log = logging.getLogger(__name__)


class Missing(NamedTuple):
    """What is done with entries that match no image, or several."""

    skip: bool = False  # else they are errors
    told: str | None = None  # warnings are of lists of this split; None: of all


STRICT = Missing()


def keys_of_list(root: Path, pairs: Sequence[Pair], list_file: str, split: str, missing: Missing) -> set[str]:
    """Keys of the listed pairs: one image a line, what follows a blank aside.

    An entry is a path with or without extension, a pair's key, or a name that only one image has; leading folders
    that do not exist are left out. Raises DataError for entries that match no image, and for a list without
    entries, unless they are skipped.
    """
    entries = entries_of(root / list_file, split)
    if not entries and not missing.skip:
        raise DataError(f"{root / list_file}: lists no image; write one a line, or change data.splits.{split}")
    images = Lookup(root, pairs)
    found = {entry: images.key(entry) for entry in entries}
    unknown = [entry for entry, key in found.items() if key is None]
    if unknown and not missing.skip:
        raise DataError(
            f"{root / list_file}: {len(unknown)} of {len(entries)} entries match no image, or several: "
            f"{some(unknown)}; write paths relative to {root}, such as {pairs[0].image}, or set "
            "data.missing_entries=skip"
        )
    if missing.told in (None, split):
        _warn(root / list_file, len(entries), unknown, images.moved)
    return {key for key in found.values() if key is not None}


def keys_of_glob(root: Path, pairs: Sequence[Pair], glob: str, split: str, missing: Missing) -> set[str]:
    """Keys of the pairs whose image a glob of a list matches. Raises DataError if none, unless that is skipped."""
    regex = glob_regex(glob)
    keys = {pair.key for pair in pairs if regex.fullmatch(pair.image)}
    if not keys and not missing.skip:
        raise DataError(
            f"{root}: {glob!r} in data.splits.{split} matches no image; globs are of relative paths, such as "
            f"{pairs[0].image}; correct it, or set data.missing_entries=skip"
        )
    if not keys and missing.told in (None, split):
        log.warning("%s: %r in data.splits.%s matches no image and is skipped", root, glob, split)
    return keys


def _warn(path: Path, count: int, unknown: Sequence[str], moved: Sequence[str]) -> None:
    if unknown:
        text = "%s: %d of %d entries match no image, or several, and are skipped: %s"
        log.warning(text, path, len(unknown), count, some(unknown))
    if moved:
        text = "%s: %d entries name a folder that does not exist; they are found without it: %s"
        log.warning(text, path, len(moved), some(moved))


def entries_of(path: Path, split: str) -> list[str]:
    """The lines of a list that are not empty, with / between folders. Raises DataError."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; correct the list that data.splits.{split} names") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}), but data.splits.{split} names it") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: is no text; data.splits.{split} needs a list, one image a line") from None
    entries = (line.strip().replace("\\", "/").removeprefix("./").lstrip() for line in lines)
    return [entry for entry in entries if entry]


class Lookup:
    """Looks up images by what a list may call them. `moved` collects entries whose folder is not there."""

    def __init__(self, root: Path, pairs: Sequence[Pair]):
        self.root, self.moved = root, list[str]()
        self._known = {pair.key: pair.key for pair in pairs}
        self._known |= {pair.image.rpartition(".")[0]: pair.key for pair in pairs}
        self._known |= {pair.image: pair.key for pair in pairs}
        self._named: dict[str, set[str]] = defaultdict(set)
        for pair in pairs:
            path = PurePosixPath(pair.image)
            for name in {path.name, path.stem, PurePosixPath(pair.key).name}:
                self._named[name].add(pair.key)

    def key(self, entry: str) -> str | None:
        """The key of the image that an entry means, None where there is not exactly one."""
        for text in dict.fromkeys((entry, entry.split()[0])):  # a path may hold blanks: whole lines go first
            if (key := self._exact(text)) is not None:
                return key
        return self._without_folders(entry.split()[0])

    def _exact(self, text: str) -> str | None:
        for form in _forms(text):
            if form in self._known:
                return self._known[form]
        return self._unique(text) if "/" not in text else None

    def _unique(self, name: str) -> str | None:
        for form in _forms(name):
            if len(keys := self._named.get(form, set())) == 1:
                return next(iter(keys))
        return None

    def _without_folders(self, text: str) -> str | None:
        rest, at = text.lstrip("/"), self.root if not text.startswith("/") else Path("/")
        while "/" in rest:
            folder, _, rest = rest.partition("/")
            at = at / folder
            key = self._exact(rest)
            if key is not None and (at == self.root or not at.is_dir()):
                if at != self.root:
                    self.moved.append(text)
                return key
        return None


def _forms(text: str) -> Iterator[str]:
    """The text, and without its extension."""
    yield text
    if suffix := PurePosixPath(text).suffix:
        yield text.removesuffix(suffix)
