"""The metric of docs/howto/add_a_metric.md: borders are those of whole masks, however rows come."""

from typing import Any

import cv2
import numpy as np
import pytest

from hires.evaluation.segmentation import LabelRows
from hires.interfaces import IGNORE
from tests.conftest import REPOSITORY
from tests.docs.pages import blocks

CLASSES = ("ground", "water", "roof")


@pytest.fixture(scope="module")
def metric() -> Any:
    """What the example of the page defines, by names."""
    page = REPOSITORY / "docs" / "howto" / "add_a_metric.md"
    (block,) = [block for block in blocks(page) if block.file == "my_metrics/borders.py"]
    names: dict[str, Any] = {"__name__": "borders"}
    exec(compile(block.text, f"{page.name}:{block.line}", "exec"), names)
    return names


def masks(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A prediction and a truth (40, 50) of blots; some of the truth is ignored."""
    draw = np.random.default_rng(seed)
    found, truth = (np.argmax(cv2.GaussianBlur(draw.normal(size=(40, 50, 3)), (0, 0), 3), 2) for _ in "ab")
    truth[:, 20:24] = IGNORE
    return found.astype(np.uint8), truth.astype(np.uint8)


def scored(metric: Any, found: np.ndarray, truth: np.ndarray, rows: int) -> Any:
    evaluator = metric["WithBorders"](CLASSES)
    for top in range(0, len(truth), rows):
        evaluator.update(LabelRows(top, found[top : top + rows]), {"mask": truth})
    return evaluator


def border(inside: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(N, 2) places of pixels beside one of another class."""
    padded = np.pad(other, 1)
    beside = padded[2:, 1:-1] | padded[:-2, 1:-1] | padded[1:-1, 2:] | padded[1:-1, :-2]
    return np.argwhere(inside & beside)


def share_within_reach(some: np.ndarray, others: np.ndarray) -> float:
    distances = np.linalg.norm(some[:, None] - others[None], axis=2)
    return float((distances.min(axis=1) <= 3).mean())


@pytest.mark.parametrize("rows", [1, 3, 7, 40])
def test_borders_are_those_of_distances_over_the_whole_masks(metric: Any, rows: int) -> None:
    found, truth = masks(0)
    valid = truth != IGNORE
    scores = scored(metric, found, truth, rows).compute()
    for index, name in enumerate(CLASSES):
        ours, theirs = (border((mask == index) & valid, (mask != index) & valid) for mask in (found, truth))
        precision, recall = share_within_reach(ours, theirs), share_within_reach(theirs, ours)
        assert scores[f"border_F1/{name}"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert 0.1 < scores["border_F1"] < 1


def test_processes_add_up(metric: Any) -> None:
    several = [scored(metric, *masks(seed), 7) for seed in (0, 1)]
    alone = metric["WithBorders"](CLASSES)
    for seed in (0, 1):
        found, truth = masks(seed)
        alone.update(LabelRows(0, found), {"mask": truth})
    several[0].merge([several[1].counted()])
    assert several[0].compute() == alone.compute()


def test_a_class_without_borders_has_no_score_and_a_missed_one_none_of_it(metric: Any) -> None:
    truth = np.zeros((20, 20), np.uint8)
    truth[:, 10:] = 1
    scores = scored(metric, np.zeros_like(truth), truth, 5).compute()
    assert np.isnan(scores["border_F1/roof"])
    assert scores["border_F1"] == scores["border_F1/water"] == 0
