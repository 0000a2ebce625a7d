"""What any mix of policies needs, from steps in which all units have the same one."""

from collections.abc import Callable, Mapping, Sequence

from hires.memory.optimal import Option, Plan, cheapest, smallest
from hires.memory.policies import parse_policy, segments_of
from hires.memory.profile import MemoryProfile
from hires.memory.units import Unit

ROUNDS = 4  # mixes that are simulated before a budget is given up
SLACK = 1e-3  # share of a step's compute by which a plan may cost more than the best


class Needs:
    """What each unit of a step keeps, and needs while it runs, bytes; `rest`: what the step needs elsewhere."""

    def __init__(self, profile: MemoryProfile, units: Sequence[str]):
        kept, timeline = profile.kept(), profile.timeline
        self.kept = {unit: kept.get(unit, 0) for unit in units}
        self.cost = profile.recomputed()
        self.forward, self.backward, self.rest = dict.fromkeys(units, 0), dict.fromkeys(units, 0), 0
        before = self._kept_before(units)
        live, unit = timeline.live(), None
        ends = [start for start, _ in timeline.places[1:]] + [timeline.events]
        for (start, place), end in zip(timeline.places, ends, strict=True):
            most = max(live[start:end], default=0)
            unit = place.unit if place.unit in before else unit  # what runs between units counts to the last one
            ways = {"forward": self.forward, "backward": self.backward, "recompute": self.backward}
            if unit is None or place.phase not in ways:
                self.rest = max(self.rest, most)
            else:
                needs = ways[place.phase]
                needs[unit] = max(needs[unit], most - before[unit])

    def _kept_before(self, units: Sequence[str]) -> dict[str, int]:
        before, total = {}, 0
        for unit in units:
            before[unit], total = total, total + self.kept[unit]
        return before


class Mixtures:
    """The options of every unit, from the profile of each policy for all units.

    Exact where units run one after the other. Where they alternate, as heads over levels do, or keep what others
    make, a mix needs more or less than this says: simulate what is chosen.
    """

    def __init__(self, units: Sequence[Unit], profiles: Mapping[str, MemoryProfile]):
        self.names = [unit.name for unit in units]
        self.options: list[list[Option]] = [[] for _ in units]
        self.rest = 0
        for policy, profile in profiles.items():
            needs = Needs(profile, self.names)
            self.rest = max(self.rest, needs.rest)
            for start, segment in self._segments(policy, units):
                self.options[start].append(_option(policy, segment, needs))

    def _segments(self, policy: str, units: Sequence[Unit]) -> list[tuple[int, list[str]]]:
        """The units that run again together, with the index of the first."""
        of = segments_of(dict.fromkeys(self.names, parse_policy(policy)), units)
        found: dict[str, list[str]] = {}
        for name in self.names:
            found.setdefault(of[name], []).append(name)
        return [(self.names.index(segment[0]), segment) for segment in found.values()]

    def policies(self, plan: Plan) -> dict[str, str]:
        """The policy of each unit by name."""
        return dict(zip(self.names, plan.policies(), strict=True))


def _option(policy: str, segment: Sequence[str], needs: Needs) -> Option:
    return Option(
        name=policy,
        units=len(segment),
        kept=sum(needs.kept[unit] for unit in segment),
        forward=max(0, *_along(segment, needs.forward, needs.kept)),
        backward=max(0, *_along(segment, needs.backward, needs.kept)),
        cost=sum(needs.cost.get(unit, 0.0) for unit in segment),
    )


def _along(segment: Sequence[str], most: Mapping[str, int], kept: Mapping[str, int]) -> list[int]:
    """What the units of a segment need, above what is kept before the first."""
    found, before = [], 0
    for unit in segment:
        found.append(most[unit] + before)
        before += kept[unit]
    return found


def fit(
    mixtures: Mixtures,
    profiles: Mapping[str, MemoryProfile],
    simulate: Callable[[dict[str, str]], MemoryProfile],
    budget: int,
) -> tuple[dict[str, str], MemoryProfile]:
    """The cheapest policies that reserve at most `budget` bytes, simulated; those that need least where none do.

    What is chosen is simulated, and chosen again with less room by what it was above the budget.
    """
    room = budget - min(profile.reserved - profile.timeline.peak()[0] for profile in profiles.values())
    tried: list[tuple[dict[str, str], MemoryProfile]] = []
    for _ in range(ROUNDS):
        plan = cheapest(mixtures.options, room, slack=SLACK)
        policies = mixtures.policies(plan or smallest(mixtures.options))
        tried.append((policies, simulate(policies)))
        above = tried[-1][1].reserved - budget
        if above <= 0 or plan is None:
            break
        room -= above
    alike = [(dict.fromkeys(mixtures.names, name), profile) for name, profile in profiles.items()]
    return min([*tried, *alike], key=lambda pair: _badness(pair[1], budget))


def _badness(profile: MemoryProfile, budget: int) -> tuple[int, float]:
    return max(0, profile.reserved - budget), sum(profile.recomputed().values())
