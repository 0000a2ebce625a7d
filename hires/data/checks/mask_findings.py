"""What is found in the masks of a data set, and between them and their images."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hires.data.checks.examine import Record
from hires.data.checks.finding import Finding, Place, Severity, findings_of, percent
from hires.data.checks.mask_facts import MaskFacts
from hires.data.checks.skipping import Fate
from hires.data.class_table import ClassTable
from hires.data.class_values import colour_text
from hires.data.mask_folder import MaskFolder
from hires.data.pairs import Pair

_MOSTLY = 0.5  # share of pixels without a class from which on the table is probably another set's
_SHOWN = 3
_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")
_MOST_BYTES = 2**20

Masks = Sequence[tuple[Pair, Record, MaskFacts]]


def mask_findings(
    settings: MaskFolder, pairs: Sequence[Pair], records: Sequence[Record], fate: Fate
) -> list[Finding]:
    """All about masks that lie in files of their own."""
    table, both = settings.table(), list(zip(pairs, records, strict=True))
    masks = [(pair, record, record.mask) for pair, record in both if record.mask is not None]
    return [
        *broken_masks(pairs, records, fate),
        *_sizes(masks, fate),
        *_palettes(masks, is_colour=table.is_colour),
        *_values(settings, masks, is_colour=table.is_colour),
        *_soft(settings, masks),
        *_empty(table, masks),
        *_folders(table, pairs),
        *(_class_files(settings.root_path(), masks) if table.is_colour and masks else []),
    ]


def broken_masks(pairs: Sequence[Pair], records: Sequence[Record], fate: Fate) -> list[Finding]:
    both = zip(pairs, records, strict=True)
    return findings_of(
        "unreadable-mask",
        fate.severity,
        "{n} mask(s) cannot be read" + fate.text,
        "correct them as said for each, or remove them with their images",
        [Place(pair.truth, record.label_problem) for pair, record in both if record.label_problem],
    )


def _sizes(masks: Masks, fate: Fate) -> list[Finding]:
    wrong = [
        Place(pair.truth, f"mask {_text(mask.size)}, image {_text(record.image.info.size)} (height x width)")
        for pair, record, mask in masks
        if record.image is not None and record.image.info.size != mask.size
    ]
    text = "{n} mask(s) are of another size than their images" + fate.text
    return findings_of(
        "size-mismatch", fate.severity, text, "make them equal: no pixel has a certain class otherwise", wrong
    )


def _text(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _palettes(masks: Masks, *, is_colour: bool) -> Iterator[Finding]:
    """Palette files whose palettes contradict each other, which only matters where their indices count."""
    colours: dict[int, tuple[int, str]] = {}
    contrary = []
    for pair, _, mask in masks:
        for value, colour in (mask.palette or {}).items():
            first, where = colours.setdefault(value, (colour, pair.truth))
            if first != colour:
                detail = f"{value} is {colour_text(colour)}, but {colour_text(first)} in {where}"
                contrary.append(Place(pair.truth, detail))
                break
    if not is_colour:
        text = "{n} mask(s) show a value in another colour than others: palette indices are then hardly classes"
        yield from findings_of(
            "palettes-differ", "error", text, "list colours in data.classes instead of values", contrary
        )
    elif contrary:
        files = [Place(pair.truth) for pair, _, mask in masks if mask.palette is not None]
        orders = len({tuple((mask.palette or {}).items()) for _, _, mask in masks if mask.palette is not None})
        text = f"{{n}} of {len(masks)} masks are palette files, with {orders} palettes; they are read by colour"
        advice = "nothing to do for hires; read by its indices, a colour is another class in another file"
        yield from findings_of("palette-masks", "info", text, advice, files)


def _values(settings: MaskFolder, masks: Masks, *, is_colour: bool) -> Iterator[Finding]:
    strange = [(pair, mask) for pair, _, mask in masks if mask.unlisted]
    if not strange:
        return
    shown = colour_text if is_colour else str
    total = sum(mask.size[0] * mask.size[1] for _, _, mask in masks)
    off = sum(sum(mask.unlisted.values()) for _, mask in strange)
    places = [Place(pair.truth, _listed(mask, shown)) for pair, mask in strange]
    wrong, refused = off > _MOSTLY * total, settings.unlisted == "error"
    kind = "colours" if is_colour else "values"
    text = f"{{n}} mask(s) hold {kind} that no class has: {percent(off / total)} of all pixels"
    fate = "" if refused else ", which are ignored"
    if wrong:
        advice = f"data.classes is probably made for other masks: these hold {_frequent(masks, shown)}"
    else:
        advice = "add them to data.classes or data.ignore_values, or set data.unlisted=ignore"
        advice = advice if refused else "list them in data.ignore_values if they mean nothing"
    if _is_soft(settings, masks):
        advice = "these look like soft edges between 0 and 255: set data.threshold=127"
    severity: Severity = "error" if refused or wrong else "info"
    yield Finding(
        "unlisted-values",
        severity,
        text.replace("{n}", str(len(places)), 1) + fate,
        advice,
        len(places),
        tuple(places),
    )


def _listed(mask: MaskFacts, shown: Callable[[int], str]) -> str:
    values = sorted(mask.unlisted, key=lambda value: -mask.unlisted[value])
    share = percent(sum(mask.unlisted.values()) / (mask.size[0] * mask.size[1]))
    first = ", ".join(f"{shown(value)}: {mask.unlisted[value]} px" for value in values[:_SHOWN])
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return f"{first}{more} ({share} of it)"


def _frequent(masks: Masks, shown: Callable[[int], str]) -> str:
    counts = Counter[int]()
    for _, _, mask in masks:
        counts.update(mask.values)
    return ", ".join(shown(value) for value, _ in counts.most_common(6))


def _soft_ones(masks: Masks) -> list[tuple[Pair, MaskFacts, int]]:
    """Masks with many values between 0 and 255, and how many."""
    between = [(pair, mask, sum(0 < value < 255 for value in mask.values)) for pair, _, mask in masks]
    return [(pair, mask, number) for pair, mask, number in between if number > 3 and max(mask.values) <= 255]


def _is_soft(settings: MaskFolder, masks: Masks) -> bool:
    """Whether masks of 0 and 255 are meant and grays between them occur."""
    numbers = re.findall(r"\d+", " ".join(str(value) for value in _given(settings)))
    return settings.threshold is None and set(numbers) <= {"0", "255"} and bool(_soft_ones(masks))


def _given(settings: MaskFolder) -> list[object]:
    several = settings.classes.values()
    return [
        str(v).rpartition("/")[2] for given in several for v in (given if isinstance(given, tuple) else (given,))
    ]


def _soft(settings: MaskFolder, masks: Masks) -> list[Finding]:
    if settings.threshold is None:
        return []
    places, most = [], 0.0
    for pair, mask, number in _soft_ones(masks):
        above = sum(count for value, count in mask.values.items() if value > settings.threshold)
        some = sum(count for value, count in mask.values.items() if value > 0)
        most = max(most, 1 - above / max(1, some))
        places.append(Place(pair.truth, f"{number} values between 0 and 255; {above} of {some} px above"))
    text = (
        f"{{n}} mask(s) have soft edges, cut at data.threshold={settings.threshold:g}; what is above 0 but not "
        f"above that is up to {percent(most)} of a mask's foreground"
    )
    return findings_of("soft-masks", "info", text, "nothing to do, if the threshold is what you want", places)


def _empty(table: ClassTable, masks: Masks) -> list[Finding]:
    empty = [
        Place(pair.truth, f"no pixel of {', '.join(table.names[index] for index in wanted)}")
        for pair, _, mask in masks
        if (wanted := table.classes_of(mask.folder)) and not mask.pixels[wanted].any()
    ]
    return findings_of(
        "empty-masks",
        "warning",
        "{n} mask(s) hold no pixel of the class that their folder stands for",
        "they count as they are: complete or remove those that are not meant so",
        empty,
    )


def _folders(table: ClassTable, pairs: Sequence[Pair]) -> list[Finding]:
    there = {part for pair in pairs for part in Path(pair.truth).parts[:-1]}
    absent = [Place(folder) for folder in sorted(table.folders - there)]
    return findings_of(
        "folder-without-mask",
        "error",
        "{n} folder(s) that data.classes names hold no mask",
        "correct the names: their classes do not occur otherwise",
        absent,
    )


def _class_files(root: Path, masks: Masks) -> list[Finding]:
    """JSON files in the root that list colours of classes which hardly a pixel has."""
    counts = Counter[int]()
    for _, _, mask in masks:
        counts.update(mask.values)
    total, places = sum(counts.values()), []
    for file in sorted(root.glob("*.json")):
        colours = _colours_in(file)
        share = sum(counts[colour] for colour in colours) / total
        if len(colours) > 1 and share < _MOSTLY:
            places.append(Place(file.name, f"its {len(colours)} colours are {percent(share)} of the pixels"))
    text = "{n} file(s) list other colours than the masks hold"
    return findings_of("classes-file", "info", text, "do not take data.classes from there", places)


def _colours_in(file: Path) -> set[int]:
    try:
        if file.stat().st_size > _MOST_BYTES:
            return set()
        text = file.read_text(encoding="utf-8")
        json.loads(text)
    except (OSError, ValueError, RecursionError):
        return set()
    return {int(colour[1:], 16) for colour in _COLOUR.findall(text)}
