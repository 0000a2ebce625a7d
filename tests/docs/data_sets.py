"""Small data sets in the layouts that the documentation names, as /data/NAME."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import tifffile

from tests.data.geo_files import UTM33, feature, geojson, polygon, tags

HEIGHT, WIDTH = 160, 200


class Scene(NamedTuple):
    """A picture with bright squares (class 1) and dark ones (class 2)."""

    image: np.ndarray
    classes: np.ndarray  # (H, W), 0 where there is none
    ids: np.ndarray  # (H, W), 1, 2, ... by object
    boxes: list[tuple[int, int, int, int, int]]  # x1 y1 x2 y2 class


def scene(seed: int) -> Scene:
    draw = np.random.default_rng(seed)
    image = draw.normal(110, 14, (HEIGHT, WIDTH, 3)).clip(0, 255).astype(np.uint8)
    classes, ids = np.zeros((HEIGHT, WIDTH), np.uint8), np.zeros((HEIGHT, WIDTH), np.uint16)
    boxes = []
    for number in range(6):
        kind, side = number % 2 + 1, int(draw.integers(14, 26))
        x, y = 6 + 64 * (number % 3) + int(draw.integers(20)), 6 + 80 * (number // 3) + int(draw.integers(30))
        for array, value in ((image, 40 + 90 * kind), (classes, kind), (ids, number + 1)):
            array[y : y + side, x : x + side] = value
        boxes.append((x, y, x + side, y + side, kind))
    return Scene(image, classes, ids, boxes)


def save(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), array)


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def corners(box: tuple[int, ...]) -> list[list[int]]:
    x1, y1, x2, y2 = box[:4]
    return [[x1, y1], [x2, y1], [x2, y2], [x1, y2]]


def two_values(root: Path, ending: str = ".jpg") -> None:
    """Images and masks of 0 and 255."""
    for index in range(10):
        one = scene(index)
        save(root / "images" / f"{index}{ending}", one.image)
        save(root / "masks" / f"{index}.png", (one.classes > 0).astype(np.uint8) * 255)


def decks(root: Path) -> None:
    """Classes 0 to 3 and 255; folders of images within `images`, and `images` within folders."""
    for index in range(12):
        one, pier = scene(index), ("north_pier", "south_pier", "west_pier")[index % 3]
        mask = np.where(one.classes == 2, 2 + (one.ids > 2), one.classes).astype(np.uint8)
        mask[:3] = 255
        for image, truth in ((f"images/{pier}", f"masks/{pier}"), (f"{pier}/images", f"{pier}/masks")):
            save(root / image / f"{index}.jpg", one.image)
            save(root / truth / f"{index}.png", mask)


def scans(root: Path) -> None:
    """Sixteen-bit gray, several of each patient; masks of 0 and 1."""
    for index in range(12):
        one, name = scene(index), f"patient_{index // 2:02d}/slice_{index % 2}.png"
        gray = one.image[..., 0].astype(np.uint16) * 13
        save(root / "images" / name, gray)
        save(root / "masks" / name, (one.classes == 1).astype(np.uint8))


def four_values(root: Path, bands: int = 3) -> None:
    """Masks of 0 to 3; with more than three bands images of 16 bits."""
    for index in range(6):
        one = scene(index)
        image = one.image
        if bands > 3:
            image = np.stack([one.image[..., band % 3].astype(np.uint16) * 9 + band for band in range(bands)], -1)
        (root / "images").mkdir(parents=True, exist_ok=True)
        kind = "minisblack" if bands > 3 else "rgb"
        tifffile.imwrite(root / "images" / f"{index}.tif", image, photometric=kind, planarconfig="contig")
        save(root / "masks" / f"{index}.png", np.where(one.ids == 1, 3, one.classes).astype(np.uint8))


def cars(root: Path) -> None:
    """YOLO, in two folders and in one, with lists of the splits."""
    for index in range(8):
        one = scene(index)
        rows = [
            f"{kind - 1} {(x1 + x2) / 2 / WIDTH} {(y1 + y2) / 2 / HEIGHT} {(x2 - x1) / WIDTH} {(y2 - y1) / HEIGHT}"
            for x1, y1, x2, y2, kind in one.boxes
        ]
        for image, label in ((f"images/{index}.jpg", f"labels/{index}.txt"), (f"{index}.jpg", f"{index}.txt")):
            save(root / image, one.image)
            write(root / label, *rows)
    write(root / "cars.names", "car", "truck")
    write(root / "train.txt", *(f"{index}.jpg" for index in range(6)))
    write(root / "val.txt", *(f"{index}.jpg" for index in (6, 7)))


def boards(root: Path) -> None:
    for index in range(6):
        one = scene(index)
        save(root / f"group{index % 2}" / f"{index}_test.jpg", one.image)
        write(root / f"group{index % 2}" / f"{index}.txt", *(" ".join(map(str, box)) for box in one.boxes))


def cells(root: Path) -> None:
    for index in range(6):
        one = scene(index)
        save(root / "JPEGImages" / f"{index}.jpg", one.image)
        objects = [
            f"<object><name>{('RBC', 'WBC', 'Platelets')[(kind + n) % 3]}</name>"
            f"<difficult>{int(n == 5)}</difficult>"
            f"<bndbox><xmin>{x1}</xmin><ymin>{y1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox></object>"
            for n, (x1, y1, x2, y2, kind) in enumerate(one.boxes)
        ]
        write(root / "Annotations" / f"{index}.xml", "<annotation>", *objects, "</annotation>")


def circles(root: Path) -> None:
    """Text files of `x y radius class`."""
    for index in range(6):
        one = scene(index)
        save(root / "images" / f"{index}.jpg", one.image)
        rows = [
            f"{(x1 + x2) / 2} {(y1 + y2) / 2} {(x2 - x1) / 2} {kind - 1}" for x1, y1, x2, y2, kind in one.boxes
        ]
        write(root / "circles" / f"{index}.txt", *rows)


def layers(root: Path) -> None:
    """Lines `IMAGE LAYERS`, and .npz files with an array for each class."""
    for index in range(6):
        one = scene(index)
        save(root / "images" / f"{index}.png", one.image)
        (root / "layers").mkdir(exist_ok=True)
        np.savez_compressed(root / "layers" / f"{index}.npz", water=one.classes == 1, roof=one.classes == 2)
    write(root / "list.txt", *(f"images/{index}.png layers/{index}.npz" for index in range(6)))


def coco(root: Path) -> None:
    folders = {"train": range(6), "val": range(6, 8)}
    for split, numbers in folders.items():
        for index in numbers:
            save(root / f"{split}2017" / f"{index}.jpg", scene(index).image)
        _coco_file(root / "annotations" / f"{split}.json", numbers)
    for index in folders["train"]:
        save(root / "images" / f"{index}.jpg", scene(index).image)
    _coco_file(root / "train.json", folders["train"])


def _coco_file(path: Path, numbers: range) -> None:
    content: dict[str, list] = {"images": [], "annotations": []}
    for index in numbers:
        content["images"].append({"id": index, "file_name": f"{index}.jpg", "height": HEIGHT, "width": WIDTH})
        for x1, y1, x2, y2, kind in scene(index).boxes:
            content["annotations"].append(
                {
                    "id": len(content["annotations"]) + 1,
                    "image_id": index,
                    "category_id": kind,
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "area": (x2 - x1) * (y2 - y1),
                    "iscrowd": 0,
                    "segmentation": [sum(corners((x1, y1, x2, y2)), [])],
                }
            )
    content["categories"] = [{"id": 1, "name": "car"}, {"id": 2, "name": "bus"}]
    write(path, json.dumps(content))


def trees(root: Path) -> None:
    for split, numbers in {"train": range(6), "val": range(6, 8)}.items():
        rows = ["path,x1,y1,x2,y2,label"]
        for index in numbers:
            save(root / "images" / f"{index}.jpg", scene(index).image)
            rows += [
                f"images/{index}.jpg,{x1},{y1},{x2},{y2},{('oak', 'elm')[kind - 1]}"
                for x1, y1, x2, y2, kind in scene(index).boxes
            ]
        write(root / f"{split}.csv", *rows)


def castings(root: Path) -> None:
    """A CSV of a German spreadsheet: centres and sizes in percent, decimal commas, a byte order mark."""
    rows = ["\ufeffBild;Befund;Mitte X %;Mitte Y %;Breite %;Höhe %"]
    for index in range(6):
        save(root / "fotos" / f"{index}.jpg", scene(index).image)
        for x1, y1, x2, y2, kind in scene(index).boxes:
            shares = (
                50 * (x1 + x2) / WIDTH,
                50 * (y1 + y2) / HEIGHT,
                100 * (x2 - x1) / WIDTH,
                100 * (y2 - y1) / HEIGHT,
            )
            numbers = ";".join(f"{share:.3f}".replace(".", ",") for share in shares)
            rows.append(f"{index}.jpg;{('Lunker', 'Rost')[kind - 1]};{numbers}")
    write(root / "Befunde.csv", *rows)


def plates(root: Path) -> None:
    """A folder an image, in it a mask of 0 and 255 for each object, and none of some classes."""
    names = ("crack", "corrosion", "crack", "pit", "crack", "hole")
    for index in range(6):
        one, folder = scene(index), root / f"IMG_{index:04d}"
        save(folder / f"{folder.name}.png", one.image)
        for number, name in enumerate(names[: 2 + index], 1):
            save(folder / f"{name}_{number:02d}.png", (one.ids == number).astype(np.uint8) * 255)


def leaves(root: Path) -> None:
    for index in range(6):
        one = scene(index)
        save(root / f"{index}.jpg", one.image)
        shapes = [
            {
                "label": ("leaf", "spot")[box[4] - 1],
                "points": corners(box),
                "shape_type": "polygon",
                "group_id": None,
            }
            for box in one.boxes
        ]
        content = {"shapes": shapes, "imagePath": f"{index}.jpg", "imageHeight": HEIGHT, "imageWidth": WIDTH}
        write(root / f"{index}.json", json.dumps(content))


def city(root: Path) -> None:
    """GeoTIFF tiles of half a metre beside each other, and roofs over all of them; class masks too."""
    roofs = []
    for index in range(6):
        one, west, north = scene(index), 500_000.0 + 100 * index, 5_000_000.0
        for folder in ("tiles", "images"):
            (root / folder).mkdir(parents=True, exist_ok=True)
            place = tags((west, north), 0.5)
            tifffile.imwrite(root / folder / f"{index}.tif", one.image, photometric="rgb", extratags=place)
        save(root / "masks" / f"{index}.png", one.classes)
        for box in one.boxes:
            ring = [[west + 0.5 * x, north - 0.5 * y] for x, y in corners(box)]
            roofs.append(feature(polygon(ring), kind=("flat", "gable")[box[4] - 1]))
    geojson(root / "roofs.geojson", *roofs, crs=UTM33)


def streets(root: Path) -> None:
    for index in range(6):
        one = scene(index)
        save(root / "images" / f"{index}.png", one.image)
        kinds = np.array([0, 24, 26])[one.classes] * 1000
        save(root / "gt" / f"{index}_instanceIds.png", np.where(one.ids > 0, kinds + one.ids, 0).astype(np.uint16))


SETS: dict[str, Callable[[Path], None]] = {
    "boards": boards,
    "bridges": two_values,
    "cars": cars,
    "castings": castings,
    "cells": cells,
    "circles": circles,
    "city": city,
    "coco": coco,
    "decks": decks,
    "layers": layers,
    "leaves": leaves,
    "maps": four_values,
    "parts": two_values,
    "plates": plates,
    "scans": scans,
    "scenes": partial(four_values, bands=13),
    "streets": streets,
    "trees": trees,
    "vessels": two_values,
}
"""/data/NAME in the documentation: what makes it."""


def make(name: str, root: Path) -> None:
    """Makes a data set unless it is there."""
    if not root.exists():
        SETS[name](root)
