import math

import torch

from hires.ops.differences import largest_difference


def test_the_largest_and_where_it_is():
    ones = {"a": torch.ones(3), "b": torch.ones(2, 2), "none": torch.ones(0)}
    other = {**ones, "a": torch.tensor([1, 1.5, 1]), "b": torch.tensor([[1, 1], [1, -2.0]])}
    assert largest_difference(ones, ones) == (0.0, None)
    assert largest_difference(ones, other) == (3.0, "b")


def test_small_differences_of_other_types_are_seen():
    count = {"n": torch.tensor(2**53)}
    assert largest_difference(count, {"n": torch.tensor(2**53 - 1)}) == (1.0, "n")
    third = torch.tensor([1 / 3])
    assert largest_difference({"x": third}, {"x": third.bfloat16()}) == (
        abs(float(third) - float(third.bfloat16())),
        "x",
    )


def test_what_is_no_number_differs_most():
    difference = largest_difference(
        {"a": torch.zeros(1), "b": torch.zeros(2)}, {"a": torch.ones(1), "b": torch.tensor([0, math.nan])}
    )
    assert difference is not None
    assert math.isnan(difference.value)
    assert difference.name == "b"


def test_other_names_or_shapes_are_not_compared():
    one = {"a": torch.zeros(2)}
    assert largest_difference(one, {"b": torch.zeros(2)}) is None
    assert largest_difference(one, {"a": torch.zeros(1)}) is None
    assert largest_difference(one, {}) is None
