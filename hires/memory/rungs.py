"""What a training falls back to when memory runs out."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hires.interfaces import MemoryPlan


def rungs_of(
    plan: MemoryPlan, batch_size: int, thriftiest: Mapping[str, str], least: int = 1
) -> tuple[MemoryPlan, ...]:
    """First the policies that need least, then with them ever smaller micro-batches, down to `least`.

    Image size and batch size stay. What a rung needs is not predicted.
    """
    below = replace(plan, policies=dict(thriftiest), predicted=None, measured=None, margin=None, reasons=())
    rungs = [] if dict(thriftiest) == plan.policies else [below]
    for micro in _halves(plan.micro_batch_size, least):
        rungs.append(replace(below, micro_batch_size=micro, accumulation_steps=-(-batch_size // micro)))
    return tuple(rungs)


def _halves(micro: int, least: int) -> Iterator[int]:
    while micro > least:
        micro = max(least, -(-micro // 2))
        yield micro
