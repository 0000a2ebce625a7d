"""Which images a data set has, with their labels, and which splits they are in, whatever is wrong with that."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hires.data.box_folder import PairedBoxes
from hires.data.checks.finding import Finding, Place, findings_of
from hires.data.checks.lists import list_findings
from hires.data.checks.missed import missed_files
from hires.data.disagreement import agreed, difference
from hires.data.folds import Folds, check_group_leaks, group_names
from hires.data.glob_keys import kept_by
from hires.data.mask_folder import MaskFolder
from hires.data.pairs import LEAVE_OUT, Pair, find, is_image_name, links_left
from hires.data.split_lists import Missing, entries_of
from hires.data.split_settings import SplitSettings
from hires.data.splits import split_keys
from hires.interfaces import DataError


@dataclass
class Listing:
    """The images of a data set: `pairs`, and their indices by split; a pair may lack its label."""

    pairs: list[Pair]
    splits: dict[str, list[int]]
    findings: list[Finding] = field(default_factory=list)

    def used(self) -> list[int]:
        """Indices of the pairs that are in a split."""
        return sorted(set().union(*self.splits.values())) if self.splits else []


def listing_of(settings: MaskFolder | PairedBoxes) -> Listing:
    """The pairs of a reader with a label file for each image. Raises DataError where there are no images."""
    if isinstance(settings, MaskFolder):
        pairs, findings = _masks(settings)
    else:
        pairs, findings = _labels(settings)
    splits, more = splits_of(settings, pairs)
    return Listing(pairs, splits, [*link_findings(settings.root_path(), settings.images), *findings, *more])


def link_findings(root: Path, images: str) -> list[Finding]:
    """Links that are not followed where images are looked for by a glob."""
    return findings_of(
        "looping-link",
        "warning",
        "{n} link(s) to folders that are read already are not followed",
        "remove them, or narrow data.images",
        [Place(link) for link in links_left(root, images)],
    )


def _masks(settings: MaskFolder) -> tuple[list[Pair], list[Finding]]:
    root = settings.root_path()
    with quiet():  # what is logged comes as findings
        kept = kept_by(settings.exclude)
        images, masks = agreed(
            find(root, settings.images, "images", kept), find(root, settings.masks, "masks", kept)
        )
    differ = difference(images, masks, "mask")
    pairs = [Pair(key, path, masks.get(key, "")) for key, path in images.items()]
    bare = [Place(pair.image, f"gives {pair.key!r}" if differ else "") for pair in pairs if not pair.truth]
    unused = [Place(path, f"gives {key!r}" if differ else "") for key, path in masks.items() if key not in images]
    skips = settings.missing_labels == "skip"
    advice = f"masks are looked for as {settings.masks!r}: add them, or narrow data.images{LEAVE_OUT}"
    return sorted((pair for pair in pairs if pair.truth or not skips), key=lambda pair: pair.image), [
        *findings_of(
            "image-without-label",
            ("warning" if differ else "info") if skips else "error",
            "{n} image(s) have no mask" + (" and are left out" if skips else ""),
            f"{differ}; else {advice}" if differ else advice,
            bare,
        ),
        *_unused(unused, "mask"),
        *missed_files(root, [("images", settings.images), ("masks", settings.masks)], settings.exclude),
    ]


def _labels(settings: PairedBoxes) -> tuple[list[Pair], list[Finding]]:
    with quiet():  # what is logged comes as findings
        pairs = replace(settings, missing_labels="negative").pairs()
        name, lonely = _lonely(settings, pairs)
    differ = _difference(pairs, name, lonely)
    bare = [Place(pair.image, f"gives {pair.key!r}" if differ else "") for pair in pairs if not pair.truth]
    fate = {"error": "", "negative": " and count as images without objects", "skip": " and are left out"}
    skips = settings.missing_labels == "skip"
    advice = f"add the files, or set data.missing_labels=negative if these images show no object{LEAVE_OUT}"
    return [pair for pair in pairs if pair.truth or not skips], [
        *findings_of(
            "image-without-label",
            "error" if settings.missing_labels == "error" else "warning" if differ else "info",
            "{n} image(s) have no label file" + fate[settings.missing_labels],
            f"{differ}; else {advice}" if differ else advice,
            bare,
        ),
        *_unused([Place(path, f"gives {key!r}" if differ else "") for key, path in lonely.items()], "label file"),
        *missed_files(
            settings.root_path(),
            [("images", settings.images), *([(name, getattr(settings, name))] if name else [])],
            settings.exclude,
        ),
    ]


def _lonely(settings: PairedBoxes, pairs: Sequence[Pair]) -> tuple[str, dict[str, str]]:
    """The setting that says where files of the truth are, and those of them that belong to no image, by key."""
    root = settings.root_path()
    name = next((name for name in ("labels", "annotations", "masks") if hasattr(settings, name)), "")
    if not name:
        return "", {}
    used, kept = {pair.truth for pair in pairs}, kept_by(settings.exclude)
    are_images = name == "masks"
    files = find(
        root, getattr(settings, name), name, lambda path: is_image_name(path) == are_images and kept(path)
    )
    lonely = {key: path for key, path in files.items() if path not in used and settings.is_truth(root / path)}
    return name, lonely


def _difference(pairs: Sequence[Pair], name: str, lonely: Mapping[str, str]) -> str:
    """How keys of images and label files differ; "" where most have theirs, or are paired otherwise."""
    bare = {pair.key: pair.image for pair in pairs if not pair.truth}
    return difference(bare, lonely, name.removesuffix("s")) if len(bare) > len(pairs) / 2 else ""


def _unused(places: Sequence[Place], what: str) -> list[Finding]:
    text = "{n} " + what + "(s) belong to no image and are not used"
    return findings_of("label-without-image", "warning", text, "add the images, or remove these files", places)


def splits_of(settings: SplitSettings, pairs: Sequence[Pair]) -> tuple[dict[str, list[int]], list[Finding]]:
    """The pairs' indices by split, images that are in two included, and what is wrong with the division."""
    root = settings.root_path()
    findings = list_findings(root, pairs, settings.splits, skips=settings.missing_entries == "skip")
    try:
        names = group_names(root, pairs, settings.groups)
    except DataError as error:
        findings.append(Finding("groups", "error", said(error, root), "change data.groups", 1))
        names = {pair.key: pair.key for pair in pairs}
    try:
        with quiet():
            keys = _keys(settings, pairs, names)
    except DataError as error:  # fewer groups than folds
        findings.append(Finding("groups", "error", said(error, root), "change data.folds or data.groups", 1))
        keys = {"train": {pair.key for pair in pairs}}
    findings += [*_in_two(pairs, keys), *_empty(settings.splits, keys)]
    if not any(one.code == "leak-listed" for one in findings):
        findings += _group_leaks(root, names, keys)
    splits = {name: [i for i, pair in enumerate(pairs) if pair.key in mine] for name, mine in keys.items()}
    return splits, [*findings, *_in_none(pairs, keys)]


