"""Writes small detection data sets for tests."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from image_files import save

from hires.data.coco import CocoFolder
from hires.data.label_folder import YoloFolder

SQUARE = [[10, 10, 20, 10, 20, 20, 10, 20]]
CROWD = {"size": [40, 60], "counts": [40 * 10, 40 * 5, 40 * 45]}  # columns 10 to 15


def images(root: Path, *names: str, size: tuple[int, int] = (40, 60)) -> None:
    for name in names:
        save(root / name, np.full((*size, 3), 90, np.uint8))


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


def voc_object(name: str, *box: float, **more: Any) -> str:
    corners = "".join(f"<{k}>{v}</{k}>" for k, v in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    rest = "".join(f"<{key}>{value}</{key}>" for key, value in more.items())
    return f"<object><name>{name}</name>{rest}<bndbox>{corners}</bndbox></object>"


def voc(*objects: str, head: str = "", size: tuple[int, int] = (40, 60)) -> str:
    stated = f"<size><width>{size[1]}</width><height>{size[0]}</height><depth>3</depth></size>"
    return f"{head}<annotation><path>/etc/passwd</path>{stated}{''.join(objects)}</annotation>"


def coco(path: Path, annotations: list[dict[str, Any]], **changes: Any) -> Path:
    """A COCO file of the images 7.png (id 70) and 9.png (id 90), 40 x 60, and categories cat 3 and dog 8."""
    content = {
        "images": [{"id": n * 10, "file_name": f"{n}.png", "height": 40, "width": 60} for n in (7, 9)],
        "annotations": annotations,
        "categories": [{"id": 8, "name": "dog"}, {"id": 3, "name": "cat"}],
    }
    return write(path, json.dumps(content | changes))


def annotation(number: int, image: int = 70, category: int = 3, **changes: Any) -> dict[str, Any]:
    usual = {"id": number, "image_id": image, "category_id": category, "bbox": [10, 10, 10, 10], "area": 100}
    return usual | {"iscrowd": 0, "segmentation": SQUARE} | changes


def coco_folder(folder: Path, **changes: Any) -> CocoFolder:
    """Settings of the file `all.json` and the images of `img`, with changes."""
    usual = {"annotations": "all.json", "images": "img", "splits": {}, "cache_gib": 0}
    return CocoFolder(root=str(folder), **(usual | changes))


def yolo_folder(folder: Path, **changes: Any) -> YoloFolder:
    """Settings of images and text files side by side, of cats and dogs, with changes."""
    usual = {"images": "*.*", "labels": "*.txt", "classes": ("cat", "dog"), "splits": {}, "cache_gib": 0}
    return YoloFolder(root=str(folder), **(usual | changes))
