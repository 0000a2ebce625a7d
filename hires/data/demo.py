"""The demo data set: seeded images of brushed metal with defects of 3 to 60 pixels, their masks and boxes.

The same settings give the same bytes, whatever the number of threads. `demo_textures` does the painting.
"""

import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import cv2
import numpy as np
from numpy.random import Generator

from hires.data import demo_textures as textures
from hires.data.splits import SPLITS
from hires.interfaces import DataError
from hires.settings import Bounds, Settings

CLASSES = ("background", "scratch", "pit", "stain")
GENERATOR = "hires.data.demo"
VERSION = 1
"""Raise it with every change to what the generator draws or writes: old folders are then replaced."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DemoSettings(Settings):
    """What the demo data set holds."""

    seed: Annotated[int, Bounds(0)] = 0
    size: Annotated[int, Bounds(128)] = 2048  # height and width of every image, pixels
    train: Annotated[int, Bounds(1)] = 10  # images
    val: Annotated[int, Bounds(1)] = 3
    test: Annotated[int, Bounds(1)] = 3


class Instance(NamedTuple):
    """One defect. `mask` (h, w) bool is exactly its box, whose upper left pixel is (y, x)."""

    category: int  # index into CLASSES
    y: int
    x: int
    mask: np.ndarray


# ---- one image ------------------------------------------------------------------------------------


def make_image(settings: DemoSettings, split: str, index: int) -> tuple[np.ndarray, np.ndarray, list[Instance]]:
    """Image (H, W, 3) RGB uint8, mask (H, W) uint8 of class indices, and the defects in it."""
    rng = np.random.default_rng([settings.seed, SPLITS.index(split), index])
    tilt, light = rng.uniform(-0.15, 0.15), rng.uniform(0, 2 * np.pi)
    canvas = _Canvas(rng, textures.surface(rng, settings.size, tilt))
    longest = min(55.0, settings.size / 3)
    canvas.draw(120, lambda: textures.machining_mark(rng, tilt, 1.6 * longest), apart=False)
    canvas.draw(20, lambda: textures.scuff(rng, tilt, 5 * longest), apart=False)
    canvas.draw(50, lambda: textures.stain(rng, min(60.0, settings.size / 4)), category=3)
    canvas.draw(65, lambda: textures.scratch(rng, tilt, longest), category=1)
    canvas.draw(70, lambda: textures.pit(rng, light), category=2)
    canvas.draw(50, lambda: textures.shadow(rng, min(70.0, settings.size / 4)))
    canvas.draw(60, lambda: textures.scuff(rng, tilt, longest))
    canvas.draw(70, lambda: textures.lens_dust(rng))
    canvas.draw(60, lambda: textures.speck(rng))
    return textures.add_sensor_noise(rng, canvas.image), canvas.mask, canvas.instances


class _Canvas:
    """An image in the making: adds patches at random places and keeps account of the defects."""

    def __init__(self, rng: Generator, image: np.ndarray):
        self.rng, self.image = rng, image
        self.mask = np.zeros(image.shape[:2], np.uint8)
        self.instances: list[Instance] = []
        self._taken = np.empty((0, 4), np.int64)  # y0, x0, y1, x1 of the patches that keep apart

    def draw(self, count: int, make: Callable[[], textures.Patch], category: int = 0, apart: bool = True) -> None:
        """Draws about `count` patches per 2048 x 2048 pixels, but at least three (fewer if no room is left).

        A patch drawn with `apart` touches no other such patch; category 0 is no defect.
        """
        share = self.mask.size / 2048**2 * self.rng.uniform(0.85, 1.15)
        for _ in range(max(3, round(count * share))):
            patch = make()
            place = self._place(patch.mask.shape, apart)
            if place is not None:
                self._paint(patch, *place, category)

    def _place(self, shape: tuple[int, ...], apart: bool) -> tuple[int, int] | None:
        room = np.subtract(self.mask.shape, shape) + 1
        if room.min() < 1:
            return None
        for _ in range(50):
            start = self.rng.integers(0, room)
            box = np.concatenate([start, start + shape])
            if not apart:
                return int(start[0]), int(start[1])
            if (
                not (np.maximum(self._taken[:, :2], box[:2]) < np.minimum(self._taken[:, 2:], box[2:]))
                .all(1)
                .any()
            ):
                self._taken = np.vstack([self._taken, box])
                return int(start[0]), int(start[1])
        return None

    def _paint(self, patch: textures.Patch, y: int, x: int, category: int) -> None:
        height, width = patch.mask.shape
        delta = patch.delta if patch.delta.ndim == 3 else patch.delta[..., None]
        self.image[y : y + height, x : x + width] += delta
        if category == 0:
            return
        self.mask[y : y + height, x : x + width][patch.mask] = category
        left, top, w, h = cv2.boundingRect(patch.mask.astype(np.uint8))
        self.instances.append(Instance(category, y + top, x + left, patch.mask[top : top + h, left : left + w]))


# ---- annotations ----------------------------------------------------------------------------------


def _annotation(instance: Instance, number: int, image_id: int) -> dict[str, Any]:
    height, width = instance.mask.shape
    return {
        "id": number,
        "image_id": image_id,
        "category_id": instance.category,
        "bbox": [float(instance.x), float(instance.y), float(width), float(height)],
        "area": int(instance.mask.sum()),
        "iscrowd": 0,
        "segmentation": _polygons(instance),
    }


def _polygons(instance: Instance) -> list[list[float]]:
    """COCO polygons [x, y, x, y, …] along the borders of the pixels, so that a line one pixel wide has area."""
    scale = 4
    fine = instance.mask.astype(np.uint8).repeat(scale, 0).repeat(scale, 1)
    contours, _ = cv2.findContours(fine, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    corner = (instance.x, instance.y)
    return [((contour[:, 0] + 0.5) / scale + corner).ravel().tolist() for contour in contours]


# ---- files ----------------------------------------------------------------------------------------


def ensure_demo(root: Path, settings: DemoSettings) -> Path:
    """Makes the data set under `root` unless it is there with these settings, and returns `root`.

    The folder is whole or absent at any moment. Raises DataError when `root` holds something else or
    cannot be written.
    """
    place = Path(root).resolve()  # a link stays, what it points to is replaced
    if _made(place) == _record(settings):
        return root
    images = settings.train + settings.val + settings.test
    logger.info("making the demo data: %d images of %d px in %s", images, settings.size, root)
    part = place.parent / f".{place.name}-{uuid.uuid4().hex}.part"
    try:
        part.mkdir(parents=True)
        _write_all(part, settings)
        _install(part, place, settings)
    except OSError as error:
        raise DataError(f"{root}: cannot write the demo data ({error}); choose another data_dir") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return root


def _record(settings: DemoSettings) -> dict[str, Any]:
    return {"generator": GENERATOR, "version": VERSION, "settings": asdict(settings)}


def _made(root: Path) -> dict[str, Any] | None:
    """The record of the data set that is there, None for nothing. Raises DataError for another's folder."""
    try:
        record = json.loads((root / "demo.json").read_text())
    except (OSError, ValueError, RecursionError):
        record = None
    if isinstance(record, dict) and record.get("generator") == GENERATOR:
        return record
    if root.is_dir() and not any(root.iterdir()) or not os.path.lexists(root):
        return None
    raise DataError(f"{root}: was not made by the demo generator; choose another data_dir or remove it")


