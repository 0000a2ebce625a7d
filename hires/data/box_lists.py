"""What readers share whose annotation files list images: one file for all, or one for each split."""

import os
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar

from hires.data.box_folder import BoxSettings
from hires.data.folds import group_names
from hires.data.pairs import Pair, no_folder, some
from hires.data.splits import SPLITS, check_leaks
from hires.interfaces import ConfigError, DataError
from hires.settings import SettingError


@dataclass(frozen=True, kw_only=True)
class ListedImages(BoxSettings):
    """A file that lists all images, divided by `splits`, or one for each split, which then says what is in it."""

    FORMAT: ClassVar[str]  # what such a file is called in messages

    annotations: str | dict[str, str]  # file below root, or split -> file
    images: str | dict[str, str] = "."  # folder below root where file names begin, or split -> folder

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.annotations, dict):
            _check_names(self.annotations, self.FORMAT)
            if self.fold is not None:
                raise SettingError(
                    "fold", self.fold, f"null with a {self.FORMAT} for each split in data.annotations"
                )
            if isinstance(self.images, dict) and not set(self.annotations) <= set(self.images):
                raise SettingError("images", self.images, f"a folder for each of {', '.join(self.annotations)}")
        elif isinstance(self.images, dict):
            raise SettingError("images", self.images, f"one folder, as data.annotations is one {self.FORMAT}")

    def has_split(self, split: str) -> bool:
        return split in self.annotations if isinstance(self.annotations, dict) else super().has_split(split)

    def checked_root(self) -> Path:
        """The folder of the data set. Raises DataError where it is not there."""
        root = self.root_path()
        if not root.is_dir():
            raise no_folder(root)
        return root

    def file(self, split: str) -> str:
        """The file of a split, relative to the root. Raises ConfigError where none is given."""
        if isinstance(self.annotations, str):
            return self.annotations
        if split not in self.annotations:
            near = get_close_matches(split, self.annotations, 1)
            fix = f"did you mean {near[0]}?" if near else f"add {split}: FILE"
            named = ", ".join(self.annotations)
            raise ConfigError(f"data.annotations: has no {self.FORMAT} for {split!r}, only for {named}; {fix}")
        return self.annotations[split]

    def folder(self, split: str) -> str:
        return self.images if isinstance(self.images, str) else self.images[split]

    def chosen(self, split: str, paths: Sequence[str]) -> set[str]:
        """Of the images that a file lists, those of a split. Raises DataError for some that are not there."""
        file = self.file(split)
        pairs = self.kept([Pair(path, path, file) for path in paths])
        listed = isinstance(self.annotations, dict)
        members = self.readable(pairs, split) if listed else self.members(split, pairs)
        _check_there(self.root_path(), self.root_path() / file, [pair.image for pair in members])
        return {pair.image for pair in members}

    def check_apart(self, paths: Mapping[str, Sequence[str]]) -> None:
        """Raises DataError where files of two splits list the same image, or images of one group."""
        root, chosen = self.root_path(), {split: set(several) for split, several in paths.items()}
        pairs = [Pair(path, path, "") for path in sorted(set().union(*chosen.values()))]
        check_leaks(root, pairs, chosen, group_names(root, pairs, self.groups), "data.annotations")


def path_below(name: str, folder: str, root: Path) -> str:
    """A file name of a list as a path relative to the root; absolute ones have to lie in it.

    `folder`, relative to the root, is where relative names begin. Raises ValueError for what lies elsewhere.
    """
    name = name.replace("\\", "/")
    if name.startswith("/"):
        for top in (os.path.abspath(root), os.path.realpath(root)):
            inside = posixpath.relpath(posixpath.normpath(name), top.replace(os.sep, "/"))
            if not _is_outside(inside):
                return inside
    joined = posixpath.normpath(posixpath.join(folder, name))
    if joined.startswith("/") or _is_outside(joined):
        raise ValueError(f"{name!r}, outside of the data set; set data.images to its folder")
    return joined


def _is_outside(path: str) -> bool:
    return path == ".." or path.startswith("../")


def _check_there(root: Path, file: Path, paths: Sequence[str]) -> None:
    """Raises DataError for listed images that are not there."""
    missing = [path for path in paths if not _is_file(root / path)]
    if missing:
        raise DataError(
            f"{file}: {len(missing)} of {len(paths)} images are not there: {some(missing)} (below {root}); "
            "set data.images to the folder of the file names"
        )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long for one
        return False


def _check_names(annotations: Mapping[str, str], what: str) -> None:
    for name in annotations:
        if name not in SPLITS:
            near = get_close_matches(name, SPLITS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError("annotations", name, f"a {what} for each of {', '.join(SPLITS)}{hint}")
