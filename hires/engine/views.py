"""Views of whole images: the windows that a network sees, more of them with test-time augmentation."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hires.interfaces import View, Window
from hires.ops.padding import fitted_size, pad_to, resize_image
from hires.ops.windows import tiles

Size = tuple[int, int]
_FLIPS = {"hflip": (2,), "vflip": (1,)}  # dimensions of (C, H, W) that are turned round
_MARGIN = 0.25  # share of the overlap; what remains of it is blended


class Views(NamedTuple):
    """How the network sees whole images."""

    fit: str  # window or resize
    size: Size  # (height, width) that the network sees, pixels
    overlap: float = 0.25  # share of a window
    batch_size: int = 1  # views in one forward pass
    tta: tuple[str | float, ...] = ()  # hflip, vflip and scales, besides the image as it is
    whole: bool = False  # the whole image scaled to fit, besides its windows
    padding: int | None = None  # value around a smaller image; None: its mirror image


def show(image: np.ndarray, views: Views) -> Iterator[tuple[View, Tensor]]:
    """The views of an image (H, W, C) as tensors (C, h, w), padded to the size that the network sees.

    In row order. Every scale is shown unflipped and in every flip.
    """
    flips = [(), *(_FLIPS[name] for name in views.tta if isinstance(name, str))]
    for view in sorted(_unflipped(image.shape[:2], views), key=lambda view: view.window):
        window = view.window
        crop = image[window.y : window.y + window.height, window.x : window.x + window.width]
        pixels = pad_to(resize_image(crop, (view.height, view.width)), *views.size, views.padding)
        # a crop of a memory map may be read-only, which tensors cannot be
        tensor = torch.from_numpy(np.require(pixels, requirements=["C", "W"])).permute(2, 0, 1)
        for flip in flips:
            yield view._replace(flip=flip), tensor.flip(flip) if flip else tensor


def _unflipped(size: Size, views: Views) -> Iterator[View]:
    if views.fit == "resize":
        yield View(Window(0, 0, *size), *fitted_size(size, views.size))
        return
    for scale in (1.0, *(scale for scale in views.tta if not isinstance(scale, str))):
        side = round(views.size[0] / scale), round(views.size[1] / scale)
        margin = int(_MARGIN * views.overlap * min(side))
        for window in tiles(size, side, views.overlap):
            height = min(views.size[0], max(1, round(window.height * scale)))
            width = min(views.size[1], max(1, round(window.width * scale)))
            yield View(window, height, width, margin=margin)
    if views.whole and any(side > most for side, most in zip(size, views.size, strict=True)):
        yield View(Window(0, 0, *size), *fitted_size(size, views.size), overview=True)
