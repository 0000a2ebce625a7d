"""Settings check every field and say what is allowed."""

import pickle
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from hires.settings import Bounds, SettingError, Settings


@dataclass(frozen=True)
class Example(Settings):
    steps: Annotated[int, Bounds(1)] | None = None
    share: Annotated[float, Bounds(0, 1)] = 0.5
    name: str = "a"
    kind: Literal["x", "y"] = "x"
    flag: bool = False
    size: int | tuple[int, int] = 4
    names: tuple[str, ...] = ()
    table: dict[str, int | tuple[int, ...]] | None = None
    free: Any = None


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("steps", None, None),
        ("share", 1, 1.0),
        ("size", [3, 4], (3, 4)),
        ("names", ["a", "b"], ("a", "b")),
        ("table", {"a": 1, "b": [2, 3]}, {"a": 1, "b": (2, 3)}),
        ("free", object, object),
    ],
)
def test_values_that_fit(field, given, kept):
    assert getattr(Example(**{field: given}), field) == kept


@pytest.mark.parametrize(
    ("field", "given", "allowed"),
    [
        ("steps", 0, "a whole number >= 1 or null"),
        ("steps", 1.5, "a whole number"),
        ("steps", True, "a whole number"),
        ("share", 1.1, "a number from 0 to 1"),
        ("share", "abc", "a number"),
        ("name", 3, "text"),
        ("kind", "z", "x, y"),
        ("flag", 1, "true or false"),
        ("size", [1, 2, 3], r"a whole number or \[a whole number, a whole number\]"),
        ("names", "a", "a list, each text"),
        ("table", {"a": "b"}, "a mapping from text to"),
    ],
)
def test_values_that_do_not_fit(field, given, allowed):
    with pytest.raises(SettingError, match=f"{field}: got .*, allowed: .*{allowed}"):
        Example(**{field: given})


def test_error_survives_a_process_boundary():
    with pytest.raises(SettingError) as error:
        Example(steps=0)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
