"""What PyTorch's CPU allocator hands out while something runs, from the trace of its profiler."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile


def profiler_events(run: Callable[[], Any]) -> list[dict[str, Any]]:
    """The events of a run: of operations and labels, and of each allocation and release."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else it says on stderr that it starts, and finds no GPUs
    with tempfile.TemporaryDirectory() as folder:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            run()
        trace = Path(folder, "trace.json")
        profiled.export_chrome_trace(str(trace))
        return json.loads(trace.read_text())["traceEvents"]


def allocated(events: list[dict[str, Any]]) -> list[tuple[float, int]]:
    """Time, and bytes of this run that are handed out from then on.

    The profiler's own total still counts what an earlier profile saw handed out and did not see released.
    """
    sizes: dict[int, int] = {}
    total, totals = 0, []
    memory = [event for event in events if event.get("name") == "[memory]"]
    for event in sorted(memory, key=lambda event: event["ts"]):
        size, address = event["args"]["Bytes"], event["args"]["Addr"]
        if size > 0:
            total += size - sizes.get(address, 0)
            sizes[address] = size
        else:
            total -= sizes.pop(address, 0)
        totals.append((event["ts"], total))
    return totals


def allocator_peak(run: Callable[[], Any]) -> int | None:
    """Most bytes that were handed out at one moment, of those that `run` asked for; None: it asked for none."""
    return max((size for _, size in allocated(profiler_events(run))), default=None)
