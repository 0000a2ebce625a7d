"""Reads boxes, instance masks, and masks of classes of GeoTIFF images from the polygons of GeoJSON files."""

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from hires.data.box_checks import Remark, remark
from hires.data.box_classes import Given, Table, Vocabulary
from hires.data.box_folder import AnnotatedImages, PairedBoxes, Parsed, WithInstances
from hires.data.box_objects import Images, made
from hires.data.drawn_masks import DrawnMasks
from hires.data.geo_place import GeoFeatures, Placed, check_meeting
from hires.data.geo_tiff import read_georeference
from hires.data.geojson import read_geojson
from hires.data.glob_keys import kept_by
from hires.data.pairs import Pair, find, is_image_name
from hires.data.segments import Segments
from hires.settings import SettingError


@dataclass(frozen=True, kw_only=True)
class GeoShapes(PairedBoxes):
    """GeoTIFF images below `root`, and a GeoJSON for all of them, or one each, paired by the globs' wildcards.

    Polygons are in the coordinate system of the images. An object of which an image shows a smaller share than
    `window.min_visibility` is ignored in it. Raises SettingError for classes without a property that tells them.
    """

    annotations: str  # file relative to root, or glob
    class_property: str | None = None  # of a feature; null: all are of the one class
    classes: tuple[str, ...] | dict[str, Given | tuple[Given, ...]] | None = None  # null: all values, sorted

    def __post_init__(self) -> None:
        super().__post_init__()
        named = isinstance(self.classes, tuple) and len(self.classes) == 1
        if self.class_property is None and not named:
            given = list(self.classes) if isinstance(self.classes, tuple) else self.classes
            raise SettingError("classes", given, "[NAME] of the one class, as class_property is null")

    def pairs(self) -> list[Pair]:
        if glob.has_magic(self.annotations):
            return self.matched("annotation", self.annotations)
        kept = kept_by(self.exclude)
        images = find(self.root_path(), self.images, "images", lambda path: is_image_name(path) and kept(path))
        return [Pair(key, path, self.annotations) for key, path in sorted(images.items(), key=lambda i: i[1])]

    def table(self) -> Table | None:
        return self.classes

    def annotated(self, split: str) -> AnnotatedImages:
        given = super().annotated(split)
        if not len(given.objects.images):
            self._check_meeting()
        return given

    def parsed(self, pairs: Sequence[Pair], members: Sequence[Pair], images: Images) -> Parsed:
        root = self.root_path()
        wanted = pairs if self.classes is None else members  # a split may lack a class that another has
        files = {
            truth: self._read(root / truth) for truth in dict.fromkeys(pair.truth for pair in wanted) if truth
        }
        names = sorted({feature.name for one in files.values() for feature in one.file.features})
        numbers = {name: number for number, name in enumerate(names)}
        placed = [self._placed(root / pair.image, files[pair.truth]) if pair.truth else [] for pair in members]
        homes = np.repeat(np.arange(len(members)), [len(several) for several in placed])
        things = [thing for several in placed for thing in several]
        objects = made(
            homes,
            np.array([thing.box for thing in things], np.float64),
            np.array([numbers[thing.name] for thing in things], np.int64),
            np.array([thing.share < self.window.min_visibility for thing in things], bool),
        )
        vocabulary = Vocabulary.of_names(names)
        segments = Segments([thing.segment for thing in things]) if self.wants_masks() else None
        return Parsed(objects, vocabulary, _left_out(files, members, images), segments)

    def _read(self, path: Path) -> GeoFeatures:
        one_class = self.classes[0] if self.class_property is None and isinstance(self.classes, tuple) else ""
        stamp = (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else (0, 0)
        return _features(path, stamp, self.class_property, one_class)

    def _placed(self, image: Path, features: GeoFeatures) -> list[Placed]:
        place = read_georeference(image)
        features.check_system(image, place)
        return features.within(place)

    def _check_meeting(self) -> None:
        """A split may show nothing; that no image at all does is hardly meant."""
        root, pairs = self.root_path(), [pair for pair in self.pairs() if pair.truth]
        for truth in dict.fromkeys(pair.truth for pair in pairs):
            places = [read_georeference(root / pair.image) for pair in pairs if pair.truth == truth]
            check_meeting(self._read(root / truth), places)


@dataclass(frozen=True, kw_only=True)
class GeoBoxes(WithInstances, GeoShapes):
    """Boxes around the polygons of GeoJSON files, with masks if wanted."""


@dataclass(frozen=True, kw_only=True)
class GeoMasks(DrawnMasks, GeoShapes):
    """Masks of classes, painted of the polygons of GeoJSON files."""


@lru_cache(maxsize=4)
def _features(path: Path, stamp: tuple[int, int], class_property: str | None, one_class: str) -> GeoFeatures:
    """One file for many images, and splits, is read once, as long as it does not change."""
    return GeoFeatures(path, read_geojson(path, class_property, one_class))


def _left_out(files: Mapping[str, GeoFeatures], members: Sequence[Pair], images: Images) -> tuple[Remark, ...]:
    """What files have besides polygons, told with the first image of each file."""
    firsts = {pair.truth: index for index, pair in reversed(list(enumerate(members)))}
    kinds = sorted({kind for one in files.values() for kind in one.file.left_out})
    findings = []
    for kind in kinds:
        counts = [(firsts[truth], one.file.left_out[kind]) for truth, one in files.items() if truth in firsts]
        homes = np.repeat(*np.array(counts, np.int64).T)
        findings.append(remark(f"feature(s) of type {kind} have no area and are left out", homes, images))
    return tuple(one for one in findings if one.number)
