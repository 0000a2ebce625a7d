"""Reads damaged label files, in a process of its own: `fuzz_labels.py FOLDER FIRST COUNT`.

Prints what led to anything but objects or an error of ours, and last how many files of each format were read. A
file that takes more than ten seconds ends the process by SIGALRM, and none may need more than 2 GiB above what the
imports took.
"""

import json
import logging
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from box_files import SQUARE, annotation, coco, images, voc, voc_object, write
from geo_files import UTM33, feature, geojson, geotiff, polygon, square, tags
from image_files import save
from mutations import mutated, odd_value, odd_word
from PIL import Image
from test_labelme import labelme, shape

from hires.data import geo_folder
from hires.data.coco import CocoFolder, CocoMasks
from hires.data.csv_boxes import CsvBoxes
from hires.data.geo_folder import GeoBoxes, GeoMasks
from hires.data.instance_folder import InstanceFolder
from hires.data.label_folder import XyxyFolder, YoloFolder
from hires.data.labelme import LabelmeFolder, LabelmeMasks
from hires.data.mask_folder import MaskFolder
from hires.data.voc import VocFolder
from hires.interfaces import HiresError

SECONDS = 10
BYTES = 2 * 2**30
RUNS = {"size": [40, 60], "counts": "jU1:n00000000000000000000000000b7Ia3"}
COMMON = {"splits": {}, "cache_gib": 0, "unlisted": "drop"}
PAIRED = {**COMMON, "images": "*.png"}

Target = tuple[Path, Callable[[], Any]]
"""A file that is damaged, and what reads it."""


def xml(root: Path) -> Target:
    things = (voc_object("cat", 1, 2, 30, 40, difficult=1), voc_object("dog", 3, 4, 5.5, 6))
    path = write(root / "a.xml", voc(*things, head='<?xml version="1.0" encoding="utf-8"?>'))
    return path, lambda: VocFolder(root=str(root), annotations="*.xml", **PAIRED)


def coco_boxes(root: Path) -> Target:
    path = coco_file(root)
    return path, lambda: CocoFolder(root=str(root), annotations="a.json", instance_masks=True, **COMMON)


def coco_masks(root: Path) -> Target:
    path = coco_file(root)
    return path, lambda: CocoMasks(root=str(root), annotations="a.json", **COMMON)


def coco_file(root: Path) -> Path:
    images(root, "7.png", "9.png")
    runs = {"size": [40, 60], "counts": [400, 200, 1800]}
    given = [annotation(1), annotation(2, segmentation=runs, iscrowd=1), annotation(3, 90, 8, segmentation=RUNS)]
    return coco(root / "a.json", given)


def labelme_boxes(root: Path) -> Target:
    path = labelme_file(root)
    return path, lambda: LabelmeFolder(root=str(root), annotations="*.json", instance_masks=True, **PAIRED)


def labelme_masks(root: Path) -> Target:
    path = labelme_file(root)
    return path, lambda: LabelmeMasks(root=str(root), annotations="*.json", **PAIRED)


def labelme_file(root: Path) -> Path:
    circle, line = shape("b", [[5, 5], [9, 9]], "circle"), shape("c", SQUARE, "linestrip")
    return labelme(root / "a.json", shape("a", group_id=1), shape("a", group_id=1), circle, line)


def geo_boxes(root: Path) -> Target:
    path = geo_file(root)
    return path, lambda: GeoBoxes(root=str(root), instance_masks=True, **geo_settings())


def geo_masks(root: Path) -> Target:
    path = geo_file(root)
    return path, lambda: GeoMasks(root=str(root), **geo_settings())


def geo_image(root: Path) -> Target:
    geo_file(root)
    return root / "a.tif", lambda: GeoBoxes(root=str(root), **geo_settings())


def geo_settings() -> dict[str, Any]:
    geo_folder._features.cache_clear()  # files that are written within one tick of the clock look alike
    return {**COMMON, "images": "*.tif", "annotations": "a.geojson", "class_property": "kind"}


def geo_file(root: Path) -> Path:
    geotiff(root / "a.tif", tags((500_000.0, 5_000_000.0), 0.5))
    rings = (square(500_001, 4_999_999, 9), square(500_002, 4_999_998, 2))
    both = {"type": "MultiPolygon", "coordinates": [polygon(rings[0])["coordinates"]]}
    features = [feature(polygon(*rings), kind="roof"), feature(both, kind=7), feature(None)]
    return geojson(root / "a.geojson", *features, crs=UTM33)


def csv(root: Path) -> Target:
    path = write(
        root / "a.csv", 'path,x1,y1,x2,y2,label\na.png,1,2,30,40,cat\n"a.png",3,4,5.5,6,dog\na.png,,,,,\n'
    )
    return path, lambda: CsvBoxes(root=str(root), annotations="a.csv", **COMMON)


def yolo(root: Path) -> Target:
    path = write(root / "a.txt", "0 .5 .5 .2 .2\n1 0.25 0.25 0.1 0.1\r\n")
    return path, lambda: YoloFolder(root=str(root), labels="*.txt", classes=("a", "b"), **PAIRED)


