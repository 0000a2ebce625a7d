"""Files of a detection: COCO's JSON of an image and of all, overlays, and GeoJSON of images that lie on a map."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from hires.engine.files import jsonable, whole_file, write_text
from hires.interfaces import Normalization
from hires.ops.boxes import Detections, chosen
from hires.ops.instances import InstanceMask
from hires.ops.paste import pasted
from hires.ops.rle import run_lengths
from hires.predictions.features import feature_collection
from hires.predictions.georeference import georeference
from hires.predictions.inputs import Input
from hires.predictions.record import is_made
from hires.predictions.rendering import rendered, shrinking, tint, write_jpeg
from hires.predictions.settings import PredictionSettings
from hires.visualize.colours import class_colours, hex_colours

PREDICTIONS = "predictions.json"


class Thresholds(NamedTuple):
    """Scores from which on detections are written, and drawn into overlays."""

    written: float
    drawn: float


class BoxWriter:
    """Writes what a detector finds below `out`: `predictions.json`, and `boxes/`, `overlays/`, `geojson/`."""

    def __init__(
        self,
        out: Path,
        names: Sequence[str],
        category_ids: Sequence[int],
        settings: PredictionSettings,
        normalization: Normalization,
        thresholds: Thresholds,
    ):
        self.out, self.names, self.ids = out, names, category_ids
        self.settings, self.normalization, self.thresholds = settings, normalization, thresholds
        self.colours, self.since = class_colours(names), 0  # older files do not count, ns

    def table(self) -> dict[str, Any]:
        """What classes.json says of the files."""
        colours = hex_colours(self.colours)
        rows = [
            {"index": index, "name": name, "colour": colours[index], "category_id": number}
            for index, (name, number) in enumerate(zip(self.names, self.ids, strict=True))
        ]
        return {"kind": "boxes", "classes": rows, "score": self.thresholds.written}

    def kinds(self) -> list[str]:
        """What below `out` is written."""
        return [PREDICTIONS, "boxes", "geojson", *(["overlays"] if self.settings.overlays else [])]

    def depends(self) -> dict[str, float]:
        """What its files depend on beside the settings: the scores from which on detections are in them."""
        written, drawn = self.thresholds
        return {"score.written": written, **({"score.drawn": drawn} if self.settings.overlays else {})}

    def done(self, item: Input) -> bool:
        """Whether the file of the image is there, which appears last."""
        return is_made(self._path(item), self.since, item.path)

    def write(self, item: Input, image: Any, parts: Iterator[Detections], told: Callable[[float], None]) -> None:
        """Writes the files of an image; `told` is the share that is done.

        Raises DataError for images that turn out to be broken, OSError for files that cannot be written.
        """
        (found,) = parts
        found = chosen(found, found.scores >= self.thresholds.written)
        masks = list(pasted(found)) if found.masks is not None else []
        if self.settings.overlays:
            write_jpeg(self.out / "overlays" / f"{item.output}.jpg", self._drawn(image, found, masks))
        place = georeference(item.path)
        if place is not None:
            collection = feature_collection(place, found, masks, self.names)
            write_text(self.out / "geojson" / f"{item.output}.geojson", json.dumps(jsonable(collection)) + "\n")
        size = (int(image.shape[0]), int(image.shape[1]))
        described = {"file_name": item.name, "height": size[0], "width": size[1]}
        content = {"image": described, "annotations": list(self._annotations(found, masks, size))}
        write_text(self._path(item), json.dumps(jsonable(content)) + "\n")
        told(1.0)

    def finish(self, items: Sequence[Input]) -> None:
        """Joins the files of the images that are done to one in COCO's format, holding one at a time."""
        done = [item for item in items if self.done(item)]
        with whole_file(self.out / PREDICTIONS) as file:

            def listed(name: str, entries: Iterator[Any]) -> None:
                file.write(f'"{name}": ['.encode())
                for number, entry in enumerate(entries):
                    file.write((",\n" if number else "\n").encode() + json.dumps(entry).encode())
                file.write(b"\n]")

            file.write(b"{")
            listed("images", self._images(done))
            file.write(b",\n")
            listed("categories", iter({"id": i, "name": n} for i, n in zip(self.ids, self.names, strict=True)))
            file.write(b",\n")
            listed("annotations", self._joined(done))
            file.write(b"}\n")

    def _path(self, item: Input) -> Path:
        return self.out / "boxes" / f"{item.output}.json"

    def _read(self, item: Input) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self._path(item).read_text(encoding="utf-8"))
        return content

    def _images(self, items: Sequence[Input]) -> Iterator[dict[str, Any]]:
        for number, item in enumerate(items, 1):
            yield {"id": number, **self._read(item)["image"]}

    def _joined(self, items: Sequence[Input]) -> Iterator[dict[str, Any]]:
        total = 0
        for number, item in enumerate(items, 1):
            for annotation in self._read(item)["annotations"]:
                total += 1
                yield {"id": total, "image_id": number, **annotation}

    def _annotations(
        self, found: Detections, masks: Sequence[InstanceMask], size: tuple[int, int]
    ) -> Iterator[dict[str, Any]]:
        boxes, labels = found.boxes.cpu().double().numpy(), found.labels.cpu().tolist()
        for index, (x1, y1, x2, y2) in enumerate(boxes.tolist()):
            area = (x2 - x1) * (y2 - y1)
            annotation = {
                "category_id": self.ids[labels[index]],
                "bbox": [x1, y1, x2 - x1, y2 - y1],
                "area": int(masks[index].mask.sum()) if masks else area,
                "iscrowd": 0,
                "score": float(found.scores[index]),
            }
            if masks:
                counts = run_lengths(masks[index], size)
                annotation["segmentation"] = {"size": list(size), "counts": counts.decode("ascii")}
            yield annotation

    def _drawn(self, image: Any, found: Detections, masks: Sequence[InstanceMask]) -> np.ndarray:
        """The image with the boxes, names and masks of what is sure enough, weak ones below strong ones."""
        factor = shrinking(image.shape[:2], self.settings.overlay_size)
        picture = rendered(image, self.normalization, factor)
        line = max(1, round(max(picture.shape[:2]) / 800))
        labels, scores = found.labels.cpu().tolist(), found.scores.cpu().tolist()
        shown = [index for index in reversed(range(len(labels))) if scores[index] >= self.thresholds.drawn]
        for index in shown if masks else []:
            _tint_shrunk(picture, masks[index], self.colours[labels[index]], factor)
        for index in shown:
            corners = (found.boxes[index] / factor).round().int().tolist()
            text = f"{self.names[labels[index]]} {scores[index]:.2f}"
            _draw_box(picture, corners, text, tuple(self.colours[labels[index]].tolist()), line)
        return picture


