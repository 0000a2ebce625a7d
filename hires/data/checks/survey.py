"""Surveys a data set: lists it, reads all of it, and says what was found."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hires.data.box_folder import BoxSettings, PairedBoxes
from hires.data.checks.box_facts import BoxReader
from hires.data.checks.box_findings import box_findings, label_findings, object_findings
from hires.data.checks.classes import (
    ClassFacts,
    class_findings,
    classes_of_masks,
    classes_of_things,
    size_findings,
)
from hires.data.checks.examine import Examiner, Record, examine
from hires.data.checks.finding import Finding, in_order
from hires.data.checks.image_findings import image_findings
from hires.data.checks.leak_findings import leak_findings
from hires.data.checks.listed import listed
from hires.data.checks.listing import Listing, link_findings, listing_of, quiet, splits_of
from hires.data.checks.mask_facts import MaskReader
from hires.data.checks.mask_findings import broken_masks, mask_findings
from hires.data.checks.part_facts import PartReader, listed_parts
from hires.data.checks.skipping import fate_of_broken
from hires.data.checks.things import Things, joined_facts, things_of
from hires.data.demo import ensure_demo
from hires.data.mask_folder import MaskFolder
from hires.data.mask_parts import MaskParts
from hires.data.pairs import Pair
from hires.data.settings import DataSettings
from hires.data.split_settings import SplitSettings
from hires.data.splits import SPLITS
from hires.ops.windows import Size


class Shown(NamedTuple):
    """How training shows images to the network."""

    image_size: Size | None  # (height, width), pixels; None where it is still to be found
    fit: str  # window, or resize
    stride: int  # of the finest map that objects are found on, pixels


@dataclass(frozen=True)
class Survey:
    """All that is known of a data set after every file was read."""

    pairs: list[Pair]
    splits: dict[str, list[int]]
    records: list[Record]
    classes: list[ClassFacts]
    unit: str  # of their counts: objects or pixels
    things: Things | None
    findings: list[Finding]

    @property
    def sizes(self) -> np.ndarray:
        """(N, 2) int64 height and width of the images, 0 of those that could not be read."""
        return sizes_of(self.records)

    def images(self) -> dict[str, Any]:
        """The images in numbers."""
        known = [record.image for record in self.records if record.image is not None]
        sizes = sorted((facts.info.size for facts in known), key=lambda size: size[0] * size[1])
        low, high = (min(f.low for f in known), max(f.high for f in known)) if known else (None, None)
        mean, deviation = _moments(known)
        return {
            "count": len(self.records),
            "read": len(known),
            "pixels": sum(facts.pixels for facts in known),
            "formats": _counted(facts.info.format for facts in known),
            "types": _counted(facts.info.dtype.name for facts in known),
            "bands": _counted(str(facts.info.bands) for facts in known),
            "sizes": {
                "distinct": len(set(sizes)),
                "smallest": list(sizes[0]) if sizes else None,
                "median": list(sizes[len(sizes) // 2]) if sizes else None,
                "largest": list(sizes[-1]) if sizes else None,
            },
            "range": [low, high],
            "mean": mean,
            "deviation": deviation,
        }


def survey(settings: DataSettings, shown: Shown, progress: Callable[[int, int], None]) -> Survey:
    """Reads every file of all splits; `progress` is told how many images are done, and of how many.

    Raises DataError where there is nothing to read, ConfigError for settings that cannot be meant so.
    """
    generator = getattr(settings, "generator", None)
    if generator is not None:
        ensure_demo(settings.root_path(), generator)
    if isinstance(settings, MaskFolder):
        return _of_masks(settings, shown, progress)
    if isinstance(settings, MaskParts):
        return _of_parts(settings, shown, progress)
    if isinstance(settings, PairedBoxes):
        return _of_labels(settings, shown, progress)
    if isinstance(settings, BoxSettings):
        return _of_lists(settings, shown, progress)
    return _of_any(settings, shown, progress)


def _of_masks(settings: MaskFolder, shown: Shown, progress: Callable[[int, int], None]) -> Survey:
    listing, records = _read(listing_of(settings), settings, MaskReader(settings), progress)
    classes = classes_of_masks(settings.table().names, records, listing.splits, shown.image_size)
    own = mask_findings(settings, listing.pairs, records, fate_of_broken(settings, records, listing.splits))
    return _made(settings, listing, records, classes, "pixels", None, shown, own)


def _of_parts(settings: MaskParts, shown: Shown, progress: Callable[[int, int], None]) -> Survey:
    with quiet():
        parts = settings.parts()
    pairs, findings = listed_parts(settings, parts)
    splits, more = splits_of(settings, pairs)
    links = link_findings(settings.root_path(), settings.images)
    reader, given = PartReader(settings, parts), Listing(pairs, splits, [*links, *findings, *more])
    listing, records = _read(given, settings, reader, progress)
    classes = classes_of_masks(settings.paint().names, records, listing.splits, shown.image_size)
    broken = broken_masks(listing.pairs, records, fate_of_broken(settings, records, listing.splits))
    return _made(settings, listing, records, classes, "pixels", None, shown, broken)


def _of_labels(settings: PairedBoxes, shown: Shown, progress: Callable[[int, int], None]) -> Survey:
    listing, records = _read(listing_of(settings), settings, BoxReader(settings), progress)
    objects, vocabulary = joined_facts(records)
    own = label_findings(listing.pairs, records, fate_of_broken(settings, records, listing.splits))
    training = listing.splits.get("train", [])
    if not vocabulary.names and (vocabulary.complete or settings.table() is None):
        needed = settings.missing_labels == "error"
        unread = needed and not any(pair.truth for pair in listing.pairs)
        if not unread and not any(record.label_problem for record in records):  # else that is why there are none
            own += object_findings(settings, None, training)
        return _made(settings, listing, records, [], "objects", None, shown, own)
    things = things_of(objects, vocabulary, sizes_of(records), settings.table(), settings.ignore_classes)
    classes = classes_of_things(things, listing.splits, sizes_of(records), shown.image_size)
    own += [*object_findings(settings, things, training), *box_findings(settings, listing.pairs, things)]
    return _made(settings, listing, records, classes, "objects", things, shown, own)


def _of_lists(settings: BoxSettings, shown: Shown, progress: Callable[[int, int], None]) -> Survey:
    given = listed(settings)
    listing, records = _read(given.listing, settings, None, progress)
    things, classes, own = None, list[ClassFacts](), list[Finding]()
    if given.objects is not None:
        sizes = sizes_of(records)
        objects = given.objects.take(sizes[given.objects.images].all(axis=1))
        things = things_of(objects, given.vocabulary, sizes, settings.table(), settings.ignore_classes)
        classes = classes_of_things(things, listing.splits, sizes, shown.image_size)
        training = listing.splits.get("train", [])
        own = [*object_findings(settings, things, training), *box_findings(settings, listing.pairs, things)]
    return _made(settings, listing, records, classes, "objects", things, shown, own)


def _of_any(settings: DataSettings, shown: Shown, progress: Callable[[int, int], None]) -> Survey:
    """Of a reader of someone else's: the images alone."""
    names, splits = dict[str, int](), dict[str, list[int]]()
    for split in filter(settings.has_split, SPLITS):
        with quiet():
            source = settings.source(split)
        splits[split] = [names.setdefault(source.name(i), len(names)) for i in range(len(source))]
    listing, records = _read(Listing([Pair(n, n, "") for n in names], splits), settings, None, progress)
    return _made(settings, listing, records, [], "objects", None, shown, [])


