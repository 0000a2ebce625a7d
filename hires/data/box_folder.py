"""What the readers of boxes share: settings, and the way from annotation files to a source."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from hires.data.box_checks import Finding, cleaned, finding
from hires.data.box_classes import BoxClasses, Table, Vocabulary
from hires.data.box_objects import Images, Objects, found
from hires.data.box_source import BoxSource
from hires.data.pairs import Pair, find, is_image_name, joined
from hires.data.segments import Segments
from hires.data.split_settings import SplitSettings


class AnnotatedImages(NamedTuple):
    """The images of one split and the objects in them, as their files say it."""

    images: Images
    objects: Objects  # `classes` are numbers of the vocabulary
    vocabulary: Vocabulary
    places: Sequence[str]  # for every image the annotation file, for messages
    segments: Segments | None = None  # of the objects, in their order
    findings: tuple[Finding, ...] = ()


class Parsed(NamedTuple):
    """What the annotation files of some images say."""

    objects: Objects  # `classes` are numbers of the vocabulary
    vocabulary: Vocabulary
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BoxSettings(SplitSettings):
    """Base of the settings of readers whose truth is boxes."""

    unlisted: Literal["error", "ignore", "drop"] = "error"  # objects of classes that are not in the table

    @abstractmethod
    def annotated(self, split: str) -> AnnotatedImages:
        """What the files say of one split. Raises DataError."""

    @abstractmethod
    def table(self) -> Table | None:
        """The classes, None for those of the files."""

    def source(self, split: str) -> BoxSource:
        given = self.annotated(split)
        classes = BoxClasses(given.vocabulary, self.table())
        labels = classes.indexed(given.objects, self.unlisted, given.places)
        others = self._others(given, labels)
        objects, segments = _with_labels(given, labels, self.unlisted == "ignore")
        objects, which, findings = cleaned(objects, given.images, segments.kinds() if segments else None)
        source = BoxSource(
            self.root_path(),
            given.images,
            objects,
            classes,
            self.pixel_rules(),
            self.cache(),
            segments.take(which) if segments else None,
            [*given.findings, *others, *findings],
        )
        source.report()
        return source

    def _others(self, given: AnnotatedImages, labels: np.ndarray) -> list[Finding]:
        """What is told of objects of unlisted classes (-1)."""
        homes = given.objects.images[labels < 0]
        fate = "ignored" if self.unlisted == "ignore" else "left out"
        what = f"object(s) of classes that data.classes does not list are {fate}"
        return [finding(what, homes, given.images)] if len(homes) else []


def _with_labels(given: AnnotatedImages, labels: np.ndarray, keep_others: bool) -> tuple[Objects, Segments | None]:
    """The objects with class indices; those of unlisted classes (-1) are ignored as any class, or left out."""
    listed = labels >= 0
    objects = given.objects._replace(classes=labels, ignored=given.objects.ignored | ~listed)
    if keep_others:
        return objects, given.segments
    return objects.take(listed), given.segments.take(np.flatnonzero(listed)) if given.segments else None


@dataclass(frozen=True, kw_only=True)
class PairedBoxes(BoxSettings):
    """Base of the settings of readers with an annotation file for each image."""

    images: str  # glob relative to root; other files than images are passed over
    missing_labels: Literal["error", "negative"] = "error"  # images without annotation file

    def annotated(self, split: str) -> AnnotatedImages:
        root = self.root_path()
        pairs = self.pairs()
        members = self.members(split, pairs)
        images = found(root, [pair.image for pair in members])
        objects, vocabulary, findings = self.parsed(pairs, members, images)
        bare = np.array([index for index, pair in enumerate(members) if not pair.truth], np.int64)
        what = "image(s) without annotation file are taken for images without objects"
        negatives = (finding(what, bare, images),) if len(bare) else ()
        places = [str(root / pair.truth) for pair in members]
        return AnnotatedImages(images, objects, vocabulary, places, findings=(*negatives, *findings))

    @abstractmethod
    def pairs(self) -> list[Pair]:
        """All images with their annotation files."""

    @abstractmethod
    def parsed(self, pairs: Sequence[Pair], members: Sequence[Pair], images: Images) -> Parsed:
        """What the files of the members say, which are some of the pairs."""

    def matched(self, what: str, pattern: str) -> list[Pair]:
        """Pairs of the images and the files of `pattern`, each of which is a `what`."""
        root = self.root_path()
        images = find(root, self.images, "images", is_image_name)
        truths = find(root, pattern, f"{what}s", lambda path: not is_image_name(path))
        may_miss = self.missing_labels == "negative"
        return joined(
            root,
            images,
            truths,
            what,
            pattern,
            may_miss=may_miss,
            hint=", or set data.missing_labels=negative if they show no object",
            counts=lambda path: self.is_truth(root / path),
        )

    def is_truth(self, path: Path) -> bool:
        """Whether a file that belongs to no image looks like annotations."""
        return True
