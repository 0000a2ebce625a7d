"""How often the classes occur in the splits, and how large what shows them is."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from hires.data.checks.examine import Record
from hires.data.checks.finding import Finding, Place, findings_of, percent, times
from hires.data.checks.mask_facts import MaskFacts
from hires.data.checks.things import Things
from hires.data.checks.widths import LIMITS, share_below

SMALL = 3
"""Pixels: what is narrower is hardly learnt, as its border is most of it."""
_MUCH = 0.1  # share of a class in small things from which on it is told
_UNEVEN = 10  # times as many
SIDES = (4, 8, 16, 32, 64, 128, 256, 512)
"""Sides of objects, pixels, that are counted apart."""

Splits = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class ClassFacts:
    """One class: counts by split (objects, or pixels of masks), and sizes."""

    name: str
    counts: dict[str, int]  # objects or pixels by split
    images: dict[str, int]  # images that show it, by split
    sizes: dict[str, float] = field(default_factory=dict)  # of objects: 5, 50, 95 % of the square root of the area
    below: dict[str, float] = field(default_factory=dict)  # share narrower than so many pixels
    below_resized: float | None = None  # narrower than SMALL if images are resized to image_size

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def classes_of_masks(
    names: Sequence[str], records: Sequence[Record], splits: Splits, image_size: tuple[int, int] | None
) -> list[ClassFacts]:
    """Classes by pixels; widths over all splits."""
    masks = [record.mask for record in records]
    return [_of_masks(name, index, masks, splits, image_size) for index, name in enumerate(names)]


def _of_masks(
    name: str,
    index: int,
    masks: Sequence[MaskFacts | None],
    splits: Splits,
    image_size: tuple[int, int] | None,
) -> ClassFacts:
    pixels = {
        s: [int(m.pixels[index]) for i in members if (m := masks[i]) is not None] for s, members in splits.items()
    }
    known = [mask for mask in masks if mask is not None]
    narrow = sum((mask.narrow[index] for mask in known), np.zeros(len(LIMITS)))
    total = sum(float(mask.measured[index]) for mask in known)
    resized = None
    if image_size and total:
        parts = (
            share_below(SMALL / scale_of(mask.size, image_size), mask.narrow[index], mask.measured[index])
            * mask.measured[index]
            for mask in known
        )
        resized = float(sum(parts)) / total
    return ClassFacts(
        *(name, {split: sum(counts) for split, counts in pixels.items()}),
        {split: sum(count > 0 for count in counts) for split, counts in pixels.items()},
        below={str(limit): share_below(limit, narrow, total) for limit in LIMITS} if total else {},
        below_resized=resized,
    )


def classes_of_things(
    things: Things, splits: Splits, sizes: np.ndarray, image_size: tuple[int, int] | None
) -> list[ClassFacts]:
    """Classes by objects; sizes over all splits. `sizes`: (N, 2) of the images."""
    counted, sides = things.counted, things.sides
    result = []
    for index, name in enumerate(things.names):
        mine = counted & (things.objects.classes == index)
        homes = things.objects.images[mine]
        within = {split: np.isin(homes, np.array(members, np.int64)) for split, members in splits.items()}
        shorter, area = sides[mine].min(axis=1, initial=np.inf), np.sqrt(sides[mine].prod(axis=1))
        resized = None
        if image_size and len(homes):
            scales = np.array([scale_of((h, w), image_size) for h, w in sizes[homes].tolist()])
            resized = float((shorter * scales < SMALL).mean())
        result.append(
            ClassFacts(
                *(name, {split: int(which.sum()) for split, which in within.items()}),
                {split: len(np.unique(homes[which])) for split, which in within.items()},
                sizes=dict(zip(("5%", "50%", "95%"), np.percentile(area, [5, 50, 95]).tolist(), strict=True))
                if len(homes)
                else {},
                below={str(side): float((shorter < side).mean()) for side in SIDES} if len(homes) else {},
                below_resized=resized,
            )
        )
    return result


def scale_of(size: tuple[int, int], image_size: tuple[int, int]) -> float:
    """How much an image of a size shrinks to fit into another."""
    if 0 in size:
        return 1.0
    return min(image_size[0] / size[0], image_size[1] / size[1])


def class_findings(classes: Sequence[ClassFacts], unit: str, read: Collection[str]) -> list[Finding]:
    """Classes that do not occur, in all or in some splits, and those that are rare; `unit`: objects or pixels.

    Of splits that are not among those `read`, as no label of theirs can be, nothing is said.
    """
    splits = [split for split in classes[0].counts if split in read] if classes else []
    if not splits:
        return []
    never = [Place(one.name) for one in classes if not any(one.counts.values())]
    untaught = [
        Place(one.name, f"only in {', '.join(split for split, count in one.counts.items() if count)}")
        for one in classes
        if any(one.counts.values()) and "train" in read and not one.counts.get("train")
    ]
    missing = [
        Place(one.name, f"not in {', '.join(absent)}")
        for one in classes
        if one.counts.get("train") and (absent := [s for s in splits if not one.counts[s] and s != "train"])
    ]
    return [
        *findings_of(
            "class-unused",
            "warning",
            f"{{n}} class(es) are declared, but no {unit[:-1]} has them: {', '.join(one.file for one in never)}",
            "remove them from data.classes, or check how they are called in the files",
            never,
        ),
        *findings_of(
            "class-untaught",
            "warning",
            "{n} class(es) do not occur in the training images",
            "divide the images otherwise: nothing can be learnt of them",
            untaught,
        ),
        *findings_of(
            "class-not-evaluated",
            "info",
            "{n} class(es) do not occur in a split that is evaluated",
            "they get no score there",
            missing,
        ),
        *_uneven(classes, unit),
    ]


def _uneven(classes: Sequence[ClassFacts], unit: str) -> list[Finding]:
    counts = {one.name: one.counts.get("train", 0) for one in classes if one.counts.get("train")}
    if len(counts) < 2:
        return []
    most, least = max(counts, key=lambda n: counts[n]), min(counts, key=lambda n: counts[n])
    ratio, total = counts[most] / counts[least], sum(counts.values())
    if ratio < _UNEVEN:
        return []
    rare = [
        Place(name, f"{count:,} {unit}, {percent(count / total)}")
        for name, count in counts.items()
        if counts[most] >= _UNEVEN * count
    ]
    text = f"classes are uneven: {most} has {times(ratio)} times as many {unit} as {least}"
    advice = "class weights, or windows on rare classes (data.window.focus), help; the proposal has both"
    if unit == "objects":
        advice = (
            "data.window.focus places windows on objects of all classes alike; look at the scores of each class"
        )
    return [Finding("classes-uneven", "info", text, advice, len(rare), tuple(rare))]


def size_findings(
    classes: Sequence[ClassFacts], image_size: tuple[int, int] | None, *, fit: str, things: bool, scores: int
) -> list[Finding]:
    """Classes of which much is too small for the network to see, or larger than a window.

    `fit`: how images are shown; `scores`: stride of the finest map that objects are found on, pixels.
    """
    if image_size is None:
        return []
    what = "objects" if things else "pixels"
    shown = "x".join(map(str, image_size)) if image_size[0] != image_size[1] else str(image_size[0])
    small = [
        Place(one.name, f"{percent(one.below_resized)} of its {what} are under {SMALL} px at image_size {shown}")
        for one in classes
        if fit == "resize" and one.below_resized is not None and one.below_resized > _MUCH
    ]
    fine = [
        Place(one.name, f"{percent(share)} of its objects are narrower than {limit} px")
        for one in classes
        for limit in SIDES
        if things and fit == "window" and limit == scores and (share := one.below.get(str(limit), 0.0)) > _MUCH
    ]
    return [
        *findings_of(
            "too-small",
            "warning",
            f"much of {{n}} class(es) is under {SMALL} px where images are resized to {shown}: "
            + "; ".join(f"{place.file}: {place.detail}" for place in small),
            "train on windows: data.fit=window",
            small,
        ),
        *findings_of(
            "below-stride",
            "info",
            f"many objects of {{n}} class(es) are narrower than the finest stride of the detector, {scores} px",
            "add a finer level: model.neck.levels, or a model that has one (fcos_fine)",
            fine,
        ),
    ]
