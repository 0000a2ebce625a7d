"""Which policy each unit gets, such that a training step stays within a budget at the least time: exactly.

Units run in order in forward and in the opposite order in backward. What is kept for backward adds up, so the
peak of a plan is the maximum, over its options, of what all options before keep and what this one needs on top.
Read from the back, that is a recursion: a plan for the units from i on, with nothing kept before them, needs

    need(option, rest) = max(option.forward, option.backward, option.kept + need(rest))

and with s bytes kept before, its peak is s more. A rest that neither needs nor costs more than another can take
its place in every plan. So one pass from the last unit to the first, which keeps at every unit the rests that no
other beats in (need, cost), ends with all plans worth having (Nemhauser and Ullmann, Management Science 15, 1969,
for knapsacks). At the first unit the need *is* the peak: among equal costs the least peak wins by itself, without
a third value. `cheapest` also excludes rests by bounds from a Lagrangian relaxation.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

_WIDTHS = (64, 512, 4096)  # rests that are kept at a unit in the searches before the exact one
_SLOPES = 32  # prices of a byte that bounds are computed for
_INDEX = 40  # bits of a step that say which rest it goes on with; those above, which option it takes


@dataclass(frozen=True, slots=True)
class Option:
    """One policy for one unit, or for several consecutive ones. Bytes, all at least 0.

    `forward` and `backward` are above what the options before keep; memory that stands there anyway is included.
    """

    name: str  # of the policy: "none", "selective", "full", "full@2"
    units: int  # how many consecutive units it covers
    kept: int  # from its forward until its backward is done
    forward: int  # most while its forward runs
    backward: int  # most while its backward runs, recomputation included
    cost: float  # time, in any unit

    def __post_init__(self) -> None:
        if self.units < 1 or min(self.kept, self.forward, self.backward) < 0:
            raise ValueError(f"option {self.name}: units must be at least 1 and bytes at least 0: {self}")
        if not 0 <= self.cost < math.inf:
            raise ValueError(f"option {self.name}: its cost must be finite and at least 0, got {self.cost}")


Options = Sequence[Sequence[Option]]
"""By unit: the options that begin there."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Options that cover every unit once, in order; the peak in bytes; the sum of costs."""

    options: tuple[Option, ...]
    peak: int
    cost: float

    def policies(self) -> list[str]:
        """The name of the policy of every unit."""
        return [option.name for option in self.options for _ in range(option.units)]


