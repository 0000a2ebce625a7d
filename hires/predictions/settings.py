"""What a prediction writes."""

from dataclasses import dataclass
from typing import Annotated, Literal

from hires.settings import Bounds, Settings

Share = Annotated[float, Bounds(0, 1)]


@dataclass(frozen=True, kw_only=True)
class PredictionSettings(Settings):
    """Which files are written of an image, and what is in them; docs/howto/predict.md describes them."""

    format: Literal["auto", "png", "tiff"] = "auto"  # of masks
    values: Literal["index", "data"] = "index"  # in masks
    probabilities: bool | Literal["uint8", "float16"] = False  # true: uint8
    overlays: bool = True
    overlay_size: Annotated[int, Bounds(64)] = 4096  # longest side, pixels
    score: Share | Literal["best"] | None = None  # least score of a detection; None: as in evaluation
    overwrite: bool = False
