"""Settings that every data set reader shares, and what training asks of a source."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Protocol

import numpy as np

from hires.data.cache import Cache, open_cache
from hires.data.pixels import PixelRules
from hires.data.targets import Targets
from hires.interfaces import ImageSource, Window
from hires.settings import Bounds, SettingError, Settings

Normalize = Literal["percentile", "minmax", "dtype", "mean_std", "window"]


class TrainingSource(ImageSource, Protocol):
    """An ImageSource that can be learnt from."""

    def targets(self, settings: "WindowSettings") -> Targets:
        """What training does with its targets. Raises SettingError for what its kind cannot do."""


class SegmentationSource(TrainingSource, Protocol):
    """A TrainingSource whose target is `mask`, (H, W) uint8 class indices or IGNORE.

    With `multilabel` a mask value is a bit field instead: bit c is set where class c is, 0 is no class.
    """

    multilabel: bool

    def mask(self, index: int, window: Window | None = None) -> np.ndarray:
        """The mask of the window, or whole, without reading the image; a whole one maybe a read-only memory map.

        Raises DataError.
        """


class DetectionSource(TrainingSource, Protocol):
    """A TrainingSource whose target is the objects that overlap the window (or all of the image).

    `boxes` (N, 4) float32 x1 y1 x2 y2, pixels of the window, reaching beyond it where the object does; `labels`
    (N,) int64 class indices; `ignored` (N,) bool, of crowds and the like that count neither way, whose label may
    be -1, no class of the table; `areas` (N,) float32, the annotated area of the whole object, pixels; `ids` (N,)
    int64, as in the annotation file; `size` (2,) int64 height and width of the window. With `instance_masks` also
    `masks`, (N,) of `hires.ops.instances.InstanceMask`.
    """

    root: Path  # folder of the data set, for messages
    category_ids: tuple[int, ...]  # of the classes, as in the annotation file
    instance_masks: bool

    def objects(self, index: int) -> dict[str, np.ndarray]:
        """The target of the whole image but for masks, without reading the image. Raises DataError."""

    def image_id(self, index: int) -> int:
        """As in the annotation file; files that name none count from 1."""


@dataclass(frozen=True, kw_only=True)
class WindowSettings(Settings):
    """Which windows training sees."""

    focus: Annotated[float, Bounds(0, 1)] = 0.5  # share of windows placed on a pixel of a rare class, on an object
    focus_classes: tuple[str, ...] | None = None  # default: all but the most frequent class; of boxes: all
    min_visibility: Annotated[float, Bounds(0, 1)] = 0.3  # share of a box below which its object is not learnt
    negatives: Annotated[float, Bounds(0, 1)] | None = None  # share of windows without objects
    sampling: Literal["area", "image"] = "area"  # by what an image's share of the other windows goes


@dataclass(frozen=True, kw_only=True)
class DataSettings(Settings, ABC):
    """Base of every reader's settings.

    `channels`: what the network gets: 3 shows gray images as three equal channels, 1 turns RGB into gray; other
    numbers are those of the bands of the files. `bands` are the channels instead, where they are named.
    """

    root: str  # folder of the data set
    fit: Literal["window", "resize"] = "window"
    window: WindowSettings = field(default_factory=WindowSettings)
    windows_per_epoch: Annotated[int, Bounds(1)] | None = None
    scale: tuple[float, float] | None = None  # objects of a window are shown this much larger, at random
    mosaic: Annotated[float, Bounds(0, 1)] = 0.0  # share of samples made of four windows
    channels: Annotated[int, Bounds(1)] = 3
    bands: tuple[Annotated[int, Bounds(1)], ...] | None = None  # from 1
    normalize: Normalize | None = None  # default: dtype for 8-bit images, percentile for others
    percentiles: tuple[Annotated[float, Bounds(0, 100)], Annotated[float, Bounds(0, 100)]] = (1.0, 99.0)
    level: float | None = None  # with normalize=window: the value in its middle
    width: Annotated[float, Bounds(0)] | None = None  # with normalize=window: from its lower to its upper end
    nodata: float | None = None  # value of pixels that statistics leave out, and of NaN and infinite ones
    statistics_pixels: Annotated[int, Bounds(1)] = 1_000_000  # of an image, at most
    max_pixels: Annotated[int, Bounds(1)] = 2**32  # of one decoding
    on_error: Literal["error", "skip"] = "error"  # what happens where a file is broken
    workers: Annotated[int, Bounds(0)] = 2  # processes that load data; 0 loads in the main process
    cache_gib: Annotated[float, Bounds(0)] = 4.0  # GiB of decoded images kept on disk; 0 keeps none
    cache_dir: str = "~/.cache/hires"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window.negatives is not None and self.fit == "resize":
            raise SettingError(
                "window.negatives", self.window.negatives, "null with fit=resize: no windows are placed"
            )
        if self.mosaic > 0 and self.fit == "resize":
            raise SettingError("mosaic", self.mosaic, "0 with fit=resize, which shows whole images")
        self._check_pixels()
        if self.scale is None:
            return
        if self.fit == "resize":
            raise SettingError("scale", list(self.scale), "null with fit=resize, which scales images to fit")
        low, high = self.scale
        if not 0 < low <= high < math.inf:
            raise SettingError("scale", list(self.scale), "null, or [low, high] with 0 < low <= high")

    def _check_pixels(self) -> None:
        if self.bands is not None and not self.bands:
            raise SettingError("bands", [], "null, or at least one band, as [3,2,1]")
        low, high = self.percentiles
        if not low < high:
            raise SettingError("percentiles", [low, high], "[low, high] with low < high")
        window = {"level": self.level, "width": self.width or None}
        kinds = {"level": "a number", "width": "a number above 0"}
        for key, value in window.items():
            if self.normalize == "window" and value is None:
                raise SettingError(key, getattr(self, key), f"{kinds[key]}, which data.normalize=window needs")
            if self.normalize != "window" and value is not None:
                raise SettingError(key, value, "null unless data.normalize=window")

    @property
    def shown_channels(self) -> int:
        """Channels of an image as the network sees it."""
        return self.pixel_rules().shown_channels

    def pixel_rules(self) -> PixelRules:
        """What becomes of the bands of an image file."""
        return PixelRules(self.channels, self.bands, self.nodata, self.max_pixels, self.on_error == "skip")

    @abstractmethod
    def source(self, split: str) -> ImageSource:
        """The images of one split. Raises DataError for files, ConfigError for settings."""

    @abstractmethod
    def has_split(self, split: str) -> bool:
        """Whether the settings name images for a split."""

    def root_path(self) -> Path:
        return Path(self.root).expanduser()

    def cache(self) -> Cache:
        """The cache of decoded files, or one that keeps nothing."""
        return open_cache(self.cache_dir, self.cache_gib)