def _install(part: Path, root: Path, settings: DemoSettings) -> None:
    """Puts the finished folder in its place, unless another process was first with the same."""
    old = part.with_suffix(".old")
    try:
        if _made(root) not in (None, _record(settings)):
            root.rename(old)
        part.rename(root)
    except OSError:
        if _made(root) != _record(settings):
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _write_all(folder: Path, settings: DemoSettings) -> None:
    for split in SPLITS:
        annotations: list[dict[str, Any]] = []
        images = []
        for index in range(getattr(settings, split)):
            instances = _write_image(folder / split, settings, split, index)
            start = len(annotations) + 1
            annotations += [_annotation(found, start + k, index + 1) for k, found in enumerate(instances)]
            images.append(_image_entry(index, settings.size))
        categories = [{"id": k, "name": name} for k, name in enumerate(CLASSES) if k]
        content = {"images": images, "annotations": annotations, "categories": categories}
        _write(folder / split / "annotations.json", json.dumps(content).encode())
    _write(folder / "demo.json", json.dumps(_record(settings), indent=2).encode())


def _image_entry(index: int, size: int) -> dict[str, Any]:
    return {"id": index + 1, "file_name": f"images/{index:04d}.png", "width": size, "height": size}


def _write_image(folder: Path, settings: DemoSettings, split: str, index: int) -> list[Instance]:
    image, mask, instances = make_image(settings, split, index)
    _write(folder / "images" / f"{index:04d}.png", _png(cv2.cvtColor(image, cv2.COLOR_RGB2BGR)))
    _write(folder / "masks" / f"{index:04d}.png", _png(mask))
    return instances


def _png(pixels: np.ndarray) -> bytes:
    options = [cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE]
    return cv2.imencode(".png", pixels, options)[1].tobytes()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
