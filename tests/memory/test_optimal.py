"""The planner against every plan there is, where these can be counted, and against itself where not."""

import itertools
import random
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hires.memory import optimal
from hires.memory.optimal import Option, Options, Plan, cheapest, front, smallest

MIB = 2**20
CUTS = [0, 6, 15, 45, 60]  # first units of four stages, and the end
exhaustive = settings(max_examples=200, deadline=None, derandomize=True)


def option(kept=0, need=0, cost=0.0, units=1, name="o", backward=None) -> Option:
    return Option(name, units, kept, need, need if backward is None else backward, cost)


def every(options: Options, at=0, kept=0, peak=0, cost=0.0) -> Iterator[tuple[int, float]]:
    """Peak and cost of all plans, straight from the definition."""
    if at == len(options):
        yield peak, cost
        return
    for o in options[at]:
        now = max(peak, kept + o.forward, kept + o.backward)
        yield from every(options, at + o.units, kept + o.kept, now, cost + o.cost)


def measured(plan: Plan) -> tuple[int, float]:
    """Its peak and cost, when its options alone are given."""
    lanes: list[list[Option]] = [[] for o in plan.options for _ in range(o.units)]
    at = 0
    for o in plan.options:
        lanes[at].append(o)
        at += o.units
    (result,) = every(lanes)
    return result


def values(plan: Plan | None) -> tuple[int, float] | None:
    return None if plan is None else (plan.peak, plan.cost)


def belongs(plan: Plan, options: Options) -> bool:
    starts = itertools.accumulate((o.units for o in plan.options), initial=0)
    return all(o in options[at] for at, o in zip(starts, plan.options, strict=False))


def undominated(plans: list[tuple[int, float]]) -> list[tuple[int, float]]:
    best: list[tuple[int, float]] = []
    for peak, cost in sorted(plans):
        if not best or cost < best[-1][1]:
            best.append((peak, cost))
    return best


def drawn(rng: random.Random, units: int, choices: int, segments: bool) -> Options:
    """Costs are multiples of 1/8, so that sums of floats are exact; small ranges make ties."""
    most, dearest = rng.choice([3, 10, 2**33]), rng.choice([2, 20, 2**20])

    def one(length: int) -> Option:
        kept, forward, backward = (rng.randint(0, most * scale) for scale in (1, rng.choice([1, 4]), 4))
        return Option(f"{length}", length, kept, forward, backward, rng.randint(0, dearest) / 8)

    return [
        [one(1) for _ in range(choices)]
        + [one(k) for k in (2, 3, units) if segments and k <= units - at and rng.random() < 0.6]
        for at in range(units)
    ]


def check_against_every_plan(options: Options, rng: random.Random) -> None:
    plans = list(every(options))
    best = undominated(plans)
    found = front(options)
    assert [values(plan) for plan in found] == best
    assert all(measured(plan) == values(plan) and belongs(plan, options) for plan in found)
    assert values(smallest(options)) == best[0]
    assert cheapest(options, best[0][0] - 1) is None
    some = rng.sample(best, min(4, len(best))) + rng.sample(plans, min(4, len(plans)))
    for budget in [peak + more for peak, _ in [*some, best[-1]] for more in (0, 1, -1)]:
        plan = cheapest(options, budget)
        within = [(cost, -peak) for peak, cost in best if peak <= budget]
        assert values(plan) == ((-min(within)[1], min(within)[0]) if within else None)
        assert plan is None or (measured(plan) == values(plan) and belongs(plan, options))


@exhaustive
@given(st.randoms(use_true_random=False), st.integers(1, 6), st.integers(1, 3), st.booleans())
def test_small_problems(rng, units, choices, segments):
    check_against_every_plan(drawn(rng, units, choices, segments), rng)


