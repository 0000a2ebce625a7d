"""What to train on instead of data: the worst that data can bring."""

from typing import Any, NamedTuple

import numpy as np

from hires.data.limits import data_limits
from hires.data.pixel_statistics import assumed
from hires.interfaces import DataLimits, ImageSource, Normalization, Sample
from hires.memory.policies import AUTO
from hires.recipe import Recipe, Size

OBJECTS = 100
"""In one image, where nothing is said of the data: as many as COCO's evaluation looks at."""
_WHOLE = (2**20, 2**20)  # a window that shows all of any image, where the image size is to be found


class Examples(NamedTuple):
    """Samples of these classes that demand most, within these limits."""

    classes: tuple[str, ...]
    limits: DataLimits

    def normalization(self, recipe: Recipe) -> Normalization:
        """How such samples are normalised, with made-up statistics."""
        return assumed(recipe.data, np.dtype(self.limits.dtype))

    def samples(self, task: Any, count: int, image_size: Size) -> list[Sample]:
        """The samples of the most demanding batch."""
        batch = task.example_batch(count, image_size, self.limits)
        return [
            Sample(image, target, "example") for image, target in zip(batch.images, batch.targets, strict=True)
        ]


def examples_of(recipe: Recipe, source: ImageSource | None = None) -> tuple[Examples, list[str]]:
    """What a step is predicted for, of the data if there has to be any, and what is to be said of it."""
    count = recipe.model.num_classes
    if count and source is None:
        note = f"No data was looked at (model.num_classes is set): images have up to {OBJECTS} objects."
        detects = recipe.task.kind != "segmentation"
        return Examples(tuple(map(str, range(count))), DataLimits(max_objects=OBJECTS)), [note] * detects
    images: Any = source or recipe.data.source("train")
    return Examples(images.classes, data_limits(images, _largest_window(recipe), recipe.data)), []


def _largest_window(recipe: Recipe) -> Size:
    """The largest image size that is trained with, pixels, as far as it is known before a search."""
    memory = recipe.memory
    if memory.maximize is None and memory.max_image_size and recipe.top.image_size == AUTO:
        return (memory.max_image_size, memory.max_image_size)
    to_be_found = recipe.top.image_size == AUTO or memory.maximize == "resolution"
    return _WHOLE if to_be_found else recipe.image_size
