"""The largest and the fastest step within a budget, of trainings that are made up, against trying all."""

import random

import pytest

from hires.memory.predictions import Shape
from hires.memory.search import Search
from hires.memory.shapes import micro_batches, shapes, sizes
from tests.made_up import CHOICES, MadeUp, exact

SHAPES = {
    "batch": [Shape(micro, 512, 512) for micro in micro_batches(64, 1, growing=False)],
    "growing batch": [Shape(micro, 256, 256) for micro in micro_batches(8, 2, growing=True)],
    "resolution": shapes([2], sizes((1, 1), 32, (4000, 6000))),
    "wide": shapes([1], sizes((512, 1024), 32, (0, 0))),
}
MOST = {"exact": 9, "steps": 22, "growth": 24, "noise": 24}
"""Steps that are simulated, at most: six to learn from, up to four for the policies, and the search between.

As seen in 240 searches each; whatever estimates are worth, it ends by halving.
"""


def steps(seed):
    """Needs that grow in three steps from 0.8 to 1.2 times of what pixels say."""
    draw = random.Random(seed)
    edges = [10 ** draw.uniform(4.5, 8) for _ in range(3)]
    return lambda shape: 0.8 + 0.4 * sum(shape.pixels >= edge for edge in edges) / 3


def growth(seed):
    """Needs that grow with a power of the pixels."""
    power = random.Random(seed).uniform(-0.2, 0.2)
    return lambda shape: (shape.pixels / 512**2) ** power


def noise(seed):
    """Needs that are off by up to 20 %, of every shape by another share."""
    return lambda shape: random.Random(seed + hash(shape)).uniform(0.8, 1.2)


OFF = {"exact": lambda seed: exact, "steps": steps, "growth": growth, "noise": noise}


def search(made, *choices):
    return Search(made.units, {name: name for name in choices or CHOICES}, made.profile, "cpu")