@exhaustive
@given(
    st.randoms(use_true_random=False), st.integers(1, 6), st.integers(1, 3), st.sampled_from([(1,), (1, 2), (3,)])
)
def test_small_problems_in_narrow_searches(rng, units, choices, widths):
    """So narrow that the first plan found is often not the best, and bounds have to exclude the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimal, "_WIDTHS", widths)
        patch.setattr(optimal, "_SLOPES", rng.choice([1, 3, 32]))
        check_against_every_plan(drawn(rng, units, choices, True), rng)


@pytest.mark.parametrize(
    ("units", "choices", "segments", "problems"),
    [(14, 2, False, 12), (9, 4, False, 3), (9, 2, True, 20), (8, 3, True, 4)],
)
def test_larger_problems(units, choices, segments, problems):
    for seed in range(problems):
        rng = random.Random(seed)
        check_against_every_plan(drawn(rng, units, choices, segments), rng)


def network(seed: int, *, alike: bool = False) -> Options:
    """60 blocks in four stages, with the policies and the sizes of a real network; or of equal blocks."""
    rng = random.Random(seed)

    def about(value: float) -> float:
        return value if alike else value * rng.uniform(0.7, 1.3)

    stages = [next(s for s in range(4) if at < CUTS[s + 1]) for at in range(60)]
    whole = [int(about(2**31 / 2**stage)) for stage in stages]
    inputs = [int(about(2**28 / 2**stage)) for stage in stages]
    times = [about(0.01) for _ in stages]
    options: list[list[Option]] = []
    for at, stage in enumerate(stages):
        keep, begin, work = whole[at], inputs[at], int(about(2**28))
        here = [
            Option("none", 1, keep, keep + work, keep + work + begin, 0.0),
            Option("selective", 1, keep // 2, keep + work, keep + work + begin, times[at] * 0.2),
            Option("full", 1, begin, begin + keep // 2, keep + work + 2 * begin, times[at]),
            Option("offload", 1, begin // 3, keep + work, keep + work + begin, times[at] * about(1.5)),
        ]
        end = CUTS[stage + 1]
        for name, k in [("full@2", 2), ("full@3", 3), *[("full@stage", end - at)] * (at in CUTS)]:
            if at + k <= end:
                recomputed, spent = sum(whole[at : at + k]), sum(times[at : at + k])
                here.append(Option(name, k, begin, begin + keep // 2, recomputed + work + begin, spent))
        options.append(here)
    return options


@pytest.mark.parametrize("options", [network(0), network(1, alike=True)], ids=["different", "alike"])
def test_front_of_a_network(options):
    began = time.process_time()
    plans = front(options)
    assert time.process_time() - began < 5
    assert len(plans) > 100
    for before, plan in itertools.pairwise(plans):
        assert before.peak < plan.peak
        assert before.cost > plan.cost
    assert values(plans[0]) == values(smallest(options))
    assert values(plans[-1]) == values(cheapest(options, 2**60))
    assert plans[-1].policies() == ["none"] * 60
    assert all(measured(plan) == (plan.peak, pytest.approx(plan.cost)) for plan in plans[::100])


@pytest.mark.parametrize("options", [network(2), network(3, alike=True)], ids=["different", "alike"])
def test_cheapest_of_a_network_within_rising_budgets(options):
    """The front comes without budgets, bounds and narrow searches."""
    plans = front(options)
    costs = []
    began = time.process_time()
    for step in range(-1, 41):
        budget = plans[0].peak + (plans[-1].peak - plans[0].peak) * step // 40
        plan = cheapest(options, budget)
        fitting = [plan for plan in plans if plan.peak <= budget]
        assert values(plan) == (values(fitting[-1]) if fitting else None)
        costs.append(plan.cost if plan else float("inf"))
    assert time.process_time() - began < 42 * 0.2
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == float("inf")


def test_never_worse_than_a_policy_for_each_stage():
    options = network(4)
    least = smallest(options).peak
    some = list(itertools.product(["none", "selective", "full", "full@stage"], repeat=4))
    for names in random.Random(0).sample(some, 64):
        chosen: list[list[Option]] = [[] for _ in options]
        for (begin, end), name in zip(itertools.pairwise(CUTS), names, strict=True):
            for at in [begin] if name == "full@stage" else range(begin, end):
                chosen[at] = [o for o in options[at] if o.name == name]
        ((peak, cost),) = every(chosen)
        plan = cheapest(options, peak)
        assert plan is not None
        assert plan.peak <= peak
        assert plan.cost <= cost + 1e-12
        assert least <= peak


def test_policies_are_named_unit_by_unit():
    plan = cheapest([[option(name="none")], [option(units=2, name="full@2")], [], [option(name="full")]], 0)
    assert plan is not None
    assert plan.policies() == ["none", "full@2", "full@2", "full"]


def test_backward_may_be_what_decides():
    options = [[option(kept=5 * MIB, need=6 * MIB, backward=9 * MIB)], [option(need=1, backward=3 * MIB)]]
    assert smallest(options).peak == 9 * MIB
    assert smallest([options[0], [option(backward=4 * MIB + 1)]]).peak == 9 * MIB + 1


def test_of_equal_costs_the_least_peak_in_any_order_of_the_sum():
    """As floats, (0.1 + 0.2) + 0.3 is more than (0.3 + 0.2) + 0.1; to the planner neither is."""
    options = [
        [option(cost=0.1, kept=10), option(cost=0.3)],
        [option(cost=0.2)],
        [option(cost=0.3, need=2), option(cost=0.1, need=10)],
    ]
    assert values(cheapest(options, 15)) == (10, pytest.approx(0.6))
    assert [plan.peak for plan in front(options)] == [2, 10, 20]


@pytest.mark.parametrize("widths", [(1,), (64,)])
def test_a_difference_lost_in_the_sum_is_none(widths, monkeypatch):
    """1 + 2^-60 is 1 as a float: the plans cost the same, and the lower peak decides."""
    monkeypatch.setattr(optimal, "_WIDTHS", widths)
    options = [[option(cost=1.0)], [option(cost=0.0, need=8), option(cost=2.0**-60, need=4)]]
    assert values(cheapest(options, 10)) == (4, 1.0)
    assert [values(plan) for plan in front(options)] == [(4, 1.0)]


def proportional(seed: int) -> Options:
    """Costs proportional to bytes, and no two blocks of a size: exact answers would take for ever."""
    rng = random.Random(seed)
    sizes = [4 * rng.randrange(2**24, 2**25) for _ in range(60)]
    return [[option(size, size, 0.0, name="none"), option(0, size, size / 2e10, name="offload")] for size in sizes]


def test_slack_makes_problems_of_sums_easy():
    options = proportional(0)
    highest = sum(here[0].kept for here in options)
    began = time.process_time()
    for share in (4, 2):
        plan = cheapest(options, highest // share, slack=1e-3)
        assert plan is not None
        assert plan.peak <= highest // share
        least = (highest - highest // share) / 2e10  # the bytes over the budget have to go
        assert least - 1e-9 <= plan.cost <= least + 1e-3 + 2**25 * 4 / 2e10
    assert len(front(options, slack=0.02)) < 1000
    assert time.process_time() - began < 5


@exhaustive
@given(st.randoms(use_true_random=False), st.floats(0, 2))
def test_slack_is_kept(rng, slack):
    options = drawn(rng, 6, 3, True)
    exact, some = front(options), front(options, slack=slack)
    assert some[0].peak == exact[0].peak
    for plan in exact:
        assert any(other.peak <= plan.peak and other.cost <= plan.cost + slack for other in some)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(optimal, "_WIDTHS", (1,))  # a first plan that is bad enough for the slack to matter
            near = cheapest(options, plan.peak, slack=slack)
        assert near is not None
        assert near.peak <= plan.peak
        assert near.cost <= plan.cost + slack


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([[option()], [], [option()]], "unit 1 cannot be left"),
        ([[option(units=2)], [option()], [option()]], "unit 1 cannot be reached"),
        ([[option(), option(units=2)], [], [option()]], "unit 1 cannot be left"),
        ([[]], "unit 0 cannot be left"),
        ([[option()], [option(units=2)]], "options go on to unit 2, the last is 1"),
    ],
)
@pytest.mark.parametrize("ask", [smallest, front, lambda options: cheapest(options, 10)])
def test_gaps(ask, options, message):
    with pytest.raises(ValueError, match=message):
        ask(options)


@pytest.mark.parametrize(
    "wrong", [{"units": 0}, {"kept": -1}, {"need": -1}, {"cost": -0.5}, {"cost": float("nan")}, {"cost": 1e999}]
)
def test_options_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match="option o"):
        option(**wrong)


def test_no_units():
    assert values(cheapest([], 0)) == (0, 0.0)
    assert front([]) == [smallest([])] == [Plan((), 0, 0.0)]
