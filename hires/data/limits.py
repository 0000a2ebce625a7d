"""The worst that a data set can bring to a training step."""

import math

from hires.data.mosaic import FURTHEST
from hires.data.pixel_statistics import pixel_type
from hires.data.settings import DataSettings, TrainingSource
from hires.interfaces import DataLimits
from hires.ops.windows import Size


def data_limits(source: TrainingSource, image_size: Size, settings: DataSettings) -> DataLimits:
    """What no sample of a source exceeds. Reads the boxes of all images; masks have no objects."""
    sizes = [source.size(index) for index in range(len(source))]
    targets = source.targets(settings.window)
    if settings.fit == "resize":
        objects = targets.most_objects(None)
    else:
        objects = targets.most_objects(_largest_window(image_size, settings))
        if settings.mosaic > 0:
            objects = max(objects, sum(targets.most_objects(size) for size in _quadrants(image_size)))
    largest = max(sizes, key=math.prod)
    return DataLimits(max_objects=objects, max_shape=largest, dtype=str(pixel_type(source)))


def _largest_window(image_size: Size, settings: DataSettings) -> Size:
    shrinking = 1.0 if settings.scale is None else min(1.0, settings.scale[0])
    height, width = (math.ceil(side / shrinking) for side in image_size)
    return height, width


def _quadrants(image_size: Size) -> list[Size]:
    """Four sizes that the quadrants of any mosaic fit into, one each."""
    sides = [(math.ceil(side / 2), math.ceil(side * FURTHEST)) for side in image_size]
    return [(height, width) for height in sides[0] for width in sides[1]]
