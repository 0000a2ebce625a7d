"""All objects of a data set as flat arrays, from the files of its images or from lists of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hires.data.box_checks import Problems, problems
from hires.data.box_classes import BoxClasses, Table, Vocabulary
from hires.data.box_objects import Objects, made
from hires.data.checks.examine import Record


@dataclass(frozen=True)
class Things:
    """Objects with their classes. `objects.images` are indices of the listing's pairs, `objects.classes` those of
    `names`, or -1; `boxes` are clipped to the images; `others` says what files call the objects without class.
    """

    objects: Objects
    boxes: np.ndarray  # (M, 4) float64
    wrong: Problems
    names: tuple[str, ...]
    others: dict[str, np.ndarray]  # name -> indices of the images, one for each object

    @property
    def counted(self) -> np.ndarray:
        """(M,) bool: what training learns from: of a class, with an area, once, not ignored."""
        left_out = self.wrong.flat | self.wrong.outside | self.wrong.repeated | self.objects.ignored
        return ~left_out & (self.objects.classes >= 0)

    @property
    def sides(self) -> np.ndarray:
        """(M, 2) float64 width and height, pixels."""
        return self.boxes[:, 2:] - self.boxes[:, :2]


def things_of(
    objects: Objects, vocabulary: Vocabulary, sizes: np.ndarray, table: Table | None, ignored: Sequence[int | str]
) -> Things:
    """Objects, whose classes are numbers of the vocabulary, with those of a table; sizes (N, 2) of all images.

    Raises SettingError for a table that the vocabulary contradicts.
    """
    classes = BoxClasses(vocabulary, table, ignored)
    labels, ignores = classes.indexed(objects, "ignore", []), classes.ignores(objects)
    strange = (labels < 0) & ~ignores
    numbers = np.unique(objects.classes[strange]).tolist()
    others = {vocabulary.names.get(n, str(n)): objects.images[strange & (objects.classes == n)] for n in numbers}
    indexed = objects._replace(classes=labels, ignored=objects.ignored | ignores)
    boxes, wrong = problems(indexed, sizes)
    return Things(indexed, boxes, wrong, classes.names, others)


def joined_facts(records: Sequence[Record]) -> tuple[Objects, Vocabulary]:
    """The objects of images whose label files were read one by one; `images` are indices of the records.

    Files that number no classes get numbers in order of all their names.
    """
    known = [(index, record.boxes) for index, record in enumerate(records) if record.boxes is not None]
    named = {name for _, facts in known if not facts.numbered for name in facts.names.values()}
    order = {name: number for number, name in enumerate(sorted(named))}
    names = {number: name for _, facts in known if facts.numbered for number, name in facts.names.items()}
    numbered = all(facts.numbered for _, facts in known)
    numbers = [
        facts.numbers
        if facts.numbered
        else np.array([order[facts.names[n]] for n in facts.numbers.tolist()], np.int64)
        for _, facts in known
    ]
    objects = made(
        np.repeat([index for index, _ in known], [len(facts.boxes) for _, facts in known]),
        np.concatenate([np.zeros((0, 4)), *(facts.boxes for _, facts in known)]),
        np.concatenate([np.zeros(0, np.int64), *numbers]),
        np.concatenate([np.zeros(0, bool), *(facts.ignored for _, facts in known)]),
    )
    complete = all(facts.complete for _, facts in known)
    return objects, Vocabulary(names if numbered else {n: name for name, n in order.items()}, numbered, complete)
