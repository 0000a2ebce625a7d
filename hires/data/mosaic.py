"""One sample made of four windows."""

from collections.abc import Sequence

import numpy as np

from hires.data.targets import Arrays, Part, Targets
from hires.interfaces import Window
from hires.ops.windows import Size

NEAREST, FURTHEST = 0.25, 0.75
"""Where the four meet: between these shares of the height and of the width."""


def quadrants(size: Size, rng: np.random.Generator) -> list[Window]:
    """The four parts of an area of `size` around a random point, in row order."""
    cut_y, cut_x = (round(side * rng.uniform(NEAREST, FURTHEST)) for side in size)
    rows, columns = ((0, cut_y), (cut_y, size[0])), ((0, cut_x), (cut_x, size[1]))
    return [Window(y, x, bottom - y, right - x) for y, bottom in rows for x, right in columns]


def assembled(
    places: Sequence[Window], images: Sequence[np.ndarray], truths: Sequence[Arrays], targets: Targets, size: Size
) -> tuple[np.ndarray, Arrays]:
    """The image (H, W, C) of `size`, and its target, of images and targets that fill their places."""
    whole = np.empty((*size, images[0].shape[2]), images[0].dtype)
    for (y, x, height, width), image in zip(places, images, strict=True):
        whole[y : y + height, x : x + width] = image
    parts = [Part(place.y, place.x, truth) for place, truth in zip(places, truths, strict=True)]
    return whole, targets.joined(parts, size)
