"""What an evaluation notices beside its metrics: how each image did, and the place of it that says most."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from hires.interfaces import Window

log = logging.getLogger(__name__)

SIDE = 320  # pixels of a place, at most, unless an object is larger
RANKS = ("worst", "median", "best")
_EACH = 3


class Objects(NamedTuple):
    """Boxes of an image."""

    boxes: np.ndarray  # (N, 4) x1 y1 x2 y2, pixels of the image
    labels: np.ndarray  # (N,) class indices
    right: np.ndarray  # (N,) bool: a detection that hits, an object that was found


class Look(NamedTuple):
    """An image, and the window of it with most of what is wrong; the prediction there as labels or as boxes."""

    image: int  # its index in the source
    score: float  # of the whole image, 0 to 1
    window: Window
    labels: np.ndarray | None = None  # (height, width) uint8, as masks have them
    truth: Objects | None = None
    found: Objects | None = None
    rank: str = ""  # of RANKS


class Evidence(NamedTuple):
    """What is kept of an evaluation to be shown."""

    classes: tuple[str, ...]
    score: str  # what the score of an image is
    scores: list[float]  # of all images, ascending
    looks: list[Look]
    confusion: list[list[int]] | None = None  # pixels: truth in rows, prediction in columns
    curves: dict[str, list[float | None]] | None = None  # precision at recall 0, 0.01, ... 1 and IoU 0.5, by class
    confidence: float | None = None  # from which detections are shown


class Notes(Protocol):
    """Takes notes during an evaluation; of several processes each has a share of the images, as in Evaluator."""

    def reset(self) -> None: ...

    def update(self, index: int, part: Any, target: Mapping[str, np.ndarray]) -> None:
        """Told of each part of an image of that index in the source, after the evaluator."""

    def counted(self) -> Any: ...

    def merge(self, others: Sequence[Any]) -> None: ...

    def evidence(self) -> Evidence | None:
        """What is to be shown, after the evaluator has computed its metrics."""


class NoNotes:
    """Notes nothing."""

    def reset(self) -> None:
        pass

    def update(self, index: int, part: Any, target: Mapping[str, np.ndarray]) -> None:
        pass

    def counted(self) -> Any:
        return None

    def merge(self, others: Sequence[Any]) -> None:
        pass

    def evidence(self) -> Evidence | None:
        return None


class HarmlessNotes:
    """Notes of another, whose failure costs the notes and not the evaluation: it is warned of once."""

    def __init__(self, notes: Notes):
        self._given = self._notes = notes

    def reset(self) -> None:
        self._notes = self._given
        self._try("reset", None)

    def update(self, index: int, part: Any, target: Mapping[str, np.ndarray]) -> None:
        self._try("update", None, index, part, target)

    def counted(self) -> Any:
        return self._try("counted", None)

    def merge(self, others: Sequence[Any]) -> None:
        self._try("merge", None, [other for other in others if other is not None])

    def evidence(self) -> Evidence | None:
        found: Evidence | None = self._try("evidence", None)
        return found

    def _try(self, name: str, instead: Any, *given: Any) -> Any:
        try:
            return getattr(self._notes, name)(*given)
        except Exception as error:
            log.warning("The report will lack the images of this evaluation: %s: %s", type(error).__name__, error)
            self._notes = NoNotes()
            return instead


def ranked(looks: Sequence[Look], scores: Sequence[float]) -> list[Look]:
    """At most three each of the worst, those next to the median of all scores, and the best; none twice.

    Of two images one is the worst and one the best; of one it is the median.
    """
    left = sorted(looks, key=lambda look: (look.score, look.image))
    each = min(_EACH, max(1, len(left) // 3))
    ends = each if len(left) > 1 else 0
    worst, best = left[:ends], left[len(left) - ends :]
    middle = float(np.median(scores)) if len(scores) else 0.0
    rest = sorted(left[ends : len(left) - ends], key=lambda look: abs(look.score - middle))[:each]
    groups = (worst, sorted(rest, key=lambda look: look.score), best[::-1])
    return [look._replace(rank=rank) for rank, group in zip(RANKS, groups, strict=True) for look in group]


def around(centre: tuple[float, float], side: int, size: tuple[int, int]) -> Window:
    """A window of at most `side` pixels around a place (y, x), within an image of (height, width)."""
    height, width = (min(side, extent) for extent in size)
    y = min(max(0, round(centre[0] - height / 2)), size[0] - height)
    x = min(max(0, round(centre[1] - width / 2)), size[1] - width)
    return Window(y, x, height, width)