def _tint_shrunk(picture: np.ndarray, instance: InstanceMask, colour: np.ndarray, factor: int) -> None:
    y, x = -(-instance.y // factor), -(-instance.x // factor)
    kept = instance.mask[y * factor - instance.y :: factor, x * factor - instance.x :: factor]
    area = picture[y : y + kept.shape[0], x : x + kept.shape[1]]
    tint(area, kept[: area.shape[0], : area.shape[1]], colour)


def _draw_box(picture: np.ndarray, corners: list[int], text: str, colour: tuple[int, ...], line: int) -> None:
    x1, y1, x2, y2 = corners
    cv2.rectangle(picture, (x1, y1), (max(x1, x2 - 1), max(y1, y2 - 1)), colour, line)
    shown = text.encode("ascii", "replace").decode()  # all that OpenCV's letters have
    scale, font = 0.45 * max(1.0, line / 1.5), cv2.FONT_HERSHEY_SIMPLEX
    (width, height), below = cv2.getTextSize(shown, font, scale, line)
    top = max(0, y1 - height - below)
    left = max(0, min(x1, picture.shape[1] - width))
    cv2.rectangle(picture, (left, top), (left + width, top + height + below), colour, -1)
    ink = (0, 0, 0) if sum(colour) > 380 else (255, 255, 255)
    cv2.putText(picture, shown, (left, top + height), font, scale, ink, line, cv2.LINE_AA)
