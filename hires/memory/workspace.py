"""What kernels take for themselves while they run on a CPU, beyond their results: measured in small, scaled up.

Copies in another layout or type, and the scratchpads of oneDNN: what a dispatch mode does not see, but the
allocator does. It follows from the operation, the types and layouts of its arguments, and their sizes; for each
combination a straight line over the bytes of the arguments is laid through small runs on this machine.
"""

import json
import tempfile
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_LABEL = "hires.memory.workspace:"


Kind = tuple[Hashable, ...]
Operation = tuple[Kind, int, int]  # bytes of the arguments, bytes of workspace
Points = dict[Hashable, list[tuple[int, int]]]


class MeasuredWorkspace:
    """Bytes of workspace of any operation, from operations that have been measured."""

    fixed = 0

    def __init__(self, operations: Iterable[Operation]):
        self._exact: Points = defaultdict(list)
        self._alike: Points = defaultdict(list)
        for kind, size, extra in operations:
            self._exact[kind].append((size, extra))
            self._alike[kind[:2]].append((size, extra))

    def __call__(self, function: Any, args: Any, result: Any) -> int:
        kind, size = kind_of(function, args)
        points = self._exact.get(kind) or self._alike.get(kind[:2])
        return round(_on_line(points, size)) if points else 0


def measure(run: Callable[[], Any]) -> list[Operation]:
    """Every operation of a run on the CPU."""
    with tempfile.TemporaryDirectory() as folder, _Labels() as labels:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            run()
        trace = Path(folder, "trace.json")
        profiled.export_chrome_trace(str(trace))
        extras = _extras(json.loads(trace.read_text())["traceEvents"])
    return [(kind, size, extras.get(number, 0)) for number, (kind, size) in enumerate(labels.operations)]


class _Labels(TorchDispatchMode):
    """Numbers operations for the profiler."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Kind, int]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations.append(kind_of(function, args))
        with record_function(f"{_LABEL}{len(self.operations) - 1}"):
            return function(*args, **(kwargs or {}))


def _extras(events: list[dict[str, Any]]) -> dict[int, int]:
    """By the number of an operation, how far what was allocated within it was above what it left."""
    totals = sorted((e["ts"], e["args"]["Total Allocated"]) for e in events if e.get("name") == "[memory]")
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
    """Operation, types and layouts of arguments, their channels; and the bytes of all arguments."""
    tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)]
    layouts = tuple((t.dtype, t.dim(), _layout(t)) for t in tensors)
    channels = tuple(t.shape[1] if t.dim() == 4 else t.shape[-1] if t.dim() else 0 for t in tensors)
    return (function, layouts, channels), sum(t.numel() * t.element_size() for t in tensors)


def _layout(tensor: Tensor) -> str:
    if tensor.is_contiguous():
        return "contiguous"
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return "channels last"
    return "strided"


def _on_line(points: list[tuple[int, int]], size: int) -> float:
    """The value at `size` of the line through the points: least squares, not below 0."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else mean_y / max(mean_x, 1)
    return max(0.0, mean_y + max(slope, 0.0) * (size - mean_x))
