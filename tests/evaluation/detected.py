"""Truth and detections made up for evaluations, and their scores."""

import numpy as np
import torch

from hires.evaluation.detection import DetectionEvaluator
from hires.ops.boxes import Detections

CLASSES = ("a", "b", "c")
SIZE = (200, 240)
MISSING = float("nan")


def random_boxes(rng, count):
    corner = rng.uniform(0, 150, (count, 2))
    return np.concatenate([corner, corner + rng.uniform(4, 130, (count, 2)) ** rng.choice([0.6, 1])], 1)


def random_image(rng, most=8):
    """Truth with crowds, and detections near it and anywhere, with equal scores among them."""
    truth, extra = (random_boxes(rng, rng.integers(0, most)).astype(np.float32) for _ in range(2))
    labels = rng.integers(0, 2, len(truth))
    copies = rng.integers(1, 3)
    near = np.repeat(truth, copies, 0)
    near = near + rng.normal(0, 3, near.shape).astype(np.float32)
    near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
    kept = rng.random(len(near) + len(extra)) < rng.choice([0, 0.7, 1], p=[0.2, 0.4, 0.4])
    boxes = np.concatenate([near, extra])[kept]
    guesses = np.concatenate([np.repeat(labels, copies), rng.integers(0, 3, len(extra))])
    guesses = np.where(rng.random(len(kept)) < 0.8, guesses, 2)[kept]
    found = Detections(
        torch.from_numpy(boxes.astype(np.float32)),
        torch.from_numpy(rng.integers(1, 12, len(boxes)).astype(np.float32) / 12),
        torch.from_numpy(guesses),
        SIZE,
    )
    return found, target(truth, labels, rng.random(len(truth)) < 0.2)


def target(boxes, labels=None, ignored=None, size=SIZE):
    boxes = np.asarray(boxes, np.float32).reshape(-1, 4)
    count = len(boxes)
    return {
        "boxes": boxes,
        "labels": np.zeros(count, np.int64) if labels is None else np.asarray(labels, np.int64),
        "ignored": np.zeros(count, bool) if ignored is None else np.asarray(ignored, bool),
        "areas": (boxes[:, 2:] - boxes[:, :2]).prod(1) * np.float32(0.8),
        "ids": np.arange(count),
        "size": np.array(size),
    }


def detections(boxes, scores, labels=None):
    boxes = torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)
    labels = torch.zeros(len(boxes)) if labels is None else torch.tensor(labels)
    return Detections(boxes, torch.tensor(scores, dtype=torch.float32), labels.long(), SIZE)


def score(pairs, **options):
    evaluator = DetectionEvaluator(options.pop("classes", CLASSES), **options)
    for part, truth in pairs:
        evaluator.update(part, truth)
    return evaluator.compute()
