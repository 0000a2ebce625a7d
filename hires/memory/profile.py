"""What a step occupies: the peaks, when they come, and what they are made of."""

from dataclasses import dataclass
from functools import cached_property

from hires.memory.allocator import DEFAULTS, FREE, AllocatorSettings, replay
from hires.memory.allocator_settings import MIB
from hires.memory.timeline import WORKSPACE, Place, Timeline

CONTEXT = {"cuda": 512 * MIB, "cpu": 40 * MIB}
"""Bytes that a process takes beside its allocator, an allowance.

CUDA: context, kernels of torch, cuDNN and cuBLAS; published for CUDA 11 to 13 are 250 to 700 MiB, not measured.
CPU: stacks, compiled kernels, Python's objects; seen are 20 to 45 MiB.
"""
HALF_ON_CPU = 60 * MIB
"""What oneDNN takes on top of that in half precision, and not from torch's allocator; seen are 20 to 110 MiB."""


@dataclass(frozen=True)
class MemoryProfile:
    """A step on a device, `cpu` or `cuda`; all sizes are bytes, predicted unless said otherwise."""

    device: str
    timeline: Timeline
    allocated: int  # most that the allocator handed out at one moment
    cached: int  # most that it held for that
    context: int  # what the process takes besides

    @property
    def reserved(self) -> int:
        """What the process takes in all."""
        return self.cached + self.context

    @cached_property
    def live(self) -> int:
        """Most bytes of live tensors, without kernels' workspace and the allocator's rounding."""
        return self.timeline.peak(without=[WORKSPACE])[0]

    @cached_property
    def peak_event(self) -> int:
        return self.timeline.peak()[1]

    @property
    def peak_at(self) -> Place:
        """Where in the step the peak is."""
        return self.timeline.place_of(self.peak_event)

    @cached_property
    def categories(self) -> dict[str, int]:
        """Bytes at the peak by category."""
        return self.timeline.categories_at(self.peak_event)

    def kept(self) -> dict[str | None, int]:
        """Bytes kept for the backward, by unit: what is there when the first backward begins.

        What a unit is given counts to it, and not to the one that made it.
        """
        timeline = self.timeline
        begins = next((event for event, place in timeline.places if place.phase == "backward"), timeline.events)
        kept: dict[str | None, int] = {}
        for block in timeline.blocks:
            made = block.place.phase == "forward" and block.category is None and block.born < begins
            if made and (block.died is None or block.died >= begins):
                unit = block.user or block.place.unit
                kept[unit] = kept.get(unit, 0) + block.size
        return kept

    def compute(self, *phases: str) -> float:
        """What the phases of the step take, or all but recomputation, in units of the time that a flop takes."""
        work = self.timeline.work.items()
        return sum(
            time for place, time in work if (place.phase in phases if phases else place.phase != "recompute")
        )

    def recomputed(self) -> dict[str | None, float]:
        """The share of the step's compute that is done again, by unit."""
        whole = self.compute()
        again = {place.unit: time for place, time in self.timeline.work.items() if place.phase == "recompute"}
        return {unit: time / whole for unit, time in again.items()} if whole else {}


def profile_of(timeline: Timeline, device: str, settings: AllocatorSettings = DEFAULTS) -> MemoryProfile:
    """The profile of what has been recorded; on CUDA, by replaying its caching allocator."""
    context = CONTEXT[device]
    if device != "cuda":
        most = timeline.peak()[0]
        return MemoryProfile(device, timeline, most, most, context)
    events = ((id(block), block.size if born else FREE) for block, born in timeline.ordered())
    allocator = replay(events, settings)
    return MemoryProfile(device, timeline, allocator.peak_allocated, allocator.peak_reserved, context)