def cheapest(options: Options, budget: int, *, slack: float = 0.0) -> Plan | None:
    """The plan of least cost whose peak is at most `budget` bytes, of those the one of least peak. None: no plan.

    With a `slack`, a plan that costs at most that much more. Costs proportional to bytes that differ from unit to
    unit may need it: exact answers then take exponential time. Raises ValueError when the options leave a gap.
    """
    problem = _Problem(options)
    bounds = _Bounds(problem, int(min(budget, problem.ceiling)))
    half = problem.to_units(slack) // 2  # for the grain; the other for what a better plan has to save
    best, limit = None, None
    for width in (*_WIDTHS, None) if bounds.least[-1] is not None else ():
        fronts, all_kept = _search(problem, bounds, limit, width, half // max(1, len(options)))
        if fronts[0].costs:
            best = problem.plan(fronts, problem.distinct(fronts[0])[-1])
            limit = problem.to_units(best.cost + math.ulp(best.cost)) - half
        if all_kept:
            break
    return best


def smallest(options: Options) -> Plan:
    """The plan of least peak, of those the one of least cost. Raises ValueError when the options leave a gap."""
    problem = _Problem(options)
    needs = [-problem.ceiling] * (len(options) + 1)
    for at, ways in reversed(list(enumerate(problem.ways))):
        needs[at] = min((max(way.need, way.kept + needs[at + way.units]) for way in ways), default=0)
    plan = cheapest(options, needs[0])
    assert plan is not None
    return plan


def front(options: Options, *, slack: float = 0.0) -> list[Plan]:
    """The plans that no other beats in peak or cost without losing in the other, by rising peak and falling cost.

    With a `slack`, fewer: for every plan there is one in the list that has no higher peak and costs at most that
    much more. Raises ValueError when the options leave a gap.
    """
    problem = _Problem(options)
    fronts = problem.no_fronts()
    grain = problem.to_units(slack) // max(1, len(options))
    for at, ways in reversed(list(enumerate(problem.ways))):
        fronts[at] = _joined(ways, fronts, at, problem.ceiling, grain)
    return [problem.plan(fronts, index) for index in problem.distinct(fronts[0])]


@dataclass(frozen=True, slots=True)
class _Way:
    """An option in whole numbers."""

    units: int
    kept: int
    need: int
    cost: int


@dataclass(frozen=True, slots=True)
class _Front:
    """Undominated plans for the units from one on: needs rise, costs fall. Lists of int, for the sake of speed."""

    needs: list[int]
    costs: list[int]
    steps: list[int]  # the first option, and the index of the rest in the front behind it

    def only(self, indices: Sequence[int]) -> "_Front":
        return _Front(*([values[i] for i in indices] for values in (self.needs, self.costs, self.steps)))


class _Problem:
    """Options without gaps, costs in whole numbers.

    A float is a whole multiple of a power of two, so that sums of the multiples are exact: permuted policies cost
    the same, and a sum is rounded once, at the end. Costs that are then the same count as equal.
    """

    def __init__(self, options: Options):
        _check(options)
        self.options = options
        self.scale = max((float(o.cost).as_integer_ratio()[1] for at in options for o in at), default=1)
        self.ways = [
            [_Way(o.units, o.kept, max(o.forward, o.backward), self.to_units(o.cost)) for o in at]
            for at in options
        ]
        self.ceiling = sum(way.kept + way.need for at in self.ways for way in at)  # no peak is higher

    def no_fronts(self) -> list[_Front]:
        """Empty fronts, and that behind the last unit: there, what was kept counts no more."""
        return [*(_Front([], [], []) for _ in self.ways), _Front([-self.ceiling], [0], [0])]

    def to_units(self, cost: float) -> int:
        numerator, denominator = float(cost).as_integer_ratio()
        return numerator * self.scale // denominator

    def distinct(self, front: _Front) -> list[int]:
        """The first index of each cost that is another as a float: of equal costs the least need."""
        costs = [cost / self.scale for cost in front.costs]
        return [index for index, cost in enumerate(costs) if not index or cost < costs[index - 1]]

    def plan(self, fronts: Sequence[_Front], index: int) -> Plan:
        """The plan with that index in the front of the first unit."""
        peak, cost = fronts[0].needs[index], fronts[0].costs[index] / self.scale
        chosen: list[Option] = []
        at = 0
        while at < len(self.options):
            number, index = divmod(fronts[at].steps[index], 1 << _INDEX)
            chosen.append(self.options[at][number])
            at += chosen[-1].units
        return Plan(tuple(chosen), peak, cost)


def _check(options: Options) -> None:
    """Raises ValueError with the position of a gap. A unit within a segment needs no options of its own."""
    reached = {0}
    for at, here in enumerate(options):
        if here and at not in reached:
            raise ValueError(f"unit {at} cannot be reached: no options from the first unit on end before it")
        if at in reached and not here:
            raise ValueError(f"unit {at} cannot be left: options end before it, but none begins there")
        reached.update(at + option.units for option in here)
    if max(reached) > len(options):
        raise ValueError(f"options go on to unit {max(reached) - 1}, the last is {len(options) - 1}")


def _joined(ways: Sequence[_Way], fronts: Sequence[_Front], at: int, room: int, grain: int) -> _Front:
    """The front of unit `at`, from those behind it, of needs up to `room`.

    A plan has to save more than `grain` over the next that needs less. Each unit so adds at most that to a cost.
    """
    found = _Front([], [], [])
    for number, way in enumerate(ways):
        if way.need <= room:
            rest = fronts[at + way.units]
            # where the option itself needs more, the cheapest of such rests, which is the last, will do
            begin = max(0, bisect_right(rest.needs, way.need - way.kept) - 1)
            end = bisect_right(rest.needs, room - way.kept)
            needs = [need + way.kept for need in rest.needs[begin:end]]
            found.needs.extend([max(way.need, need) for need in needs[:1]] + needs[1:])
            found.costs.extend([cost + way.cost for cost in rest.costs[begin:end]])
            found.steps.extend(range((number << _INDEX) + begin, (number << _INDEX) + end))
    return _undominated(found, grain)


def _undominated(candidates: _Front, grain: int) -> _Front:
    """Those that cost less, by more than `grain`, than every other that needs no more."""
    needs, costs = candidates.needs, candidates.costs
    indices: list[int] = []
    below = max(costs, default=0) + 1
    for index in sorted(range(len(needs)), key=needs.__getitem__):
        if costs[index] < below:
            below = costs[index] - grain
            if indices and needs[indices[-1]] == needs[index]:
                indices.pop()
            indices.append(index)
    return candidates.only(indices)


class _Bounds:
    """What the units before one must at least keep and cost, within a budget.

    For a price of a byte, `lines[at]` has what cost + price * kept is at least, of all plans for the units before
    `at` within the budget. A rest leaves these budget - need bytes, so that they cost line - price * that or more.
    Any price gives a valid bound, and as all numbers are whole, nothing is lost to rounding.
    """

    def __init__(self, problem: _Problem, budget: int):
        self.budget = budget
        self.prices = _prices(problem)
        self.least: list[int | None] = [0, *(None for _ in problem.ways)]  # bytes kept; None: over the budget
        self.lines: list[list[int]] = [[0] * len(self.prices), *([] for _ in problem.ways)]
        for at, ways in enumerate(problem.ways):
            for way in ways:
                before = self.least[at]
                if before is not None and before + way.need <= budget:
                    self._extend(at, way, before)

    def _extend(self, at: int, way: _Way, before: int) -> None:
        """Adds an option. Plans that leave room for it keep at most s = budget - need, which raises their lines:

        for prices p > q, cost + q * kept = cost + p * kept - (p - q) * kept >= line(p) - (p - q) * s. Prices fall.
        """
        behind = at + way.units
        low, above = self.lines[at][0], self.prices[0]
        lines = []
        for line, price in zip(self.lines[at], self.prices, strict=True):
            low, above = max(line, low - (above - price) * (self.budget - way.need)), price
            lines.append(low + way.cost + price * way.kept)
        least, there = self.least[behind], self.lines[behind]
        self.least[behind] = before + way.kept if least is None else min(least, before + way.kept)
        self.lines[behind] = [min(pair) for pair in zip(lines, there, strict=True)] if there else lines

    def totals(self, at: int, front: _Front) -> list[int]:
        """For every rest in the front of a unit: less than this no plan with it costs."""
        prices, lines = self.prices, self.lines[at]
        totals = []
        number = len(prices) - 1
        for need, cost in zip(front.needs, front.costs, strict=True):
            room = self.budget - need
            bound = lines[number] - prices[number] * room
            while number and (steeper := lines[number - 1] - prices[number - 1] * room) > bound:
                bound, number = steeper, number - 1  # less room: a higher price, and so on for the needs behind
            totals.append(cost + bound)
        return totals


def _prices(problem: _Problem) -> list[int]:
    """Prices of a byte that the options themselves suggest, falling to 0."""
    prices = sorted(
        (dear.cost - cheap.cost) // (cheap.kept - dear.kept)
        for ways in problem.ways
        for cheap in ways
        for dear in ways
        if cheap.kept > dear.kept and cheap.cost < dear.cost
    )
    some = {prices[len(prices) * i // _SLOPES] for i in range(_SLOPES) if prices}
    return sorted({0, *some, *prices[-1:]}, reverse=True)


def _search(
    problem: _Problem, bounds: _Bounds, limit: int | None, width: int | None, grain: int
) -> tuple[list[_Front], bool]:
    """Fronts without the rests that no plan within the budget and of a cost up to `limit` has.

    With a `width`, only as many of each as promise the least total: then the cheapest plan may be missing, but
    without a limit there is one, since every rest that is kept can be completed. Also whether none is missing.
    """
    fronts = problem.no_fronts()
    all_kept = True
    for at, (ways, before) in reversed(list(enumerate(zip(problem.ways, bounds.least, strict=False)))):
        if before is None:
            continue
        joined = _joined(ways, fronts, at, bounds.budget - before, grain)
        totals = bounds.totals(at, joined)
        indices = [index for index, total in enumerate(totals) if limit is None or total <= limit]
        if width is not None and len(indices) > width:
            all_kept = False
            indices = sorted(sorted(indices, key=totals.__getitem__)[:width])
        fronts[at] = joined.only(indices)
    return fronts, all_kept
