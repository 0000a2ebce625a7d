"""What to say of a step's memory: by category and unit, what policies would save and cost, and whether it pays."""

from collections.abc import Mapping, Sequence
from typing import Any

from hires.memory.policies import Policy
from hires.memory.profile import MemoryProfile
from hires.memory.timeline import ACTIVATIONS, AVERAGE, GRADIENTS, LOSS, PARAMETERS, RECOMPUTED, STATE, Timeline
from hires.memory.units import Unit

SAMPLES = 300  # moments of a chart
HELPS = 0.9  # share of the peak: checkpointing that leaves less is said to help
_KEPT = (ACTIVATIONS, LOSS, RECOMPUTED)
_STANDING = (PARAMETERS, GRADIENTS, STATE, AVERAGE)


def unit_rows(
    units: Sequence[Unit],
    policies: Mapping[str, Policy],
    chosen: MemoryProfile,
    alternatives: Mapping[str, MemoryProfile],
) -> dict[str, dict[str, Any]]:
    """What each unit keeps and runs again, bytes and share of the step's compute, under each policy for all."""
    of = {policy: (profile.kept(), profile.recomputed()) for policy, profile in alternatives.items()}
    kept, again = chosen.kept(), chosen.recomputed()
    return {
        unit.name: {
            "policy": str(policies[unit.name]),
            "kept": kept.get(unit.name, 0),
            "recomputed": of["none"][0].get(unit.name, 0) - kept.get(unit.name, 0),
            "cost": again.get(unit.name, 0.0),
            "policies": {
                policy: {"kept": keeps.get(unit.name, 0), "cost": runs.get(unit.name, 0.0)}
                for policy, (keeps, runs) in of.items()
            },
        }
        for unit in units
    }


def sampled(timeline: Timeline, count: int = SAMPLES) -> dict[str, Any]:
    """At most `count` moments of a step: of each stretch of events, that with the most bytes.

    What is computed again counts as part of the backward.
    """
    live, layers = timeline.live(), timeline.by_category()
    first = max(0, timeline.start - 1)
    stretch = max(1, -(-(timeline.events - first) // count))
    moments = [
        max(range(start, min(start + stretch, timeline.events)), key=live.__getitem__)
        for start in range(first, timeline.events, stretch)
    ]
    places: list[dict[str, Any]] = []
    for index, event in enumerate(moments):
        phase, unit = timeline.place_of(event)
        place = {"phase": "backward" if phase == "recompute" else phase, "unit": unit}
        if not places or {**place, "index": places[-1]["index"]} != places[-1]:
            places.append({"index": index, **place})
    return {"places": places, "bytes": {name: [row[event] for event in moments] for name, row in layers.items()}}


def verdict(chosen: MemoryProfile, alternatives: Mapping[str, MemoryProfile]) -> str:
    """In a sentence or two: how much of the peak are activations, and whether checkpointing them helps."""
    categories, total = chosen.categories, sum(chosen.categories.values()) or 1
    kept, standing = (sum(categories[name] for name in names) / total for names in (_KEPT, _STANDING))
    # not `offload`, whose copies take time that is not estimated
    able = {name: profile for name, profile in alternatives.items() if name not in ("none", "offload")}
    name = min(able, key=lambda policy: able[policy].allocated)
    share = able[name].allocated / chosen.allocated
    if share < HELPS:
        cost = sum(able[name].recomputed().values())
        return (
            f"Activations are {kept:.0%} of the peak: checkpointing will help. With {name} for all units the "
            f"peak is {share:.0%} of it, and {cost:.0%} of the step is computed again (estimated)."
        )
    if standing >= kept:
        largest = max(_STANDING, key=categories.__getitem__)
        return (
            f"Parameters, gradients, optimizer state and EMA are {standing:.0%} of the peak, "
            f"most of it {largest}: checkpointing will not help much; {_FIXES[largest]}."
        )
    return (
        f"Activations are {kept:.0%} of the peak, which no other policy for all units makes much smaller: use a "
        "smaller micro-batch or image size."
    )


_FIXES = {
    PARAMETERS: "use a smaller backbone",
    GRADIENTS: "use a smaller backbone, or freeze stages (backbone.freeze)",
    STATE: "use an optimizer with less state (optimizer=sgd), a smaller backbone, or freeze stages",
    AVERAGE: "use trainer.ema_decay=null, or a smaller backbone",
}
