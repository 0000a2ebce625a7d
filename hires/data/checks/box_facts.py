"""What the label file of one image says, file by file, so that one that is broken hides no other."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hires.data.box_folder import PairedBoxes
from hires.data.box_objects import Images
from hires.data.pairs import Pair

_PLACES = {
    ".xml": re.compile(rb"<path>([^<]*)</path>"),
    ".json": re.compile(rb'"imagePath"\s*:\s*"((?:[^"\\]|\\.)*)"'),
}
_ABSOLUTE = re.compile(r"/|\\\\|[A-Za-z]:[\\/]")
_MOST_BYTES = 2**24


@dataclass(frozen=True)
class BoxFacts:
    """The objects of an image as its label file gives them."""

    boxes: np.ndarray  # (M, 4) float64 x1 y1 x2 y2, pixels
    numbers: np.ndarray  # (M,) int64, of the vocabulary
    ignored: np.ndarray  # (M,) bool
    names: dict[int, str]  # the vocabulary
    numbered: bool
    complete: bool
    remarks: tuple[tuple[str, int], ...] = ()  # what else the reader found in the file, and how often
    foreign: bool = False  # whether the file says that its image is on some other machine


class BoxReader:
    """Reads label files one by one."""

    def __init__(self, settings: PairedBoxes):
        self.settings, self.root = settings, settings.root_path()

    def __call__(self, pair: Pair, size: tuple[int, int]) -> BoxFacts:
        """What a file says of an image of (height, width) pixels. Raises DataError."""
        images = Images([pair.image], np.array([size], np.int64), np.array([1], np.int64))
        parsed = self.settings.parsed([pair], [pair], images)
        objects, words = parsed.objects, parsed.vocabulary
        return BoxFacts(
            *(objects.boxes, objects.classes, objects.ignored),
            *(words.names, words.numbered, words.complete),
            tuple((one.what, one.number) for one in parsed.findings),
            bool(pair.truth) and names_elsewhere(self.root / pair.truth),
        )


def names_elsewhere(path: Path) -> bool:
    """Whether a label file names its image by an absolute path that is not there.

    The path itself is told nowhere: folders of clinics are called after patients.
    """
    pattern = _PLACES.get(path.suffix.lower())
    if pattern is None or path.stat().st_size > _MOST_BYTES:
        return False
    match = pattern.search(path.read_bytes())
    text = match[1].decode(errors="replace").strip() if match else ""
    if path.suffix.lower() == ".json":
        text = _unescaped(text)
    return bool(_ABSOLUTE.match(text)) and not os.path.exists(text)


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text
