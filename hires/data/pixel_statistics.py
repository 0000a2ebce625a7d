"""What the pixels of the training images are like, in one pass over them, and how they are normalised by that."""

import logging
import math
from typing import Any, NamedTuple

import numpy as np

from hires.data.file_source import FileSource
from hires.data.settings import DataSettings, Normalize
from hires.interfaces import ConfigError, DataError, Normalization

log = logging.getLogger(__name__)

_VALUES = 2**24  # of all images and channels together that percentiles are of: 64 MiB at most
_LEAST = 16  # pixels of an image among them


class PixelStatistics(NamedTuple):
    """Of every channel (C,) float64."""

    low: np.ndarray  # percentiles
    high: np.ndarray
    minimum: np.ndarray
    maximum: np.ndarray
    mean: np.ndarray
    std: np.ndarray


def pixel_type(source: Any) -> np.dtype:
    """The type of a source's pixels; sources that do not say have 8-bit ones."""
    return np.dtype(getattr(source, "dtype", np.uint8))


def method_of(settings: DataSettings, dtype: np.dtype) -> Normalize:
    """How images with pixels of a type are normalised."""
    return settings.normalize or ("dtype" if dtype == np.uint8 else "percentile")


def normalization_of(settings: DataSettings, source: Any) -> Normalization:
    """How the images of a training source are normalised; reads them where the settings ask for statistics.

    Raises DataError for images that are broken.
    """
    dtype = pixel_type(source)
    method = method_of(settings, dtype)
    if method in ("dtype", "window"):
        return assumed(settings, dtype)
    if settings.normalize is None:
        log.info("Images have %s pixels: normalised by percentiles; data.normalize says otherwise", dtype)
    found = pixel_statistics(source, settings)
    ends = (found.low, found.high) if method == "percentile" else (found.minimum, found.maximum)
    low, high = _apart(*ends, found)
    moments = (found.mean, np.where(found.std > 0, found.std, 1)) if method == "mean_std" else ()
    made = Normalization(method, str(dtype), *(tuple(map(float, values)) for values in (low, high, *moments)))
    _report(made)
    return made


def assumed(settings: DataSettings, dtype: np.dtype) -> Normalization:
    """As `normalization_of`, without looking at any image: what statistics would say is made up."""
    method, channels = method_of(settings, dtype), settings.shown_channels
    low, high = (0.0, 1.0) if dtype.kind == "f" else map(float, (np.iinfo(dtype).min, np.iinfo(dtype).max))
    if method == "window" and settings.level is not None and settings.width is not None:
        low, high = settings.level - settings.width / 2, settings.level + settings.width / 2
    moments = ((0.0,) * channels, (1.0,) * channels) if method == "mean_std" else ()
    return Normalization(method, str(dtype), (low,) * channels, (high,) * channels, *moments)


def check_images(source: Any) -> None:
    """Raises DataError for images whose headers say other bands than wanted, or different types of pixels."""
    if isinstance(source, FileSource):
        source.check_headers()


def check_type(source: Any, normalization: Normalization) -> None:
    """Raises DataError for images with pixels of another type than those that were learnt from."""
    dtype = pixel_type(source)
    if len(source) and str(dtype) != normalization.dtype:
        raise DataError(
            f"{source.name(0)}: has {dtype} pixels, but the run learns from {normalization.dtype} ones; "
            "save all images with pixels of one type"
        )


def pixel_statistics(source: Any, settings: DataSettings) -> PixelStatistics:
    """Statistics of about `statistics_pixels` pixels of every image, always the same ones, one image at a time.

    A channel's value `nodata` does not count, whatever the others of the pixel are. Moments are merged as by Chan
    et al. 1979; percentiles are those of a sample that is thinned out so that memory does not grow with the number
    of images.
    """
    log.info("Looking at the pixels of %d training image(s) for data.normalize", len(source))
    channels = [_Channel() for _ in range(settings.shown_channels)]
    few = max(_LEAST, _VALUES // max(1, len(source) * settings.shown_channels))
    for index in range(len(source)):
        try:
            pixels = source.some_pixels(index, settings.statistics_pixels)
        except DataError as error:
            if settings.on_error != "skip":
                raise
            log.warning("%s; left out of the statistics by data.on_error=skip", error)
            continue
        for channel, values in zip(channels, pixels.T, strict=True):
            channel.add(values if settings.nodata is None else values[values != settings.nodata], few)
    for number, channel in enumerate(channels, 1):
        if not channel.count:
            which = "" if len(channels) == 1 else f" in channel {number}"
            raise ConfigError(
                f"data.normalize: no pixel of the training images has data{which}; check data.nodata"
            )
    return PixelStatistics(*np.transpose([channel.found(settings.percentiles) for channel in channels]))


class _Channel:
    """Minimum, maximum, mean, deviation and a sample of values that come in parts (n,)."""

    def __init__(self) -> None:
        self.count, self._mean, self._squares = 0, 0.0, 0.0
        self._minimum, self._maximum = np.inf, -np.inf
        self._sample, self._dtype = bytearray(), np.dtype(np.uint8)  # bytes: arrays of few values take more

    def add(self, values: np.ndarray, few: int) -> None:
        """Keeps about `few` of the values for percentiles."""
        count, before = len(values), self.count
        if not count:
            return
        mean, variance = values.mean(dtype=np.float64), values.var(dtype=np.float64)
        self._minimum, self._maximum = min(self._minimum, values.min()), max(self._maximum, values.max())
        self.count += count
        step = mean - self._mean
        self._mean += step * (count / self.count)
        self._squares += variance * count + step**2 * (before * count / self.count)
        self._sample += values[:: math.ceil(count / few)].tobytes()
        self._dtype = values.dtype

    def found(self, percentiles: tuple[float, float]) -> tuple[float, ...]:
        """In the order of PixelStatistics."""
        low, high = np.percentile(np.frombuffer(self._sample, self._dtype), percentiles)
        deviation = math.sqrt(self._squares / self.count)
        return low, high, self._minimum, self._maximum, self._mean, deviation


def _apart(low: np.ndarray, high: np.ndarray, found: PixelStatistics) -> tuple[np.ndarray, np.ndarray]:
    """Ends that differ: where nearly all pixels are equal those of all pixels, and 1 apart where all are."""
    flat = low >= high
    low, high = np.where(flat, found.minimum, low), np.where(flat, found.maximum, high)
    return low, np.where(low >= high, low + 1, high)


def _report(made: Normalization) -> None:
    ends = zip(made.mean, made.std, strict=True) if made.mean else zip(made.low, made.high, strict=True)
    words = "mean %.6g, deviation %.6g" if made.mean else "%.6g to %.6g"
    channels = "; ".join(f"channel {index}: {words % pair}" for index, pair in enumerate(ends, 1))
    log.info("Pixels of the training images (%s): %s", made.method, channels)
