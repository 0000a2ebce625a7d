"""Whole images are evaluated view by view: every pixel once, whatever the size."""

import numpy as np
import pytest
import torch
from torch import nn

from hires.engine.evaluate import evaluate
from hires.engine.views import Views
from hires.evaluation.segmentation import LabelRows, SegmentationEvaluator
from hires.interfaces import IGNORE
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
    scores = evaluate(task, source, evaluator, Views("window", (64, 32), overlap, batch_size))
    assert scores["accuracy"] == 1
    assert evaluator.confusion.counts.sum() == sum(h * w - 1 for h, w in SIZES)
    assert all(shape[2:] == (64, 32) and shape[0] <= batch_size for shape in task.seen)


def test_resized_images_are_scored_at_native_resolution():
    task, source = Threshold(), Source(SIZES)
    evaluator = SegmentationEvaluator(source.classes)
    evaluate(task, source, evaluator, Views("resize", (64, 64)))
    assert evaluator.confusion.counts.sum() == sum(h * w - 1 for h, w in SIZES)
    assert task.seen == [(1, 3, 64, 64)] * len(SIZES)


def test_mode_is_kept_and_progress_told():
    task, source, told = Threshold(), Source([(9, 9), (8, 8)]), []
    task.train()
    evaluate(
        task,
        source,
        SegmentationEvaluator(source.classes),
        Views("window", (32, 32)),
        progress=lambda done, total: told.append((done, total)),
    )
    assert task.training
    assert told == [(1, 2), (2, 2)]