def xyxy(root: Path) -> Target:
    path = write(root / "a.txt", "1 2 30 40 0\n5,6,7.5,8,1\n")
    return path, lambda: XyxyFolder(root=str(root), labels="*.txt", classes=("a", "b"), **PAIRED)


def names(root: Path) -> Target:
    write(root / "a.txt", "0 .5 .5 .2 .2\n")
    path = write(root / "data.yaml", "nc: 2\nnames:\n  0: car\n  1: bus\nval: [a, b]\n")
    return path, lambda: YoloFolder(root=str(root), labels="a.txt", **PAIRED)


def image_list(root: Path) -> Target:
    write(root / "a.txt", "0 .5 .5 .2 .2\n")
    path = write(root / "lists/train.txt", "a.png\n./a.png 1\nfolder/a.png\n")
    settings = {**PAIRED, "labels": "*.txt", "classes": ("a",), "splits": {"train": "lists/train.txt"}}
    return path, lambda: YoloFolder(root=str(root), **settings)


def mask_file(root: Path, ending: str, mask: np.ndarray, classes: dict[str, Any], **options: Any) -> Target:
    path = save(root / f"masks/a.{ending}", mask, **options)
    settings = {**COMMON, "images": "*.png", "masks": "masks/*", "classes": classes, "unlisted": "ignore"}
    return path, lambda: MaskFolder(root=str(root), **settings)


def mask_8(root: Path) -> Target:
    return mask_file(root, "png", drawn(), {"a": 0, "b": [1, 2]})


def mask_16(root: Path) -> Target:
    return mask_file(root, "png", drawn().astype(np.uint16) * 300, {"a": 0, "b": [300, 600]})


def mask_tiff(root: Path) -> Target:
    return mask_file(root, "tif", drawn().astype(np.uint16), {"a": 0, "b": [1, 2]}, compression="tiff_lzw")


def mask_gif(root: Path) -> Target:
    return mask_file(root, "gif", drawn(), {"a": 0, "b": [1, 2]})


def mask_rgb(root: Path) -> Target:
    return mask_file(root, "png", np.stack([drawn() * 90] * 3, axis=2), {"a": "#000000", "b": "#5A5A5A"})


def mask_palette(root: Path) -> Target:
    target = mask_file(root, "png", drawn(), {"a": "#000000", "b": "#010203"})
    image = Image.fromarray(drawn())
    image.putpalette([0, 0, 0, 1, 2, 3, 4, 5, 6])
    image.save(target[0])
    return target


def ids(root: Path) -> Target:
    path = save(root / "masks/a.png", drawn().astype(np.uint16))
    settings = {**PAIRED, "masks": "masks/*", "classes": ("a",), "instance_masks": True}
    return path, lambda: InstanceFolder(root=str(root), **settings)


def coloured_ids(root: Path) -> Target:
    path = save(root / "masks/a.tif", np.stack([drawn() * 90] * 3, axis=2))
    settings = {**PAIRED, "masks": "masks/*", "classes": ("a",), "ids": "rgb", "parts": "apart"}
    return path, lambda: InstanceFolder(root=str(root), **settings)


def drawn() -> np.ndarray:
    mask = np.zeros((40, 60), np.uint8)
    mask[3:9, 4:30], mask[20:, 40:] = 1, 2
    return mask


FORMATS: tuple[Callable[[Path], Target], ...] = (
    *(xml, coco_boxes, coco_masks, labelme_boxes, labelme_masks, geo_boxes, geo_masks, geo_image),
    *(csv, yolo, xyxy, names, image_list, ids, coloured_ids),
    *(mask_8, mask_16, mask_tiff, mask_gif, mask_rgb, mask_palette),
)


def read_all(settings: Any) -> None:
    source = settings.source("train")
    for index in range(len(source)):
        image, target = source.read(index)
        assert image.size
        assert target


def damaged(path: Path, data: bytes, others: list[bytes], seed: int) -> bytes:
    """Every other text has values that do not belong there, all others are damaged like any file."""
    if seed // len(FORMATS) % 2 and path.suffix in (".json", ".geojson"):
        return odd_value(data, seed)
    if seed // len(FORMATS) % 2 and path.suffix in (".xml", ".csv", ".txt", ".yaml"):
        return odd_word(data, seed)
    return mutated(data, others, seed)


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(folder: Path, first: int, count: int) -> None:
    logging.disable(logging.CRITICAL)
    targets = []
    for make in FORMATS:
        images(folder / make.__name__, "a.png")
        targets.append(make(folder / make.__name__))
    sound = [path.read_bytes() for path, _ in targets]
    for _, settings in targets:
        read_all(settings())
    limit_memory()
    read = dict.fromkeys((make.__name__ for make in FORMATS), 0)
    for seed in range(first, first + count):
        number = seed % len(FORMATS)
        path, settings = targets[number]
        path.write_bytes(damaged(path, sound[number], sound, seed))
        (folder / "current").write_text(f"{FORMATS[number].__name__} {seed}")
        signal.alarm(SECONDS)
        try:
            read_all(settings())
            read[FORMATS[number].__name__] += 1
        except HiresError:
            pass
        except BaseException:
            print(f"{FORMATS[number].__name__} {seed}: {traceback.format_exc()}")
        signal.alarm(0)
    print(json.dumps(read))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
