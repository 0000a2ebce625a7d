"""What the readers of boxes share: settings, and the way from annotation files to a source."""

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from hires.data.box_checks import Remark, cleaned, remark
from hires.data.box_classes import BoxClasses, Given, Table, Vocabulary
from hires.data.box_objects import Images, Objects, found
from hires.data.box_source import BoxSource
from hires.data.glob_keys import kept_by
from hires.data.pairs import LEAVE_OUT, Missing, Pair, find, is_image_name, joined
from hires.data.segments import Segments
from hires.data.split_settings import SplitSettings
from hires.interfaces import DataError

log = logging.getLogger(__name__)


class AnnotatedImages(NamedTuple):
    """The images of one split and the objects in them, as their files say it."""

    images: Images
    objects: Objects  # `classes` are numbers of the vocabulary
    vocabulary: Vocabulary
    places: Sequence[str]  # for every image the annotation file, for messages
    segments: Segments | None = None  # of the objects, in their order
    findings: tuple[Remark, ...] = ()


class Parsed(NamedTuple):
    """What the annotation files of some images say."""

    objects: Objects  # `classes` are numbers of the vocabulary
    vocabulary: Vocabulary
    findings: tuple[Remark, ...] = ()
    segments: Segments | None = None  # of the objects, in their order


class Labelled(NamedTuple):
    """The images of one split and the objects in them, put right, with the classes of the settings."""

    images: Images
    objects: Objects  # `classes` are class indices, -1 of ignored objects of no class
    classes: BoxClasses
    segments: Segments | None
    findings: list[Remark]


@dataclass(frozen=True, kw_only=True)
class BoxSettings(SplitSettings):
    """Base of the settings of readers whose truth is boxes."""

    unlisted: Literal["error", "ignore", "drop"] = "error"  # objects of classes that are not in the table
    ignore_classes: tuple[Given, ...] = ()  # names or numbers in the files, whose objects count neither way

    @abstractmethod
    def annotated(self, split: str) -> AnnotatedImages:
        """What the files say of one split. Raises DataError."""

    @abstractmethod
    def table(self) -> Table | None:
        """The classes, None for those of the files."""

    def wants_masks(self) -> bool:
        """Whether the objects' masks are to be read, too."""
        return False

    def source(self, split: str) -> Any:
        read = self.labelled(split)
        source = BoxSource(
            self.root_path(),
            read.images,
            read.objects,
            read.classes,
            self.pixel_rules(),
            self.cache(),
            read.segments,
            read.findings,
        )
        source.report()
        return source

    def labelled(self, split: str) -> Labelled:
        """The objects of one split as a source has them. Raises DataError for files, SettingError for classes."""
        given = self.annotated(split)
        classes = BoxClasses(given.vocabulary, self.table(), self.ignore_classes)
        labels = classes.indexed(given.objects, self.unlisted, given.places)
        listed = (labels >= 0) | classes.ignores(given.objects)
        others = self._others(given, listed)
        which = np.flatnonzero(listed | (self.unlisted == "ignore"))
        objects = given.objects._replace(classes=labels, ignored=given.objects.ignored | (labels < 0)).take(which)
        segments = given.segments.take(which) if given.segments else None
        objects, which, findings = cleaned(objects, given.images, segments.kinds() if segments else None)
        segments = segments.take(which) if segments else None
        return Labelled(given.images, objects, classes, segments, [*given.findings, *others, *findings])

    def _others(self, given: AnnotatedImages, listed: np.ndarray) -> list[Remark]:
        """What is told of objects of unlisted classes."""
        homes = given.objects.images[~listed]
        fate = "ignored" if self.unlisted == "ignore" else "left out"
        what = f"object(s) of classes that data.classes does not list are {fate}"
        return [remark(what, homes, given.images)] if len(homes) else []


@dataclass(frozen=True, kw_only=True)
class WithInstances(BoxSettings):
    """Base of the settings of readers whose objects can have masks."""

    instance_masks: bool = False  # whether the target has the objects' masks

    def wants_masks(self) -> bool:
        return self.instance_masks


@dataclass(frozen=True, kw_only=True)
class PairedBoxes(BoxSettings):
    """Base of the settings of readers with an annotation file for each image."""

    images: str  # glob relative to root; other files than images are passed over
    missing_labels: Missing = "error"  # images without annotation file

    def annotated(self, split: str) -> AnnotatedImages:
        root = self.root_path()
        pairs = self.pairs()
        members = self.members(split, pairs)
        broken = self._broken(pairs) if self.on_error == "skip" else {}
        self._tell(broken, members, split)
        pairs, members = ([pair for pair in listed if pair.key not in broken] for listed in (pairs, members))
        images = found(root, [pair.image for pair in members])
        objects, vocabulary, findings, segments = self.parsed(pairs, members, images)
        bare = np.array([index for index, pair in enumerate(members) if not pair.truth], np.int64)
        what = "image(s) without annotation file are taken for images without objects"
        negatives = (remark(what, bare, images),) if len(bare) else ()
        places = [str(root / pair.truth) for pair in members]
        return AnnotatedImages(images, objects, vocabulary, places, segments, (*negatives, *findings))

    def _broken(self, pairs: Sequence[Pair]) -> dict[str, str]:
        """What is wrong with the files of pairs that cannot be read, by their keys."""
        root, broken = self.root_path(), dict[str, str]()
        for pair in pairs:
            try:
                images = found(root, [pair.image])
            except DataError:  # which `members` has told, and left out
                images = Images([pair.image], np.ones((1, 2), np.int64), np.ones(1, np.int64))
            try:
                self.parsed([pair], [pair], images)
            except DataError as error:
                broken[pair.key] = str(error)
        return broken

    def _tell(self, broken: Mapping[str, str], members: Sequence[Pair], split: str) -> None:
        """Warns of what is broken of a split, once. Raises DataError for more than half, as of images."""
        told = [broken[pair.key] for pair in members if pair.key in broken]
        for problem in told:
            log.warning("%s; left out of %s, by data.on_error=skip", problem, split)
        if len(told) > len(members) / 2:
            raise DataError(
                f"{self.root_path()}: of the labels of {len(members)} images of split {split!r} {len(told)} "
                f"cannot be read, the first: {told[0]}; data.on_error=skip takes at most half of them for broken"
            )

    @abstractmethod
    def pairs(self) -> list[Pair]:
        """All images with their annotation files."""

    @abstractmethod
    def parsed(self, pairs: Sequence[Pair], members: Sequence[Pair], images: Images) -> Parsed:
        """What the files of the members say, which are some of the pairs."""

    def matched(self, what: str, pattern: str, *, are_images: bool = False) -> list[Pair]:
        """Pairs of the images and the files of `pattern`, each of which is a `what`, and an image or not."""
        root = self.root_path()
        kept = kept_by(self.exclude)
        images = find(root, self.images, "images", lambda path: is_image_name(path) and kept(path))
        truths = find(root, pattern, f"{what}s", lambda path: is_image_name(path) == are_images and kept(path))
        return joined(
            root,
            images,
            truths,
            what,
            pattern,
            missing=self.missing_labels,
            hint=f", or set data.missing_labels=negative if they show no object{LEAVE_OUT}",
            counts=lambda path: self.is_truth(root / path),
        )

    def is_truth(self, path: Path) -> bool:
        """Whether a file that belongs to no image looks like annotations."""
        return True
