"""Where the objects of each class are, so that training can look at them more often."""

import logging
from collections.abc import Callable, Sequence

import numpy as np

from hires.data.box_arrays import clipped, shares_within
from hires.data.focus import check_names
from hires.data.placement import Placement
from hires.data.settings import DetectionSource
from hires.interfaces import DataError, Window
from hires.ops.windows import Size

log = logging.getLogger(__name__)

_TRIES = 30


class BoxFocus:
    """The boxes of all images, in packed arrays. Ignored objects are never in focus.

    An object can be learnt from a window that shows at least `min_visibility` of its box.
    Raises DataError if there is none in the whole source.
    """

    def __init__(self, source: DetectionSource, focus_classes: Sequence[str] | None, min_visibility: float):
        check_names(focus_classes, source.classes)
        self.min_visibility = min_visibility
        targets = [_clipped(source, index) for index in range(len(source))]
        lengths = [len(target["labels"]) for target in targets]
        self._ends = np.cumsum([0, *lengths])
        self._images = np.repeat(np.arange(len(source)), lengths)
        self._whole, self._boxes, labels, self._ignored = (
            np.concatenate([target[name] for target in targets])
            for name in ("whole", "boxes", "labels", "ignored")
        )
        names = source.classes if focus_classes is None else focus_classes
        members = [np.flatnonzero((labels == c) & ~self._ignored) for c in range(len(source.classes))]
        if not any(map(len, members)):
            raise DataError(
                f"{source.root}: no training image holds an object that counts; check the annotations and "
                "data.classes, or set data.window.focus=0 (and no data.window.negatives) to train without any"
            )
        self._report(source.classes, members, names)
        self._in_focus = [member for name, member in zip(source.classes, members, strict=True) if name in names]
        self._in_focus = [member for member in self._in_focus if len(member)]

    def __bool__(self) -> bool:
        """Whether any object is in focus."""
        return len(self._in_focus) > 0

    def pick(self, rng: np.random.Generator) -> tuple[int, int, int]:
        """(image, y, x): uniformly a class in focus, one of its objects, a pixel of its box."""
        members = self._in_focus[rng.integers(len(self._in_focus))]
        chosen = members[rng.integers(len(members))]
        x1, y1, x2, y2 = self._boxes[chosen]
        # the last pixel that a box reaches, for a box that ends on the image's border
        y, x = np.minimum(rng.uniform((y1, x1), (y2, x2)), np.ceil((y2, x2)) - 1)
        return int(self._images[chosen]), int(y), int(x)

    def holds(self, image: int, window: Window) -> bool:
        """Whether an object can be learnt from the window."""
        objects = self._of(image)
        shares = shares_within(self._whole[objects], window)
        return bool(((shares > 0) & (shares >= self.min_visibility) & ~self._ignored[objects]).any())

    def is_empty(self, image: int, window: Window) -> bool:
        """Whether no object reaches into the window, ignored ones included."""
        return not shares_within(self._whole[self._of(image)], window).any()

    def _of(self, image: int) -> slice:
        return slice(self._ends[image], self._ends[image + 1])

    def _report(self, names: Sequence[str], members: Sequence[np.ndarray], focus: Sequence[str]) -> None:
        for name, member in zip(names, members, strict=True):
            images, mark = len(np.unique(self._images[member])), ", in focus" if name in focus else ""
            log.info("class %s: %d object(s), in %d image(s)%s", name, len(member), images, mark)


class BalancedPlacement(Placement):
    """A share `negatives` of the windows shows no object, all others one that can be learnt.

    Of those others the share in focus is as usual, and all are where no window anywhere has an object. A window
    goes anywhere where no empty place is found, and holds part of an object too large to be seen as a whole.
    """

    def __init__(
        self, source: DetectionSource, objects: BoxFocus, share: float, negatives: float, by_area: bool = True
    ):
        super().__init__(source, objects, share, by_area)
        self.objects, self.negatives = objects, negatives

    def __call__(self, size: Size, rng: np.random.Generator) -> tuple[int, Window]:
        if rng.random() < self.negatives:
            return self._found(self.objects.is_empty, size, rng) or self.anywhere(size, rng)
        focused = rng.random() < self.share
        place = None if focused else self._found(self.objects.holds, size, rng)
        return place or self._on_object(size, rng)

    def _found(
        self, fits: Callable[[int, Window], bool], size: Size, rng: np.random.Generator
    ) -> tuple[int, Window] | None:
        """A window anywhere that fits; None if a few tries find none."""
        tries = (self.anywhere(size, rng) for _ in range(_TRIES))
        return next((place for place in tries if fits(*place)), None)

    def _on_object(self, size: Size, rng: np.random.Generator) -> tuple[int, Window]:
        if not self.objects:
            return self.anywhere(size, rng)
        for _ in range(_TRIES):
            place = self.focused(self.objects, size, rng)
            if self.objects.holds(*place):
                break
        return place


def _clipped(source: DetectionSource, index: int) -> dict[str, np.ndarray]:
    """The objects of an image that lie in it: whole boxes as annotated, and clipped boxes."""
    target = source.objects(index)
    boxes, shares = clipped(target["boxes"], source.size(index))
    arrays = {**{name: target[name] for name in ("labels", "ignored")}, "whole": target["boxes"], "boxes": boxes}
    return {name: array[shares > 0] for name, array in arrays.items()}