def _read(
    listing: Listing,
    settings: DataSettings,
    reader: MaskReader | BoxReader | None,
    progress: Callable[[int, int], None],
) -> tuple[Listing, list[Record]]:
    """The listing without images that no split uses, and the records of the others."""
    used = listing.used()
    places = {index: place for place, index in enumerate(used)}
    splits = {name: [places[index] for index in members] for name, members in listing.splits.items()}
    pairs = [listing.pairs[index] for index in used]
    examiner = Examiner(settings.root_path(), reader, settings.max_pixels)
    with quiet():  # what readers say once a process is among the findings
        records = examine(examiner, pairs, settings.workers, lambda done: progress(done, len(pairs)))
    return Listing(pairs, splits, listing.findings), records


def _made(
    settings: DataSettings,
    listing: Listing,
    records: list[Record],
    classes: list[ClassFacts],
    unit: str,
    things: Things | None,
    shown: Shown,
    own: Sequence[Finding],
) -> Survey:
    pairs, splits = listing.pairs, listing.splits
    window = shown.image_size if shown.fit == "window" else None
    size, has_things = shown.image_size, things is not None
    findings = [
        *listing.findings,
        *image_findings(settings, pairs, records, window, fate_of_broken(settings, records, splits)),
        *own,
        *leak_findings(pairs, records, splits, at_random=_is_divided_at_random(settings)),
        *class_findings(classes, unit, _read_splits(settings, listing, records)),
        *size_findings(classes, size, fit=shown.fit, things=has_things, scores=shown.stride),
    ]
    return Survey(pairs, splits, records, classes, unit, things, in_order(findings))


def _read_splits(settings: DataSettings, listing: Listing, records: Sequence[Record]) -> set[str]:
    """Splits of which any label could be read, if they are files for each image."""
    needed = getattr(settings, "missing_labels", "") == "error"

    def is_read(index: int) -> bool:
        one = records[index]
        if needed and not listing.pairs[index].truth:
            return False
        return one.mask is not None or one.boxes is not None or (one.image is not None and not one.label_problem)

    return {name for name, members in listing.splits.items() if any(map(is_read, members))}


def _is_divided_at_random(settings: DataSettings) -> bool:
    """Whether images are divided by shares or folds, each by itself."""
    if not isinstance(settings, SplitSettings) or settings.groups is not None:
        return False
    if isinstance(getattr(settings, "annotations", None), dict):  # a file for each split
        return False
    return settings.fold is not None or any(isinstance(rule, float) for rule in settings.splits.values())


def sizes_of(records: Sequence[Record]) -> np.ndarray:
    """(N, 2) int64 height and width of the images, 0 of those that could not be read."""
    sizes = [record.image.info.size if record.image is not None else (0, 0) for record in records]
    return np.array(sizes, np.int64).reshape(-1, 2)


def _counted(values: Any) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _moments(known: Sequence[Any]) -> tuple[list[float] | None, list[float] | None]:
    """Mean and deviation of each band, in units of the files; None where images have different bands."""
    if len({facts.info.bands for facts in known}) != 1:
        return None, None
    count = sum(facts.pixels for facts in known)
    mean = sum(facts.sums for facts in known) / count
    variance = sum(facts.squares for facts in known) / count - mean**2
    return mean.tolist(), np.sqrt(np.maximum(0, variance)).tolist()
