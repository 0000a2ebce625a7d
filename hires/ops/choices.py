"""What is kept of detections, how those of several windows become one, and how they are scored."""

from dataclasses import dataclass
from typing import Annotated, Literal

from hires.settings import Bounds, SettingError, Settings

Share = Annotated[float, Bounds(0, 1)]
Count = Annotated[int, Bounds(1)]


@dataclass(frozen=True, kw_only=True)
class DetectionChoices(Settings):
    """Settings of detection in evaluation; keys of `evaluation` that the task takes over."""

    score_threshold: Share = 0.05  # detections with this score or less are dropped
    candidates: Count = 1000  # of each level and view that non-maximum suppression sees
    nms_iou: Share = 0.6  # of two boxes of a class that are one object
    merge: Literal["nms", "wbf"] = "nms"  # across views
    max_detections: Count = 300  # of an image, all classes together
    size_limits: tuple[float, float] = (32.0, 96.0)  # sides of squares that part small, medium, large; pixels

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.size_limits
        if not 0 < low <= high:
            raise SettingError("size_limits", list(self.size_limits), "[low, high] with 0 < low <= high")
