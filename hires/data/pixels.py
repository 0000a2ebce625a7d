"""Which numbers of an image file the network gets: its bands, its channels, what stands for missing pixels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from hires.data.images import ImageInfo
from hires.interfaces import DataError

_ROWS = 1024  # of an image that are looked at together
_SIGN = 0x8000


@dataclass(frozen=True)
class PixelRules:
    """What a source makes of the bands of its files.

    `bands`, from 1 as in GDAL, are the channels, in this order. None: all bands, as `channels` of them; gray
    becomes three equal channels, and RGB becomes gray. `nodata` takes the place of NaN and infinite pixels.
    `max_pixels`: of one decoding.
    """

    channels: int = 3
    bands: tuple[int, ...] | None = None
    nodata: float | None = None
    max_pixels: int = 2**32
    skip: bool = False  # whether broken files are passed over where all are read

    @property
    def shown_channels(self) -> int:
        """Channels of an image as the network sees it."""
        return len(self.bands) if self.bands else self.channels

    def shown(self, image: np.ndarray, path: Path) -> np.ndarray:
        """(H, W, C) of all bands (H, W, B) of a file, the same array where nothing changes. Raises DataError."""
        picked = self._named(image, path) if self.bands else self._all(image, path)
        return self._filled(picked, path) if picked.dtype.kind == "f" else picked

    def check(self, info: ImageInfo, path: Path) -> None:
        """Raises DataError for a file with other bands than wanted, by its header."""
        alpha = info.alpha if self.bands and max(self.bands) > info.bands else 0
        try:
            self.shown(np.zeros((1, 1, info.bands + alpha), info.dtype), path)
        except DataError as error:
            if self.bands or not info.alpha:
                raise
            count = info.bands + info.alpha
            listed = ",".join(str(band) for band in range(1, count + 1))
            raise DataError(
                f"{path}: has {info.bands} bands and alpha, but data.channels is {self.channels}; "
                f"data.bands=[{listed}] backbone.in_channels={count} takes alpha as a band, "
                f"data.channels={info.bands} backbone.in_channels={info.bands} leaves it out"
            ) from error

    def _named(self, image: np.ndarray, path: Path) -> np.ndarray:
        bands = self.bands or ()
        if max(bands) > image.shape[2]:
            raise DataError(
                f"{path}: has {image.shape[2]} band(s), but data.bands wants band {max(bands)}; name others, or "
                "remove the file"
            )
        return image[..., _index(bands)]

    def _all(self, image: np.ndarray, path: Path) -> np.ndarray:
        count = image.shape[2]
        if count == self.channels:
            return image
        if (count, self.channels) in ((1, 3), (3, 1)):
            return to_channels(image, self.channels)
        some = ",".join(str(band) for band in range(1, min(count, 3) + 1))
        raise DataError(
            f"{path}: has {count} bands, but data.channels is {self.channels}; set data.channels={count} "
            f"backbone.in_channels={count}, or choose bands, for example data.bands=[{some}] "
            f"backbone.in_channels={min(count, 3)}"
        )

    def _filled(self, image: np.ndarray, path: Path) -> np.ndarray:
        """An image of floats with finite pixels alone."""
        starts = range(0, len(image), _ROWS)
        if all(np.isfinite(image[top : top + _ROWS]).all() for top in starts):
            return image
        if self.nodata is None:
            raise DataError(
                f"{path}: has NaN or infinite pixels; say with data.nodata what they shall be (data.nodata=0), or "
                "remove it"
            )
        image = np.array(image)
        for top in starts:
            rows = image[top : top + _ROWS]
            rows[~np.isfinite(rows)] = self.nodata
        return image


def to_channels(image: np.ndarray, channels: int) -> np.ndarray:
    """(H, W, C) as 3 channels (gray three times) or 1 channel (RGB by its luma weights), of the same type."""
    if image.shape[2] == channels:
        return image
    if image.dtype == np.int16:  # which OpenCV does not convert; the weights' sum is 1
        moved = np.ascontiguousarray(image).view(np.uint16) ^ _SIGN
        return (to_channels(moved, channels) ^ _SIGN).view(np.int16)
    code = cv2.COLOR_GRAY2RGB if channels == 3 else cv2.COLOR_RGB2GRAY
    return cv2.cvtColor(np.ascontiguousarray(image), code).reshape(*image.shape[:2], channels)


def _index(bands: Sequence[int]) -> Any:
    """What takes the bands out of an array, without a copy where they are in a row."""
    steps = set(np.diff(bands).tolist()) or {1}
    if len(steps) > 1 or 0 in steps:
        return [band - 1 for band in bands]
    step = steps.pop()
    end = bands[-1] - 1 + (1 if step > 0 else -1)
    return slice(bands[0] - 1, None if end < 0 else end, step)
