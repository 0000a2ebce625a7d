"""What training does with the truth of a window, whatever its kind."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from hires.data.augment import Arrays as Arrays
from hires.data.augment import Augment
from hires.data.placement import Placement
from hires.interfaces import Target
from hires.ops.windows import Size


class Part(NamedTuple):
    """Where the upper left pixel of a smaller target goes in a larger one."""

    y: int
    x: int
    target: Arrays


class Targets(Protocol):
    """The targets of one source. Arrays in, arrays out; none of them is changed."""

    def placement(self) -> Placement:
        """Where windows go; may read the truth of every image. Raises DataError."""

    def shown(self, target: Arrays, before: Size, after: Size) -> Arrays:
        """What a source read of `before` pixels, scaled as its image is to `after` pixels.

        Only this takes what a source reads; the other methods take what this returns.
        """

    def padded(self, target: Arrays, size: Size) -> Arrays:
        """Extended below and to the right to `size` pixels, where nothing is to be learnt."""

    def joined(self, parts: Sequence[Part], size: Size) -> Arrays:
        """One target of `size` pixels of parts that fill it."""

    def augmented(
        self, image: np.ndarray, target: Arrays, augment: Augment, seed: Sequence[int]
    ) -> tuple[np.ndarray, Arrays]:
        """An image (H, W, C) and its target, changed alike."""

    def tensors(self, target: Arrays, size: Size) -> Target:
        """The target of a Sample of `size` pixels."""

    def most_objects(self, size: Size | None) -> int:
        """The most objects that a window of `size` native pixels, or a whole image (None), can hold."""
