"""Notes beside an evaluation: how each image did, and the place of it with most mistakes."""

import logging

import numpy as np
import pytest
import torch

from hires.engine.evaluate import FittingViews, evaluate
from hires.engine.views import Views
from hires.evaluation.detection import DetectionEvaluator
from hires.evaluation.segmentation import LabelRows, MultilabelEvaluator, SegmentationEvaluator
from hires.interfaces import IGNORE
from hires.ops.boxes import Detections
from hires.ops.looks import SIDE, HarmlessNotes, Look, NoNotes, Window, ranked

CLASSES = ("a", "b", "c")


def images(rng, size):
    """A truth with ignored pixels, and a prediction that is wrong here and there, in one corner often."""
    truth = np.kron(rng.integers(0, 3, (size[0] // 16 + 1, size[1] // 16 + 1)), np.ones((16, 16)))
    truth = truth[: size[0], : size[1]].astype(np.uint8)
    said = np.where(rng.random(size) < 0.02, rng.integers(0, 3, size), truth).astype(np.uint8)
    y, x = (int(rng.integers(max(1, side - 60))) for side in size)
    said[y : y + 60, x : x + 60] = rng.integers(0, 3, said[y : y + 60, x : x + 60].shape)
    truth[:7] = IGNORE
    return truth, said


def told(evaluator, notes, index, truth, said, rng):
    """An image in bands of random heights."""
    top = 0
    while top < len(said):
        part = LabelRows(top, said[top : top + int(rng.integers(1, 200))])
        evaluator.update(part, {"mask": truth})
        notes.update(index, part, {"mask": truth})
        top += len(part.labels)


@pytest.mark.parametrize("size", [(700, 1000), (321, 330), (90, 400), (500, 40), (20, 25)])
def test_the_window_with_most_mistakes_is_found_in_whatever_bands_rows_come(size):
    rng = np.random.default_rng(sum(size))
    truth, said = images(rng, size)
    evaluator = SegmentationEvaluator(CLASSES)
    notes = evaluator.notes()
    told(evaluator, notes, 7, truth, said, rng)
    (look,) = notes.evidence().looks
    window = look.window
    assert (window.height, window.width) == tuple(min(SIDE, side) for side in size)
    area = np.s_[window.y : window.y + window.height, window.x : window.x + window.width]
    np.testing.assert_array_equal(look.labels, said[area])
    wrong = (truth != said) & (truth != IGNORE)
    height, width = look.labels.shape
    others = [
        wrong[y : y + height, x : x + width].sum()
        for y in {*range(0, size[0] - height + 1, 32), size[0] - height}
        for x in range(0, size[1] - width + 1, 32)
    ]
    assert wrong[area].sum() >= 0.97 * max(others)  # borders of the truth count a little too


def test_scores_are_those_of_each_image_alone():
    rng = np.random.default_rng(1)
    evaluator = SegmentationEvaluator(CLASSES)
    notes, alone = evaluator.notes(), []
    for index in range(5):
        truth, said = images(rng, (64, 80))
        told(evaluator, notes, index, truth, said, rng)
        one = SegmentationEvaluator(CLASSES)
        one.update(LabelRows(0, said), {"mask": truth})
        alone.append(one.compute()["mIoU"])
    found = notes.evidence()
    assert found.scores == pytest.approx(sorted(alone))
    assert [look.image for look in found.looks] == [int(i) for i in np.argsort(alone)[[0, 2, 4]]]
    assert [look.rank for look in found.looks] == ["worst", "median", "best"]
    assert found.confusion == evaluator.confusion.counts.tolist()
    told(evaluator, notes, 5, np.full((8, 8), IGNORE, np.uint8), np.zeros((8, 8), np.uint8), rng)
    assert len(notes.evidence().scores) == 5  # nothing of the last one counts


def test_two_shares_make_the_notes_of_all():
    rng = np.random.default_rng(2)
    all_images = [images(rng, (50, 60)) for _ in range(6)]
    evaluators = [SegmentationEvaluator(CLASSES) for _ in range(3)]
    whole, first, second = (evaluator.notes() for evaluator in evaluators)
    for index, (truth, said) in enumerate(all_images):
        told(evaluators[0], whole, index, truth, said, rng)
        told(evaluators[1 + index % 2], (first, second)[index % 2], index, truth, said, rng)
    evaluators[1].merge([evaluators[2].counted()])
    first.merge([second.counted()])
    for one, other in zip(first.evidence(), whole.evidence(), strict=True):
        if one and isinstance(one[0], Look):
            assert [look[:3] for look in one] == [look[:3] for look in other]
        else:
            assert one == other


def test_of_many_images_a_few_places_are_held_and_the_ends_are_true():
    evaluator = SegmentationEvaluator(CLASSES)
    notes, rng = evaluator.notes(), np.random.default_rng(3)
    for index in rng.permutation(400):
        truth = np.zeros((10, 40), np.uint8)
        said = truth.copy()
        said.flat[:index] = 1
        part = LabelRows(0, said)
        evaluator.update(part, {"mask": truth})
        notes.update(int(index), part, {"mask": truth})
    assert len(notes.looks) <= 96
    found = notes.evidence()
    of = {rank: [look.image for look in found.looks if look.rank == rank] for rank in ("worst", "median", "best")}
    assert set(of["worst"]) == {397, 398, 399}
    assert of["best"][0] == 0
    assert np.median(found.scores) == pytest.approx(np.mean([look.score for look in found.looks[3:6]]), abs=0.05)


def test_several_labels_a_pixel():
    evaluator = MultilabelEvaluator(CLASSES)
    notes, rng = evaluator.notes(), np.random.default_rng(4)
    told(evaluator, notes, 0, np.full((40, 40), 5, np.uint8), np.full((40, 40), 4, np.uint8), rng)
    found = notes.evidence()
    assert found.confusion is None
    assert found.scores == [0.5]  # the class `a` is missed, `c` is found, `b` is not there


def boxes(*corners):
    return np.array(corners, np.float32).reshape(-1, 4)


def seen(evaluator, notes, index, truth, found, scores):
    target = {
        "boxes": truth,
        "labels": np.zeros(len(truth), np.int64),
        "ignored": np.zeros(len(truth), bool),
        "areas": (truth[:, 2:] - truth[:, :2]).prod(1),
        "size": np.array([1000, 1200]),
    }
    labels = torch.zeros(len(found), dtype=torch.int64)
    part = Detections(torch.from_numpy(found), torch.tensor(scores), labels, (1000, 1200))
    evaluator.update(part, target)
    notes.update(index, part, target)


def test_objects_that_are_missed_and_found_in_vain():
    evaluator = DetectionEvaluator(("a",))
    notes = evaluator.notes()
    good, far = (10, 10, 50, 50), (900, 800, 940, 840)
    seen(evaluator, notes, 3, boxes(good), boxes(good), [0.9])
    seen(evaluator, notes, 4, boxes(good, far), boxes(good, (700, 500, 740, 560)), [0.9, 0.8])
    seen(evaluator, notes, 8, boxes(good, far), boxes(good, far, (0, 0, 30, 9)), [0.9, 0.9, 0.01])
    evaluator.compute()
    found = notes.evidence()
    by_image = {look.image: look for look in found.looks}
    assert {image: look.score for image, look in by_image.items()} == pytest.approx({3: 1, 4: 2 / 3, 8: 1})
    assert found.confidence == pytest.approx(0.9)
    worst = by_image[4]
    assert worst.rank == "worst"
    assert worst.truth.right.tolist() == [True, False]
    assert len(worst.found.boxes) == 1  # the false one is below the confidence
    y, x, height, width = worst.window
    assert (height, width) == (SIDE, SIDE)
    assert x <= 900 <= 940 <= x + width
    assert y <= 800 <= 840 <= y + height
    assert len(found.curves["a"]) == 101


def test_images_without_objects_or_detections():
    evaluator = DetectionEvaluator(("a",))
    notes = evaluator.notes()
    seen(evaluator, notes, 0, boxes(), boxes(), [])
    evaluator.compute()
    found = notes.evidence()
    assert found.scores == [1.0]
    assert found.curves == {}
    assert found.confidence is None


def test_a_large_object_gets_a_larger_window():
    evaluator = DetectionEvaluator(("a",))
    notes = evaluator.notes()
    seen(evaluator, notes, 0, boxes((100, 100, 700, 500)), boxes(), [])
    evaluator.compute()
    (look,) = notes.evidence().looks
    y, x, height, width = look.window
    assert x <= 100 <= 700 <= x + width <= 1200
    assert y <= 100 <= 500 <= y + height <= 1000


def test_ranks_of_few_images():
    looks = [Look(i, i / 10, Window(0, 0, 1, 1)) for i in range(5)]

    def ranks(count):
        scores = [look.score for look in looks[:count]]
        return [(look.rank, look.image) for look in ranked(looks[:count], scores)]

    assert ranks(0) == []
    assert ranks(1) == [("median", 0)]
    assert ranks(2) == [("worst", 0), ("best", 1)]
    assert ranks(5) == [("worst", 0), ("median", 2), ("best", 4)]


class Bright(torch.nn.Module):
    """Everything is class 1."""

    def predict(self, batch):
        return torch.ones(len(batch.images), 1, *batch.images.shape[2:])

    def stitch(self, size, predictions):
        list(predictions)
        yield LabelRows(0, np.ones(size, np.uint8))


class Images:
    classes = ("a", "b")

    def __len__(self):
        return 3

    def read(self, index, window=None):
        return np.zeros((40, 50, 3), np.uint8), {"mask": np.full((40, 50), index % 2, np.uint8)}


class Broken(NoNotes):
    def update(self, index, part, target):
        raise ValueError(f"image {index}")


def test_an_evaluation_tells_its_notes_the_index_of_each_image():
    evaluator = SegmentationEvaluator(("a", "b"))
    notes = evaluator.notes()
    evaluate(Bright(), Images(), evaluator, FittingViews(Views("window", (32, 32))), notes=notes)
    assert {look.image: look.score for look in notes.looks} == {0: 0.0, 1: 1.0, 2: 0.0}


def test_notes_that_fail_cost_no_metric(caplog):
    evaluator = SegmentationEvaluator(("a", "b"))
    notes = HarmlessNotes(Broken())
    with caplog.at_level(logging.WARNING):
        metrics = evaluate(Bright(), Images(), evaluator, FittingViews(Views("window", (32, 32))), notes=notes)
    assert metrics["IoU/b"] == pytest.approx(1 / 3)
    assert notes.evidence() is None
    assert [record.getMessage() for record in caplog.records] == [
        "The report will lack the images of this evaluation: ValueError: image 0"
    ]
