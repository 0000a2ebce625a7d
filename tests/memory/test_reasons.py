"""Why a plan is as it is."""

from hires.memory.allocator_settings import MIB
from hires.memory.predictions import Shape
from hires.memory.reasons import why
from hires.memory.search import Found

SHAPES = [Shape(micro, 64, 96) for micro in (1, 2, 4)]


def found(shape, reserved, cost=0.0):
    return Found(shape, "full", reserved * MIB // 2, reserved * MIB, cost, 1.0)


def test_what_was_chosen_and_what_the_next_would_need():
    chosen = found(SHAPES[1], 90, 0.254)
    tried = [found(SHAPES[0], 50), chosen, found(SHAPES[2], 140), found(SHAPES[2], 120)]
    assert list(why(chosen, None, tried, SHAPES, 100 * MIB, MIB)) == [
        "A micro-batch of 2 at 64 x 96 is predicted to reserve 90.0 MiB of 100.0 MiB, and computes 25% of a step "
        "again (estimated).",
        "The next, a micro-batch of 4 at 64 x 96, is predicted to reserve 120.0 MiB at least.",
    ]


def test_the_last_and_the_only():
    chosen = found(SHAPES[2], 90)
    first, second = why(chosen, None, [chosen], SHAPES, 100 * MIB, MIB)
    assert first.endswith("of 100.0 MiB, and computes nothing again (estimated).")
    assert second == "Nothing larger is asked for."
    assert list(why(chosen, None, [chosen], SHAPES[2:], 100 * MIB, MIB))[1:] == ["Its shape was given."]


def test_what_was_not_tried_is_not_told():
    chosen = found(SHAPES[0], 90)
    assert len(list(why(chosen, None, [chosen], SHAPES, 100 * MIB, MIB))) == 1


def test_what_was_measured_goes_before_what_was_predicted():
    first, *_ = why(found(SHAPES[0], 105), 95 * MIB, [], SHAPES, 100 * MIB, MIB)
    assert first.startswith("A micro-batch of 1 at 64 x 96 reserves 95.0 MiB of 100.0 MiB")
