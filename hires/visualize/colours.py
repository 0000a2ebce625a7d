"""Colours of classes in masks, overlays and reports: those that the data set itself gives them, else the same ones
for an index everywhere."""

import colorsys
from collections.abc import Sequence

import numpy as np

# told apart on photographs and by most who see red and green alike
_FIRST = (
    "2f6fd0",
    "e8a21b",
    "2b9a67",
    "c23b70",
    "12a5b8",
    "9a4bb0",
    "c8d838",
    "7a4a1e",
    "ef6a4a",
    "b9c2ff",
    "5b46c9",
)
_GROUNDS = ("background", "_background_", "bg", "ground", "none", "unlabeled", "unlabelled")
_TURN = 0.618034  # of the colour wheel, from one further class to the next: never near the last ones


def is_ground(name: str) -> bool:
    """Whether a class is what surrounds the others, by its name: black, and not tinted in overlays."""
    return name.strip().lower() in _GROUNDS


def class_colours(names: Sequence[str], given: Sequence[int] | None = None) -> np.ndarray:
    """(K, 3) uint8 red, green and blue; `given` are those of the data set, 0xRRGGBB."""
    if given is not None:
        return np.array([[code >> 16, code >> 8 & 255, code & 255] for code in given], np.uint8)
    return np.array([(0, 0, 0) if is_ground(name) else _colour(i) for i, name in enumerate(names)], np.uint8)


def _colour(index: int) -> tuple[int, ...]:
    if index < len(_FIRST):
        return tuple(bytes.fromhex(_FIRST[index]))
    return tuple(
        round(255 * part) for part in colorsys.hsv_to_rgb(index * _TURN % 1, 0.75, 0.95 - index % 3 * 0.2)
    )


def hex_colours(colours: np.ndarray) -> list[str]:
    """As #RRGGBB."""
    return ["#" + bytes(colour.tolist()).hex().upper() for colour in colours]
