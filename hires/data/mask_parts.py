"""Reads data sets with several mask files an image, each of which shows a part of one class."""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from hires.data.cache import Cache
from hires.data.drawn_masks import Paint, checked_names
from hires.data.glob_keys import kept_by, keys_within, matches_any
from hires.data.globbing import Found
from hires.data.letter_case import either_case, warn_of_other_case
from hires.data.pairs import LEAVE_OUT, Missing, Pair, find, is_image_name, some
from hires.data.part_source import Part, PartSource
from hires.data.split_settings import SplitSettings
from hires.interfaces import DataError
from hires.settings import Bounds, SettingError

log = logging.getLogger(__name__)


class Parts(NamedTuple):
    """Images, and the mask files of each."""

    pairs: list[Pair]  # a truth is the image's path, "" where the image has no file
    files: dict[str, list[Part]]  # of an image, in order of the classes
    unused: list[str]  # files that belong to no image


@dataclass(frozen=True, kw_only=True)
class MaskParts(SplitSettings):
    """Images below `root`, and for every class globs of mask files; those of a class and an image are united.

    Where every image has a folder of its own a file belongs to the image in whose folder it lies, else to the one
    that gives the key of the first wildcards of the file's glob. Raises SettingError for classes that cannot be
    meant so.
    """

    images: str  # glob relative to root; what `classes` match are no images
    classes: dict[str, str | tuple[str, ...]]  # name -> glob(s) relative to root; later classes cover earlier ones
    background: str | None = "background"  # class of what no file shows, the first one; null: it is ignored
    threshold: Annotated[float, Bounds(0, 65534)] = 0.0  # higher mask values show the class
    multilabel: bool = False  # a pixel may belong to several classes, or to none; there is no background then
    missing_labels: Missing = "negative"  # images without any mask file

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.classes:
            raise SettingError("classes", {}, "name: glob(s) of the mask files that show it")
        self.paint()

    def paint(self) -> Paint:
        names = checked_names(tuple(self.classes), self.background, self.multilabel)
        return Paint(names, self.background, self.multilabel)

    def source(self, split: str) -> PartSource:
        parts = self.parts()
        members = self.members(split, self._wanted(parts))
        return self.source_of([pair.image for pair in members], parts, self.cache())

    def source_of(self, images: Sequence[str], parts: Parts, cache: Cache) -> PartSource:
        """Some of the images."""
        files = [parts.files[image] for image in images]
        return PartSource(self.root_path(), images, files, self.paint(), self.threshold, self.pixel_rules(), cache)

    def parts(self) -> Parts:
        """All images with their mask files. Raises DataError where no file belongs to any."""
        root, globs = self.root_path(), [either_case(glob) for _, glob in self.globs()]
        images = find(
            root,
            self.images,
            "images",
            lambda path: is_image_name(path) and not matches_any(path, [*globs, *self.exclude]),
        )
        found = list(self._found())
        if not found:
            raise DataError(f"{root}: data.exclude={list(self.exclude)} leaves out all mask files; name fewer")
        homes = _by_folder(images.values(), [path for _, path in found]) or _by_key(images, found)
        if not homes:
            key, image = next(iter(images.items()))
            glob, path = found[0][0][1], found[0][1]
            raise DataError(
                f"{root}: no mask belongs to an image: {image} gives {key!r}, {path} {_keys(path, glob)[-1]!r}; "
                "the first wildcards of data.classes have to match what those of data.images match, or every "
                "image needs a folder of its own"
            )
        files: dict[str, list[Part]] = {path: [] for path in images.values()}
        for (label, _), path in found:
            if path in homes:
                files[homes[path]].append(Part(label, path))
        pairs = [Pair(key, path, path if files[path] else "") for key, path in images.items()]
        unused = [path for _, path in found if path not in homes]
        return Parts(sorted(pairs, key=lambda pair: pair.image), files, unused)

    def globs(self) -> Iterator[tuple[int, str]]:
        """The class index and the text of every glob."""
        for label, given in enumerate(self.classes.values()):
            yield from ((label, glob) for glob in ([given] if isinstance(given, str) else given))

    def _found(self) -> Iterator[tuple[tuple[int, str], str]]:
        """Mask files, each after the class index and the glob that gave it. Raises DataError for one in vain."""
        root, kept = self.root_path(), kept_by(self.exclude)
        for label, glob in self.globs():
            name = f"classes.{list(self.classes)[label]}"
            paths = [path.replace(os.sep, "/") for path in Found(root, glob).paths]
            paths = [path for path in paths if is_image_name(path)]
            if not paths:
                raise DataError(f"{root}: no image file matches data.{name}={glob!r} (case counts)")
            warn_of_other_case(root, name, glob, [_keys(path, glob)[-1] for path in paths], kept)
            yield from (((label, glob), path) for path in filter(kept, paths))

    def _wanted(self, parts: Parts) -> list[Pair]:
        """The pairs without those that `missing_labels` leaves out, with a line for what is odd."""
        root = self.root_path()
        if parts.unused:
            text = "%s: %d mask(s) without image are not used: %s"
            log.warning(text, root, len(parts.unused), some(parts.unused))
        bare = [pair.image for pair in parts.pairs if not pair.truth]
        if bare and self.missing_labels == "error":
            raise DataError(
                f"{root}: {len(bare)} image(s) without any mask: {some(bare)}; add masks, or set "
                f"data.missing_labels=negative if they show no class{LEAVE_OUT}"
            )
        if bare:
            fate = "left out" if self.missing_labels == "skip" else "taken for images that show no class"
            log.warning("%s: %d image(s) without any mask are %s: %s", root, len(bare), fate, some(bare))
        return [pair for pair in parts.pairs if pair.truth or self.missing_labels != "skip"]


def _by_folder(images: Iterable[str], paths: Iterable[str]) -> dict[str, str]:
    """The images of mask files, by folders; none where two images share one."""
    listed = list(images)
    folders = {os.path.dirname(image): image for image in listed}
    if len(folders) < len(listed) or "" in folders:
        return {}
    homes = ((path, next((folders[top] for top in _above(path) if top in folders), "")) for path in paths)
    return {path: image for path, image in homes if image}


def _above(path: str) -> Iterator[str]:
    """The folders that a file lies in, the innermost first."""
    while path := os.path.dirname(path):
        yield path


def _by_key(images: Mapping[str, str], found: Iterable[tuple[tuple[int, str], str]]) -> dict[str, str]:
    """The images of mask files, by the longest beginning of a file's key that is the key of an image."""
    stripped = {key.rstrip("/"): image for key, image in images.items()}
    homes = {}
    for (_, glob), path in found:
        for key in reversed(_keys(path, glob)):
            if key.rstrip("/") in stripped:
                homes[path] = stripped[key.rstrip("/")]
                break
    return homes


def _keys(path: str, glob: str) -> list[str]:
    return keys_within(path, glob) or [os.path.splitext(os.path.basename(path))[0]]
