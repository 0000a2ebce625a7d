"""What kernels take for themselves while they run on a CPU, beyond their results: measured in small, scaled up.

Copies in another layout or type, and the scratchpads of oneDNN: what a dispatch mode does not see, but the
allocator does. It follows from the operation, the types and layouts of its arguments, and their sizes; for each
combination, lines over the bytes of the arguments are laid through small runs on this machine.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hires.memory.costs import size_of
from hires.memory.events import allocated, profiler_events
from hires.memory.meter import Labels
from hires.ops.nested import leaves

aten = torch.ops.aten
_PRODUCTS = (aten.mm, aten.addmm, aten.bmm, aten.baddbmm)
_LABEL = "hires.memory.workspace:"
APART = 1.5  # times as large is another size


class Kind(NamedTuple):
    """What decides about the workspace of an operation, beside the size of images."""

    function: Any
    types: tuple[tuple[torch.dtype, int], ...]  # of the arguments, with their dimensions
    layouts: tuple[str, ...]
    fixed: Hashable  # the weights and strides of a convolution, the widths of a product, what is broadcast

    def less_and_less(self) -> tuple[Hashable, ...]:
        """Itself, and what it is without layouts, and without weights."""
        return self, (self.function, self.types, self.fixed), (self.function, self.types, self.layouts)


Operation = tuple[Kind, int, int]  # bytes of the arguments, bytes of workspace


class MeasuredWorkspace:
    """Bytes of workspace of any operation, from operations that have been measured."""

    fixed = 0

    def __init__(self, operations: Iterable[Operation]):
        self._points: dict[Hashable, dict[int, int]] = defaultdict(dict)  # workspace by bytes of the arguments
        for kind, size, extra in operations:
            for key in kind.less_and_less():
                points = self._points[key]
                points[size] = max(extra, points.get(size, 0))

    def __call__(self, function: Any, args: Any, result: Any) -> int:
        kind, size = kind_of(function, args)
        known = [self._points[key] for key in kind.less_and_less() if key in self._points]
        if not known:
            return 0
        lines = (_apart(points) for points in known)
        line = next((line for line in lines if len(line) > 1 or 2 * max(line) > size), _apart(known[0]))
        return round(_on_line(line, size))


def measure(run: Callable[[], Any]) -> list[Operation]:
    """Every operation of a run on the CPU."""
    with Labels(_LABEL, kind_of) as labels:
        events = profiler_events(run)
    extras = _extras(events)
    return [(kind, size, extras.get(number, 0)) for number, (kind, size) in enumerate(labels.notes)]


def _extras(events: list[dict[str, Any]]) -> dict[int, int]:
    """By the number of an operation, how far what was allocated within it was above what it left."""
    totals = allocated(events)
    times = [time for time, _ in totals]
    found = {}
    for event in events:
        name = event.get("name", "")
        if name.startswith(_LABEL):
            first, end = bisect_left(times, event["ts"]), bisect_right(times, event["ts"] + event["dur"])
            within = [total for _, total in totals[first:end]]
            if within:
                found[int(name.removeprefix(_LABEL))] = max(within) - within[-1]
    return found


def kind_of(function: Any, args: Any) -> tuple[Kind, int]:
    """The kind of an operation, and the bytes of its arguments that grow with images."""
    tensors = list(leaves(args, Tensor))
    types = tuple((tensor.dtype, tensor.dim()) for tensor in tensors)
    fixed, size = _fixed(function, args, tensors)
    return Kind(function, types, tuple(map(_layout, tensors)), fixed), size


def _fixed(function: Any, args: Any, tensors: list[Tensor]) -> tuple[Hashable, int]:
    """What does not change with the size of images, and the bytes that do."""
    size = sum(map(size_of, tensors))
    if function is aten.convolution.default:
        return (args[1].shape, str(args[3:])), size - size_of(args[1])
    if function is aten.convolution_backward.default:
        return (args[2].shape, str(args[4:])), size - size_of(args[2])
    if function.overloadpacket in _PRODUCTS:
        return tuple(min(tensor.shape, default=0) for tensor in tensors), size
    if function.__name__.startswith("upsample") and args[1] is not None:
        if "backward" in function.__name__:  # which is given both sizes
            return _ratio(args[2], args[1]), size
        return _ratio(args[0].shape, args[1]), size * math.prod(args[1]) // math.prod(args[0].shape[-2:])
    largest = max((tensor.numel() for tensor in tensors), default=0)
    return tuple(tensor.numel() == largest for tensor in tensors), size  # the others are broadcast


def _ratio(before: Sequence[int], after: Sequence[int]) -> Hashable:
    """By how much a map is scaled; a single pixel is spread over whatever size there is."""
    height, width = before[-2:]
    return "spread" if height * width == 1 else (round(after[-2] / height, 2), round(after[-1] / width, 2))


def _layout(tensor: Tensor) -> str:
    if tensor.is_contiguous():
        return "contiguous"
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return "channels last"
    return "strided"


def _apart(points: Mapping[int, int]) -> dict[int, int]:
    """The points in order; of those of about the same size, the largest."""
    chosen: list[int] = []
    for size in sorted(points, key=lambda each: (points[each], each), reverse=True):
        if all(max(size, other) >= APART * min(size, other) for other in chosen):
            chosen.append(size)
    return {size: points[size] for size in sorted(chosen)}


def _on_line(points: Mapping[int, int], size: int) -> float:
    """The value at `size` on the line through the points next to it, or the last two; it does not fall."""
    sizes = list(points)
    if len(sizes) == 1:
        return points[sizes[0]] * min(1.0, size / max(sizes[0], 1))
    index = min(max(bisect_left(sizes, size), 1), len(sizes) - 1)
    low, high = sizes[index - 1], sizes[index]
    slope = max(0.0, (points[high] - points[low]) / (high - low))
    return max(0.0, points[high] + slope * (size - high))
