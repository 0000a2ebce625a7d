"""What any mix of policies needs, from steps in which all units have the same one."""

from collections.abc import Callable, Mapping, Sequence

from hires.memory.needs import Needs
from hires.memory.optimal import Option, Plan, cheapest, smallest
from hires.memory.policies import parse_policy, segments_of
from hires.memory.profile import MemoryProfile
from hires.memory.units import Unit

ROUNDS = 4  # mixes that are simulated before a budget is given up
SLACK = 1e-3  # share of a step's compute by which a plan may cost more than the best


class Mixtures:
    """The options of every unit, from what the units need when all have the same policy.

    Exact where units run one after the other. Where they alternate, as heads over levels do, or keep what others
    make, a mix needs more or less than this says: simulate what is chosen.
    """

    def __init__(self, units: Sequence[Unit], needs: Mapping[str, Needs]):
        self.names = [unit.name for unit in units]
        self.options: list[list[Option]] = [[] for _ in units]
        self.rest = round(max(each.rest for each in needs.values()))
        for policy, each in needs.items():
            for segment in segments(policy, units):
                self.options[self.names.index(segment[0])].append(_option(policy, segment, each))

    def policies(self, plan: Plan) -> dict[str, str]:
        """The policy of each unit by name."""
        return dict(zip(self.names, plan.policies(), strict=True))

    def smallest(self) -> Plan:
        """The plan of least peak."""
        return smallest(self.options)

    def least(self) -> int:
        """The least bytes that a step can do with."""
        return max(self.rest, self.smallest().peak)


def segments(policy: str, units: Sequence[Unit]) -> list[list[str]]:
    """The units that run again together when all have a policy, in order."""
    of = segments_of(dict.fromkeys([unit.name for unit in units], parse_policy(policy)), units)
    found: dict[str, list[str]] = {}
    for unit in units:
        found.setdefault(of[unit.name], []).append(unit.name)
    return list(found.values())


def _option(policy: str, segment: Sequence[str], needs: Needs) -> Option:
    return Option(
        name=policy,
        units=len(segment),
        kept=round(sum(needs.kept[unit] for unit in segment)),
        forward=max(0, *_along(segment, needs.forward, needs.kept)),
        backward=max(0, *_along(segment, needs.backward, needs.kept)),
        cost=sum(needs.cost[unit] for unit in segment),
    )


def _along(segment: Sequence[str], most: Mapping[str, float], kept: Mapping[str, float]) -> list[int]:
    """What the units of a segment need, above what is kept before the first."""
    found, before = [], 0.0
    for unit in segment:
        found.append(round(most[unit] + before))
        before += kept[unit]
    return found


def fit(
    mixtures: Mixtures,
    simulate: Callable[[dict[str, str]], MemoryProfile],
    budget: int,
    *,
    overhead: int,
    known: Mapping[str, MemoryProfile],
) -> tuple[dict[str, str], MemoryProfile]:
    """The cheapest policies that reserve at most `budget` bytes, simulated; those that need least where none do.

    `overhead` is what is reserved beyond the tensors, about; `known` are simulated steps by the policy of all
    units. What is chosen is simulated, and chosen again with less room by what it was above the budget.
    """
    room = budget - overhead
    tried: list[tuple[dict[str, str], MemoryProfile]] = []
    for _ in range(ROUNDS):
        plan = cheapest(mixtures.options, room, slack=SLACK)
        policies = mixtures.policies(plan or mixtures.smallest())
        tried.append((policies, simulate(policies)))
        above = tried[-1][1].reserved - budget
        if above <= 0 or plan is None:
            break
        room -= above
    alike = [(dict.fromkeys(mixtures.names, name), profile) for name, profile in known.items()]
    return min([*tried, *alike], key=lambda pair: _badness(pair[1], budget))


def _badness(profile: MemoryProfile, budget: int) -> tuple[int, float]:
    return max(0, profile.reserved - budget), sum(profile.recomputed().values())


def overhead_of(profiles: Mapping[str, MemoryProfile]) -> int:
    """What is reserved beyond the tensors at the peak, at least, of simulated steps."""
    return min(profile.reserved - profile.timeline.peak()[0] for profile in profiles.values())
