"""Classes of annotation files become class indices, and what is in no class is named."""

import numpy as np
import pytest

from hires.data.box_classes import BoxClasses, Vocabulary
from hires.data.box_objects import made
from hires.interfaces import DataError
from hires.settings import SettingError

COCO = Vocabulary({18: "dog", 3: "car", 6: "bus"})
VOC = Vocabulary({0: "RBC", 1: "WBC", 2: "1"}, numbered=False, complete=False)
YOLO = Vocabulary({}, complete=False)


def objects(*classes, images=None):
    return made(np.array(images or range(len(classes))), np.zeros((len(classes), 4)), np.array(classes))


@pytest.mark.parametrize(
    ("vocabulary", "table", "names", "ids", "labels"),
    [
        (COCO, None, ("car", "bus", "dog"), (3, 6, 18), {3: 0, 6: 1, 18: 2}),
        (COCO, ("dog", "car"), ("dog", "car"), (18, 3), {18: 0, 3: 1}),
        (COCO, {"pet": "dog", "vehicle": (6, "car")}, ("pet", "vehicle"), (18, 6), {18: 0, 6: 1, 3: 1}),
        (VOC, None, ("RBC", "WBC", "1"), (1, 2, 3), {0: 0, 1: 1, 2: 2}),
        (
            VOC,
            {"cell": ("RBC", "WBC"), "one": 1, "none": "X"},
            ("cell", "one", "none"),
            (1, 2, 3),
            {0: 0, 1: 0, 2: 1},
        ),
        (YOLO, {"car": 0, "large": (1, 2)}, ("car", "large"), (0, 1), {0: 0, 1: 1, 2: 1}),
    ],
)
def test_tables(vocabulary, table, names, ids, labels):
    classes = BoxClasses(vocabulary, table)
    assert (classes.names, classes.ids) == (names, ids)
    found = classes.indexed(objects(*labels), "error", ["f"] * len(labels))
    assert found.dtype == np.int64
    assert found.tolist() == list(labels.values())


@pytest.mark.parametrize(
    ("vocabulary", "table", "message"),
    [
        (
            COCO,
            {"a": "bu"},
            r"^data.classes.a: got 'bu', allowed: dog \(18\), car \(3\), bus \(6\); did you mean bus\?",
        ),
        (COCO, {"a": 4}, r"^data.classes.a: got 4"),
        (COCO, {"a": ()}, r"^data.classes.a: got \[\], allowed: at least one"),
        (COCO, {"a": "car", "b": (6, 3)}, r"^data.classes.b: got '3 \(car\)', allowed: what is not yet in a"),
        (COCO, {}, "^data.classes: got '0 classes'"),
        (COCO, ("car", "bus", "car"), "^data.classes: got .*'car' stands there twice"),
        (VOC, ("RBC", "RBC"), "^data.classes: got .*'RBC' stands there twice"),
        (Vocabulary({0: "a", 1: "a"}), None, r"^data.classes.a: .*0 and 1 both have it; a: \[0, 1\]"),
        (Vocabulary({0: "a\n"}), None, r"^data.classes: got 'a\\n', allowed: names of one line"),
        (Vocabulary({0: "a\nb"}), None, r"^data.classes: got 'a\\nb', allowed: names of one line"),
        (VOC, {"a": "RBC", "b": "RBC"}, "^data.classes.b: got 'RBC'"),
        (YOLO, {"a": "car"}, "^data.classes.a: got 'car', allowed: numbers"),
    ],
)
def test_tables_that_make_no_sense(vocabulary, table, message):
    with pytest.raises(SettingError, match=message):
        BoxClasses(vocabulary, table)


def test_objects_of_other_classes():
    classes = BoxClasses(VOC, {"RBC": "RBC"})
    several = objects(0, 1, 1, 2, 1, images=[0, 1, 1, 1, 2])
    with pytest.raises(DataError) as error:
        classes.indexed(several, "error", ["a.xml", "b.xml", "c.xml"])
    assert str(error.value).startswith("b.xml: class WBC is none of RBC (did you mean RBC?); 3 object(s) in 2 ")
    assert "1 more class(es)" in str(error.value)
    assert "data.unlisted=ignore or drop" in str(error.value)
    assert classes.indexed(several, "drop", []).tolist() == [0, -1, -1, -1, -1]
    assert classes.indexed(objects(), "error", []).shape == (0,)