def _keys(settings: SplitSettings, pairs: Sequence[Pair], names: Mapping[str, str]) -> dict[str, set[str]]:
    """Keys by split; what lists name in vain, and lists that cannot be read, are left out."""
    root = settings.root_path()
    return split_keys(
        root,
        pairs,
        {split: _readable(root, rule) for split, rule in settings.splits.items()},
        settings.split_seed,
        names=names,
        folds=None if settings.fold is None else Folds(settings.fold, settings.folds),
        missing=Missing(skip=True, told=""),
    )


def _readable(root: Path, rule: Any) -> Any:
    """A rule of a split without its lists that cannot be read."""
    if not isinstance(rule, (str, list, tuple)):
        return rule
    kept = []
    for text in [rule] if isinstance(rule, str) else rule:
        try:
            if text.endswith(".txt"):
                entries_of(root / text, "")
            kept.append(text)
        except DataError:
            continue
    return kept or None


def _in_two(pairs: Sequence[Pair], keys: Mapping[str, set[str]]) -> list[Finding]:
    """Images in two splits; val and test may be the same images."""
    homes: dict[str, list[str]] = {}
    same = keys.get("val") == keys.get("test")
    for split, mine in keys.items():
        if split == "test" and same:
            continue
        for key in mine:
            homes.setdefault(key, []).append(split)
    shared = [
        Place(pair.image, " and ".join(homes[pair.key])) for pair in pairs if len(homes.get(pair.key, ())) > 1
    ]
    advice = "change data.splits so that no image is in two"
    return findings_of("leak-listed", "error", "{n} image(s) are in two splits", advice, shared)


def _group_leaks(root: Path, names: Mapping[str, str], keys: Mapping[str, set[str]]) -> list[Finding]:
    try:
        check_group_leaks(root, names, keys, "data.splits")
    except DataError as error:
        return [Finding("leak-group", "error", said(error, root), "keep every group in one split", 1)]
    return []


def _empty(splits: Mapping[str, Any], keys: Mapping[str, set[str]]) -> list[Finding]:
    empty = [name for name, mine in keys.items() if not mine]
    return [
        Finding(
            "split-empty",
            "error",
            f"split {name!r} has no image" + (f" (data.splits.{name}={splits[name]})" if splits.get(name) else ""),
            "change data.splits" + ("" if name == "train" else f", or set data.splits.{name}=null"),
            1,
        )
        for name in empty
    ]


def _in_none(pairs: Sequence[Pair], keys: Mapping[str, set[str]]) -> list[Finding]:
    taken = set().union(*keys.values())
    left = [Place(pair.image) for pair in pairs if pair.key not in taken]
    text = "{n} image(s) are in no split and were not read"
    return findings_of("unused-images", "info", text, "list them in data.splits if they are wanted", left)


def said(error: Exception, root: Path) -> str:
    """An error's message with paths relative to the data set's root."""
    return str(error).replace(f"{root}/", "").removeprefix(f"{root}: ")


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of the readers: they are told as findings."""
    logger = logging.getLogger("hires.data")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