def room_for(made, among, seed):
    """Bytes that some of the shapes fit into."""
    draw = random.Random(seed)
    return round(made.least(draw.choice(among[: len(among) * 2 // 3])) * draw.uniform(1, 1.5))


@pytest.mark.parametrize("off", OFF)
@pytest.mark.parametrize("among", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_the_largest_is_that_of_trying_all(off, among, seed):
    made = MadeUp(seed, OFF[off](seed), units=3)
    room = room_for(made, among, seed)
    looking = search(made)
    made.calls = 0
    found = looking.largest(among, room)
    assert made.calls <= MOST[off]
    assert len(looking.tried) == made.calls
    assert found.reserved == made.profile(found.shape, found.policies).reserved <= room
    larger = among[among.index(found.shape) + 1 :]
    if off == "noise":  # further ones may fit again
        assert not larger or made.least(larger[0]) > room
    else:
        assert [shape for shape in [*larger[:3], *larger[10::40]] if made.least(shape) <= room] == []


@pytest.mark.parametrize("seed", range(10))
def test_its_policies_are_the_cheapest_that_fit(seed):
    made, among = MadeUp(seed), SHAPES["batch"]
    room = room_for(made, among, seed)
    found = search(made).largest(among, room)
    costs = []
    for mix in made.mixes():
        profile = made.profile(found.shape, mix)
        if profile.reserved <= room:
            costs.append(sum(profile.recomputed().values()))
    assert min(costs) <= found.cost <= min(costs) + 0.002


@pytest.mark.parametrize("off", OFF)
@pytest.mark.parametrize("seed", range(4))
def test_the_next_look_knows_what_the_first_has_learnt(off, seed):
    """As after a probe: other room, and the answer is still right."""
    made, among = MadeUp(seed, OFF[off](seed), units=3), SHAPES["resolution"]
    room = room_for(made, among, seed)
    looking = search(made)
    looking.largest(among, room)
    for share in (0.92, 1.1, 0.5, 1):
        made.calls = 0
        found = looking.largest(among, round(room * share))
        assert made.calls <= MOST[off]
        if found is not None:
            assert found.reserved <= room * share
            following = among[among.index(found.shape) + 1 :]
            assert not following or made.least(following[0]) > room * share


@pytest.mark.parametrize("goal", ["largest", "fastest"])
def test_no_room_for_any(goal):
    made, among = MadeUp(0), SHAPES["batch"]
    room = made.least(among[0]) - 1
    made.calls = 0
    looking = search(made)
    assert (looking.largest(among, room) if goal == "largest" else looking.fastest(among, 64, room)) is None
    assert made.calls <= 10
    assert min(each.reserved for each in looking.tried) == room + 1


def test_room_for_all():
    made, among = MadeUp(0), SHAPES["batch"]
    found = search(made).largest(among, 2**50)
    assert (found.shape, found.cost) == (among[-1], 0)
    assert set(found.policies.values()) == {"none"}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("policy", ["none", "full"])
def test_one_choice_only(seed, policy):
    made, among = MadeUp(seed, OFF["steps"](seed)), SHAPES["resolution"]
    room = made.profile(among[40], policy).reserved + 1
    made.calls = 0
    found = search(made, policy).largest(among, room)
    assert (found.shape, found.policies) == (among[40], policy)
    assert made.calls <= 9


def test_policies_that_were_given_are_the_only_choice():
    made, among = MadeUp(0), SHAPES["batch"]
    given = {"stage1.0": "full", "stage1.1": "none", "stage1.2": "selective", "stage1.3": "none"}
    looking = Search(made.units, {"none": given}, made.profile, "cpu")
    found = looking.largest(among, made.profile(among[3], given).reserved)
    assert (found.shape, found.policies) == (among[3], given)


@pytest.mark.parametrize("goal", ["largest", "fastest"])
def test_one_shape_only(goal):
    made, among = MadeUp(1), [Shape(2, 320, 640)]
    room = round(made.least(among[0]) * 1.2)
    looking = search(made)
    found = looking.largest(among, room) if goal == "largest" else looking.fastest(among, 4, room)
    assert found.shape == among[0]
    assert found.reserved <= room


def speed(made, shape, policies, batch_size):
    """Pixels in a unit of time, of the accumulated micro-batches and one update."""
    profile = made.profile(shape, policies)
    update = profile.compute("optimizer")
    work = profile.compute() - update
    again = sum(profile.recomputed().values()) * profile.compute()
    time = -(-batch_size // shape.micro_batch) * (work + again) + update
    return batch_size * shape.height * shape.width / time


FEW = {"batch": SHAPES["batch"], "image size too": shapes([1, 2, 4], sizes((1, 2), 32, (700, 1400))[3::4])}


@pytest.mark.parametrize("off", OFF)
@pytest.mark.parametrize("among", FEW.values(), ids=FEW)
@pytest.mark.parametrize("seed", range(3))
def test_the_fastest(off, among, seed):
    made = MadeUp(seed, OFF[off](seed), units=3)
    room = room_for(made, among, seed)
    made.calls = 0
    found = search(made).fastest(among, 64, room)
    calls = made.calls
    speeds = [
        speed(made, shape, mix, 64)
        for shape in among
        for mix in made.mixes()
        if made.profile(shape, mix).reserved <= room
    ]
    assert found.reserved == made.profile(found.shape, found.policies).reserved <= room
    assert speed(made, found.shape, found.policies, 64) >= (0.995 if off == "exact" else 0.9) * max(speeds)
    assert calls <= (8 if off == "exact" else 30)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_faster_than_to_keep_all_where_there_is_room(seed):
    found = search(MadeUp(seed)).fastest(SHAPES["batch"], 64, 2**50)
    assert found.cost == 0


@pytest.mark.parametrize("least_time", [0, 1e5])
@pytest.mark.parametrize("among", [SHAPES["batch"], [Shape(micro, 64, 64) for micro in (1, 2, 3, 4)]])
def test_of_what_is_as_fast_the_largest(among, least_time):
    made = MadeUp(0)
    made.least_time = least_time
    found = search(made).fastest(among, among[-1].micro_batch, 2**50)
    assert (found.shape, found.cost) == (among[-1], 0)
