"""Data sets whose images stand in annotation files: what each split says, and what it cannot say."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hires.data.box_classes import Vocabulary
from hires.data.box_folder import AnnotatedImages, BoxSettings
from hires.data.box_objects import Objects
from hires.data.checks.box_findings import advice_on
from hires.data.checks.finding import Finding, Place, findings_of
from hires.data.checks.listing import Listing, quiet, said
from hires.data.images import image_info
from hires.data.pairs import Pair, is_image_name
from hires.data.splits import SPLITS
from hires.interfaces import ConfigError, DataError


class Listed(NamedTuple):
    """The images that annotation files list, and the objects in them."""

    listing: Listing
    objects: Objects | None  # `images` are indices of the pairs; None where no file could be read
    vocabulary: Vocabulary


def listed(settings: BoxSettings) -> Listed:
    """What the annotation files of all splits say. A split that cannot be read is a finding.

    The images of such a split are those below its folder, so that what else is broken is seen, too. An image whose
    header cannot be read belongs to its split, but its objects, whose boxes may need its size, do not count.
    """
    root, homes = settings.root_path(), dict[str, int]()
    pairs, splits, findings, parts = list[Pair](), dict[str, list[int]](), list[Finding](), list[Objects]()
    names, numbered, complete = dict[int, str](), True, True
    for split in [name for name in SPLITS if settings.has_split(name)]:
        left: list[str] = []
        try:
            with quiet():
                given = _passing_over(settings, left).annotated(split)
                if left and not given.images.paths:  # that is no matter of single images: what does training say?
                    given = settings.annotated(split)
        except (DataError, ConfigError) as error:
            findings.append(_refused(split, said(error, root)))
            paths, truths = _below(settings, split), None
        else:
            paths, truths = [*given.images.paths, *left], [*given.places, *[""] * len(left)]
        indices = []
        for number, path in enumerate(paths):
            truth = str(truths[number]).removeprefix(f"{root}/") if truths else ""
            if path not in homes:
                homes[path] = len(pairs)
                pairs.append(Pair(path, path, truth))
            indices.append(homes[path])
        splits[split] = indices
        if truths is not None and not _is_repeated(splits, split):
            parts.append(given.objects._replace(images=np.array(indices, np.int64)[given.objects.images]))
            numbered, complete = given.vocabulary.numbered, given.vocabulary.complete
            names |= given.vocabulary.names
            findings += _remarks(given, split)
    objects = Objects(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True))) if parts else None
    return Listed(Listing(pairs, splits, findings), objects, Vocabulary(names, numbered, complete))


def _passing_over(settings: BoxSettings, left: list[str]) -> BoxSettings:
    """The same settings, but images whose headers cannot be read are put into `left`, however many they are."""

    def readable(self: BoxSettings, pairs: Sequence[Pair], split: str) -> list[Pair]:
        good = []
        for pair in pairs:
            try:
                image_info(self.root_path() / pair.image)
            except DataError:
                left.append(pair.image)
            else:
                good.append(pair)
        return good

    kind = type(settings)
    lenient = type(kind.__name__, (kind,), {"readable": readable})
    made: BoxSettings = lenient(**{one.name: getattr(settings, one.name) for one in fields(settings)})
    return made


def _refused(split: str, text: str) -> Finding:
    return Finding("unreadable-label", "error", f"split {split!r} cannot be read: {text}", "correct it as said", 1)


def _remarks(given: AnnotatedImages, split: str) -> list[Finding]:
    findings: list[Finding] = []
    for one in given.findings:
        places = [Place(name, split) for name in one.names]
        findings += findings_of(
            "label-remark", "warning", f"{{n}} {one.what}", advice_on(one.what), places, one.number
        )
    return findings


def _is_repeated(splits: dict[str, list[int]], split: str) -> bool:
    """Whether a split is one that came before: its objects are counted once."""
    return any(set(splits[name]) == set(splits[split]) for name in splits if name != split)


def _below(settings: BoxSettings, split: str) -> list[str]:
    """Images below the folder of a split, relative to the root."""
    root, folder = settings.root_path(), getattr(settings, "images", ".")
    folder = folder.get(split, ".") if isinstance(folder, dict) else folder
    if not isinstance(folder, str) or not (root / folder).is_dir():
        return []
    return sorted(_relative(path, root) for path in (root / folder).rglob("*") if is_image_name(path.name))


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
