"""The values of an entry of a COCO file. Each raises ValueError that says what is wrong with which key."""

import math
import re
from collections.abc import Mapping
from typing import Any

from hires.data.label_json import check_near, shown

_HIGHEST = 2**63 - 1
_DIGITS = re.compile(r"-?\d{1,30}")


def whole_number(given: Mapping[str, Any], key: str) -> int:
    """An id or a length: a whole number of 64 bits; 3.0 and "3" are taken for 3."""
    value = number = _value(given, key)
    if (isinstance(value, str) and _DIGITS.fullmatch(value)) or (isinstance(value, float) and value.is_integer()):
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"has {key} {shown(value)}, which is no whole number")
    if not -_HIGHEST - 1 <= number <= _HIGHEST:
        raise ValueError(f"has {key} {shown(value)}, which does not fit into 64 bits; number anew")
    return number


def text(given: Mapping[str, Any], key: str) -> str:
    """A name; a number is taken for its digits."""
    value = _value(given, key)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"has {key} {shown(value)}, which is no text")
    try:
        str(value).encode()
    except ValueError:  # half of a pair of surrogates, or more digits than Python writes
        raise ValueError(f"has a {key} that cannot be written as text") from None
    return str(value)


def corners(given: Mapping[str, Any]) -> tuple[float, float, float, float]:
    """x1 y1 x2 y2 of `bbox`, pixels."""
    value = _value(given, "bbox")
    numbers = [_number(part) for part in value] if isinstance(value, list) else []
    if len(numbers) != 4 or not all(map(math.isfinite, numbers)):
        raise ValueError(f"has bbox {shown(value)}, expected [x, y, width, height], four finite numbers")
    if not check_near(numbers):
        raise ValueError(f"has bbox {shown(value)}, which is far outside of any image")
    x, y, width, height = numbers
    return x, y, x + width, y + height


def area(given: Mapping[str, Any]) -> float:
    """`area`, pixels; NaN where there is none."""
    value = given.get("area")
    if value is None:
        return math.nan
    if not 0 <= _number(value) < math.inf:
        raise ValueError(f"has area {shown(value)}, expected a number of pixels from 0")
    return _number(value)


def crowd(given: Mapping[str, Any]) -> bool:
    """`iscrowd`, 0 or 1; 0 where it is not given."""
    value = given.get("iscrowd", 0)
    if value not in (0, 1, "0", "1"):
        raise ValueError(f"has iscrowd {shown(value)}, expected 0 or 1")
    return value in (1, "1")


def _value(given: Mapping[str, Any], key: str) -> Any:
    if key not in given:
        raise ValueError(f"has no {key!r}")
    return given[key]


def _number(value: Any) -> float:
    """A number as a float, NaN for anything else."""
    try:
        return float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        return math.nan
