"""Which micro-batches and image sizes a search tries."""

from torch import nn

from hires.memory.predictions import Shape

Size = tuple[int, int]
LARGEST_SIDE = 16384  # pixels, where no data says how large images are
_MOST = 4096  # samples of a micro-batch, where the batch size may grow
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def micro_batches(batch_size: int, least: int, *, growing: bool) -> list[int]:
    """Samples of a micro-batch, from `least` on; of those that need as many steps for a batch, the smallest.

    `growing`: also those beyond the batch size, which is to grow with them.
    """
    counts = {-(-batch_size // micro): micro for micro in range(batch_size, 0, -1)}
    found = sorted({max(micro, min(least, batch_size)) for micro in counts.values()})
    return [*found, *range(batch_size + 1, _MOST + 1)] if growing else found


def sizes(aspect: Size, stride: int, largest: Size, coarse: float = 1.0) -> list[Size]:
    """(height, width) of about an aspect, multiples of the stride: from two of them up to the largest image.

    `largest` is (height, width) of the largest image; (0, 0) where none is known. Of smaller images than that,
    the smallest size of the aspect. Each is at least `coarse` times as large as the one before.
    """
    most = tuple(-(-(side or LARGEST_SIDE) // stride) * stride for side in largest)
    found: list[Size] = []
    for count in range(2, max(most) // stride + 1):
        size = _of_shorter_side(count * stride, aspect, stride)
        apart = not found or size[0] >= coarse * found[-1][0]
        if apart and size[0] <= most[0] and size[1] <= most[1]:
            found.append(size)
    return found or [_of_shorter_side(stride, aspect, stride)]


def _of_shorter_side(side: int, aspect: Size, stride: int) -> Size:
    height, width = (side * one / min(aspect) for one in aspect)
    return round(height / stride) * stride, round(width / stride) * stride


def shapes(micro: list[int], of: list[Size]) -> list[Shape]:
    """All combinations, by their pixels."""
    return sorted((Shape(count, *size) for count in micro for size in of), key=lambda shape: shape.pixels)


def least_micro_batch(task: nn.Module) -> int:
    """Samples that a forward needs: of one, BatchNorm has poor statistics, and on a map of one pixel none."""
    normed = any(isinstance(module, _BATCH_NORMS) for module in task.modules())
    return 2 if normed else 1
