"""What is found in the objects of a data set and in the files that name them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from hires.data.box_folder import BoxSettings
from hires.data.checks.box_facts import BoxFacts
from hires.data.checks.examine import Record
from hires.data.checks.finding import Finding, Place, findings_of, percent
from hires.data.checks.skipping import Fate
from hires.data.checks.things import Things
from hires.data.drawn_masks import DrawnMasks
from hires.data.pairs import Pair

_MANY = 0.05  # share of boxes that are wrong from which on all are probably misread


def label_findings(pairs: Sequence[Pair], records: Sequence[Record], fate: Fate) -> list[Finding]:
    """What is wrong with label files."""
    both = list(zip(pairs, records, strict=True))
    told = (Place(pair.truth, record.label_problem) for pair, record in both if record.label_problem)
    broken = list(dict.fromkeys(told))  # one file may be of many images
    known = [(pair, record.boxes) for pair, record in both if record.boxes is not None]
    foreign = [Place(pair.truth) for pair, facts in known if facts.foreign]
    findings = findings_of(
        "unreadable-label",
        fate.severity,
        "{n} label file(s) cannot be read" + fate.text,
        "correct them as said for each, or remove them with their images",
        broken,
    )
    return [*findings, *_remarks(known)] + findings_of(
        "foreign-paths",
        "info",
        "{n} label file(s) name their image by a path of another machine",
        "nothing to do: hires pairs files by their names",
        foreign,
    )


def _remarks(known: Sequence[tuple[Pair, BoxFacts]]) -> Iterator[Finding]:
    """What readers found, once a file, which may be of many images."""
    counts = defaultdict[str, dict[str, int]](dict)
    for pair, facts in known:
        for what, number in facts.remarks:
            counts[what][pair.truth or pair.image] = number
    for what, files in counts.items():
        places = [Place(file, str(number) if number > 1 else "") for file, number in files.items()]
        number = sum(files.values())
        yield from findings_of("label-remark", "warning", f"{{n}} {what}", advice_on(what), places, number)


def advice_on(remark: str) -> str:
    """What to do about what a reader found."""
    if "left out" in remark or "ignored" in remark:
        return "nothing to do if they are not wanted, else annotate them as data.classes and the reader need it"
    return "check that images and labels belong together"


def object_findings(settings: BoxSettings, things: Things | None, training: Sequence[int]) -> list[Finding]:
    """That there is nothing to learn in the training images; `things` None: no file says a class."""
    if isinstance(settings, DrawnMasks) and things is not None:
        return []
    if things is None:
        text, advice = "no label file names a class, and data.classes names none", "check the label files"
        return [Finding("no-object", "error", text, advice, 1)]
    if np.isin(things.objects.images[things.counted], np.array(training, np.int64)).any():
        return []
    window = settings.window
    needed = settings.fit == "window" and (window.focus > 0 or window.negatives is not None)
    advice = "check the annotations and data.classes"
    if needed:
        advice += ", or set data.window.focus=0 (and no data.window.negatives) to train without any"
    text = "no training image holds an object that counts"
    return [Finding("no-object", "error" if needed else "warning", text, advice, 1)]


def box_findings(settings: BoxSettings, pairs: Sequence[Pair], things: Things) -> list[Finding]:
    """What is wrong with boxes and their classes."""
    return [*_shapes(pairs, things), *_classes(settings, pairs, things)]


def _shapes(pairs: Sequence[Pair], things: Things) -> Iterator[Finding]:
    wrong, total = things.wrong, max(1, len(things.boxes))
    kinds = (
        (
            "box-without-area",
            wrong.flat,
            "{n} box(es) have no area, or are upside down, and are left out",
            "correct or remove them",
        ),
        (
            "box-outside",
            wrong.outside,
            "{n} box(es) lie outside of their images and are left out",
            "correct or remove them",
        ),
        (
            "box-over-edge",
            wrong.leaving,
            "{n} box(es) reach beyond their images and are clipped",
            "nothing to do if it is little",
        ),
        (
            "box-twice",
            wrong.repeated,
            "{n} box(es) repeat another of the same class and are left out",
            "remove them",
        ),
    )
    for code, which, text, advice in kinds:
        many = which.sum() > _MANY * total and which.sum() > 2 and code != "box-twice"
        if many:
            advice = f"{percent(which.sum() / total)} of all boxes are no slips: check the format of the labels"
        places = [
            Place(pairs[things.objects.images[i]].image, _described(things, i))
            for i in np.flatnonzero(which).tolist()
        ]
        yield from findings_of(code, "error" if many else "warning", text, advice, places)


def _described(things: Things, index: int) -> str:
    label, box = int(things.objects.classes[index]), things.objects.boxes[index]
    name = things.names[label] if label >= 0 else "no class"
    over = float(np.abs(things.boxes[index] - box).max())
    beyond = f", {over:.3g} px beyond" if things.wrong.leaving[index] else ""
    return f"{name} {', '.join(f'{value:.5g}' for value in box)}{beyond}"


def _classes(settings: BoxSettings, pairs: Sequence[Pair], things: Things) -> Iterator[Finding]:
    places = [
        Place(pairs[image].image, f"{name}: {number}")
        for name, images in things.others.items()
        for image, number in zip(*np.unique(images, return_counts=True), strict=True)
    ]
    count = sum(map(len, things.others.values()))
    refused = settings.unlisted == "error"
    fate = {"error": "", "ignore": " and count neither way", "drop": " and are left out"}[settings.unlisted]
    yield from findings_of(
        "unlisted-classes",
        "error" if refused else "info",
        f"{{n}} object(s) are of classes that data.classes does not list ({', '.join(things.others)}){fate}",
        "add them to data.classes, or set data.unlisted=ignore or drop",
        places,
        count,
    )
