"""Whole images are evaluated view by view: every pixel once, whatever the size."""

import numpy as np
import pytest
import torch
from torch import nn

from hires.engine.evaluate import FittingViews, evaluate
from hires.engine.views import Views
from hires.evaluation.segmentation import LabelRows, SegmentationEvaluator
from hires.interfaces import IGNORE, DataError, TrainingError
from hires.ops.blend import blend


class Threshold(nn.Module):
    """A task without weights: bright pixels are class 1. Remembers the sizes that it saw."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def predict(self, batch):
        self.seen.append(tuple(batch.images.shape))
        bright = (batch.images.float().mean(1, keepdim=True) > 127).float()
        return torch.cat([1 - bright, bright], 1)

    def stitch(self, size, predictions):
        for top, probabilities in blend(size, predictions):
            yield LabelRows(top, probabilities.argmax(0).byte().numpy())


class Source:
    classes = ("dark", "bright")

    def __init__(self, sizes):
        rng = np.random.default_rng(0)
        self.images = [np.repeat(rng.integers(0, 2, (h, w, 1)) * 255, 3, 2).astype(np.uint8) for h, w in sizes]

    def __len__(self):
        return len(self.images)

    def read(self, index, window=None):
        image = self.images[index]
        mask = (image[..., 0] > 127).astype(np.uint8)
        mask[0, 0] = IGNORE
        return image, {"mask": mask}


SIZES = [(33, 100), (64, 64), (7, 5), (130, 65)]


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("overlap", [0.0, 0.5])
def test_every_pixel_counts_once(batch_size, overlap):
    task, source = Threshold(), Source(SIZES)
    evaluator = SegmentationEvaluator(source.classes)
    scores = evaluate(task, source, evaluator, FittingViews(Views("window", (64, 32), overlap, batch_size)))
    assert scores["accuracy"] == 1
    assert evaluator.confusion.counts.sum() == sum(h * w - 1 for h, w in SIZES)
    assert all(shape[2:] == (64, 32) and shape[0] <= batch_size for shape in task.seen)


def test_resized_images_are_scored_at_native_resolution():
    task, source = Threshold(), Source(SIZES)
    evaluator = SegmentationEvaluator(source.classes)
    evaluate(task, source, evaluator, FittingViews(Views("resize", (64, 64))))
    assert evaluator.confusion.counts.sum() == sum(h * w - 1 for h, w in SIZES)
    assert task.seen == [(1, 3, 64, 64)] * len(SIZES)


def test_mode_is_kept_and_progress_told():
    task, source, told = Threshold(), Source([(9, 9), (8, 8)]), []
    task.train()
    evaluate(
        task,
        source,
        SegmentationEvaluator(source.classes),
        FittingViews(Views("window", (32, 32))),
        progress=lambda done, total: told.append((done, total)),
    )
    assert task.training
    assert told == [(0, 2), (1, 2), (1, 2), (2, 2)]


class Broken(Source):
    """Images of which some cannot be read."""

    def __init__(self, sizes, broken):
        super().__init__(sizes)
        self.broken = broken

    def read(self, index, window=None):
        if index in self.broken:
            raise DataError(f"{index}.png: is broken")
        return super().read(index, window)


def test_broken_images_are_an_end_or_left_out(caplog):
    def counted(broken, **options):
        source = Broken(SIZES, broken)
        evaluator = SegmentationEvaluator(source.classes)
        evaluate(Threshold(), source, evaluator, FittingViews(Views("window", (64, 32))), **options)
        return evaluator.confusion.counts.sum()

    with pytest.raises(DataError, match=r"1\.png"):
        counted([1])
    assert counted([1, 3], skip=True) == sum(SIZES[index][0] * SIZES[index][1] - 1 for index in (0, 2))
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["1.png", "3.png"]
    with pytest.raises(DataError, match=r"3\.png"):  # more than half
        counted([0, 1, 3], skip=True)


class Lazy:
    """An image whose rows are read as they are asked for, up to the first that is broken."""

    def __init__(self, image, end):
        self.image, self.shape, self.end = image, image.shape, end

    def __getitem__(self, place):
        if place[0].stop > self.end:
            raise DataError("1.tif: is damaged further down")
        return self.image[place]


class LazySource(Source):
    def __init__(self, sizes, ends):
        super().__init__(sizes)
        self.ends = ends

    def read(self, index, window=None):
        image, target = super().read(index, window)
        return Lazy(image, self.ends[index]), target


@pytest.mark.parametrize("overlap", [0.0, 0.5])
@pytest.mark.parametrize("fit", ["window", "resize"])
def test_of_an_image_that_breaks_half_way_nothing_counts(fit, overlap, caplog):
    source, evaluator = LazySource([(300, 40), (300, 40)], [300, 200]), SegmentationEvaluator(("dark", "bright"))
    views = FittingViews(Views(fit, (64, 32), overlap))
    evaluate(Threshold(), source, evaluator, views, skip=True)
    assert evaluator.confusion.counts.sum() == 300 * 40 - 1
    assert caplog.text.count("1.tif: is damaged further down; left out of the evaluation") == 1
    with pytest.raises(DataError, match=r"1\.tif"):
        evaluate(Threshold(), source, evaluator, views)


class Short(Threshold):
    """Runs out of memory with more than `most` views at a time, and in the `bad` forward passes."""

    def __init__(self, most, bad=()):
        super().__init__()
        self.most, self.bad = most, bad

    def predict(self, batch):
        if len(batch.images) > self.most or len(self.seen) in self.bad:
            self.bad = [index for index in self.bad if index != len(self.seen)]
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")
        return super().predict(batch)


@pytest.mark.parametrize(
    ("most", "bad", "left"), [(4, (), 4), (1, (), 1), (16, (0,), 4), (16, (2, 3), 2), (16, (5,), 4)]
)
def test_fewer_views_at_a_time_when_memory_runs_out(most, bad, left, caplog):
    """Each pixel counts once, also of an image whose first parts had been counted; what fits is kept."""
    task, source = Short(most, bad), Source([*SIZES, (400, 90)])
    evaluator = SegmentationEvaluator(source.classes)
    views = FittingViews(Views("window", (64, 32), 0.5, 8))
    scores = evaluate(task, source, evaluator, views)
    assert scores["accuracy"] == 1
    assert evaluator.confusion.counts.sum() == sum(h * w - 1 for h, w in [*SIZES, (400, 90)])
    assert all(shape[2:] == (64, 32) for shape in task.seen)
    assert views.views == Views("window", (64, 32), 0.5, left)
    told = [message for message in caplog.messages if message.startswith("evaluation: out of memory with")]
    assert len(told) == {4: 1, 2: 2, 1: 3}[left]
    assert evaluate(task, source, evaluator, views) == scores
    assert len(caplog.messages) == len(told)


def test_one_view_that_does_not_fit_is_an_error():
    with pytest.raises(
        TrainingError,
        match=r"out of memory with one view of \[64, 32\] pixels at a time, of an image "
        r"of \[33, 100\] \(CUDA.*\); set a smaller evaluation.window",
    ):
        evaluate(
            Short(0),
            Source(SIZES),
            SegmentationEvaluator(Source.classes),
            FittingViews(Views("window", (64, 32), 0.5, 2)),
        )
