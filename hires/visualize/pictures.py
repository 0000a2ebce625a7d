"""Small pictures of what was to be found and what was found, as text that a page can hold."""

import base64
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from hires.interfaces import IGNORE, Window
from hires.ops.looks import SIDE, Look, Objects

_RIGHT, _WRONG = (70, 150, 255), (255, 120, 20)
_QUALITY = 82


class Paint(NamedTuple):
    """How the classes of masks are shown."""

    colours: np.ndarray  # (K, 3) uint8
    unpainted: int | None  # the index of a class that is left as it is
    multilabel: bool  # masks have a bit for each class


def visible(image: np.ndarray, low: Sequence[float], high: Sequence[float]) -> np.ndarray:
    """Pixels (H, W, C) of any type as (H, W, 3) uint8, what is `low` black and what is `high` full.

    Of more than three channels the first three; one becomes gray, and two too, by the first.
    """
    pixels = image if image.ndim == 3 else image[..., None]
    count = 3 if pixels.shape[2] >= 3 else 1
    bottom, top = (np.array(values[:count], np.float64) for values in (low, high))
    scaled = (pixels[..., :count].astype(np.float32) - bottom) / np.maximum(top - bottom, 1e-12)
    shown = (255 * np.nan_to_num(scaled).clip(0, 1)).round().astype(np.uint8)
    return np.repeat(shown, 3, axis=2) if count == 1 else np.ascontiguousarray(shown)


def pictures(look: Look, image: np.ndarray, mask: np.ndarray | None, paint: Paint) -> dict[str, str]:
    """Truth, prediction and image of a look as data URIs, of at most SIDE x SIDE pixels.

    `image` is (h, w, 3) uint8 of the look's window, `mask` its truth (h, w), where masks are what is predicted.
    """
    if look.labels is not None and mask is not None:
        painted = {
            name: painted_labels(image, labels, mask, paint)
            for name, labels in (("truth", mask), ("prediction", look.labels))
        }
    else:
        painted = {
            name: drawn_boxes(image, objects, look.window)
            for name, objects in (("truth", look.truth), ("prediction", look.found))
            if objects is not None
        }
    return {name: data_uri(picture) for name, picture in {**painted, "image": _small(image)}.items()}


def painted_labels(image: np.ndarray, labels: np.ndarray, truth: np.ndarray, paint: Paint) -> np.ndarray:
    """Labels in the colours of their classes over an image; where the truth is ignored, it is gray."""
    result = image.astype(np.float32)
    for index, colour in enumerate(paint.colours.astype(np.float32)):
        chosen = (labels >> index) & 1 == 1 if paint.multilabel else labels == index
        chosen = chosen & (labels != IGNORE)
        if index == paint.unpainted or not chosen.any():
            continue
        result[chosen] = 0.55 * result[chosen] + 0.45 * colour
        edge = chosen & (cv2.erode(chosen.view(np.uint8), np.ones((3, 3), np.uint8), borderValue=1) == 0)
        result[edge] = colour
    ignored = truth == IGNORE
    result[ignored] = 0.35 * result[ignored] + 90
    return _small(result.round().astype(np.uint8))


def drawn_boxes(image: np.ndarray, objects: Objects, window: Window) -> np.ndarray:
    """Boxes over the image of a window; those that are wrong have a dark rim."""
    scale = min(1.0, SIDE / max(image.shape[:2]))
    result = _small(image).copy()
    order = np.argsort(~objects.right, kind="stable")  # what is wrong lies above
    for box, right in zip(objects.boxes[order], objects.right[order], strict=True):
        corners = ((box - (window.x, window.y, window.x, window.y)) * scale).round()
        limits = np.array([-9, -9, result.shape[1] + 9, result.shape[0] + 9])
        x1, y1, x2, y2 = (int(v) for v in np.clip(corners, limits[[0, 1, 0, 1]], limits[[2, 3, 2, 3]]))
        if not right:
            cv2.rectangle(result, (x1, y1), (x2, y2), (0, 0, 0), 4)
        cv2.rectangle(result, (x1, y1), (x2, y2), _RIGHT if right else _WRONG, 2)
    return result


def _small(image: np.ndarray) -> np.ndarray:
    scale = SIDE / max(image.shape[:2])
    if scale >= 1:
        return image
    height, width = (max(1, round(side * scale)) for side in image.shape[:2])
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)


def data_uri(picture: np.ndarray) -> str:
    """An RGB picture (H, W, 3) uint8 as JPEG."""
    done, coded = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    if not done:
        raise ValueError("a picture could not be encoded")
    return "data:image/jpeg;base64," + base64.b64encode(coded.tobytes()).decode("ascii")
