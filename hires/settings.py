"""Settings: frozen dataclasses that check the type and bounds of every field when they are made."""

import math
import sys
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from hires.errors import ConfigError


class Bounds(NamedTuple):
    """Limits of a number, used as `Annotated[int, Bounds(1)]`; both ends are allowed."""

    low: float | None = None
    high: float | None = None

    def describe(self) -> str:
        if self.low is None or self.high is None:
            return f">= {self.low}" if self.high is None else f"<= {self.high}"
        return f"from {self.low} to {self.high}"

    def hold(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


class SettingError(ConfigError):
    """One field of a Settings class has a wrong value."""

    def __init__(self, field: str, given: Any, allowed: str):
        shown = "null" if given is None else repr(given)  # as files and command lines have it
        super().__init__(f"{field}: got {shown}, allowed: {allowed}")
        self.field, self.given, self.allowed = field, given, allowed

    def __reduce__(self) -> tuple[Any, ...]:  # the default would call __init__ with the message alone
        return type(self), (self.field, self.given, self.allowed)


@dataclass(frozen=True)
class Settings:
    """Base class: subclasses are frozen dataclasses whose annotations are checked at construction.

    Raises SettingError that names the field, what was given and what is allowed. Whole numbers are
    taken for floats and lists for tuples.
    """

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for field in fields(self):
            value = getattr(self, field.name)
            try:
                object.__setattr__(self, field.name, checked(value, hints[field.name]))
            except ValueError:
                raise SettingError(field.name, value, describe(hints[field.name])) from None


def checked(value: Any, hint: Any) -> Any:
    """The value as the annotation wants it. Raises ValueError when it does not fit."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is Annotated:
        value = checked(value, args[0])
        if value is not None and not all(bounds.hold(value) for bounds in args[1:]):
            raise ValueError
        return value
    if origin in (Union, UnionType):
        return _first_that_fits(value, args)
    if origin is Literal:
        if any(value == a and type(value) is type(a) for a in args):
            return value
        raise ValueError
    if origin is tuple:
        return _checked_tuple(value, args)
    if origin is dict:
        if not isinstance(value, dict):
            raise ValueError
        return {checked(k, args[0]): checked(v, args[1]) for k, v in value.items()}
    return _checked_scalar(value, hint)


def _first_that_fits(value: Any, hints: tuple[Any, ...]) -> Any:
    for hint in hints:
        try:
            return checked(value, hint)
        except ValueError:
            continue
    raise ValueError


def _checked_tuple(value: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(checked(v, args[0]) for v in value)
    if len(args) != len(value):
        raise ValueError
    return tuple(checked(v, a) for v, a in zip(value, args, strict=True))


def _checked_scalar(value: Any, kind: type) -> Any:
    if kind is float and type(value) is int:
        value = float(value) if abs(value) <= sys.float_info.max else math.inf
    if kind is float and type(value) is float and not math.isfinite(value):
        raise ValueError
    if kind in (int, float, str, bool):
        if type(value) is not kind:
            raise ValueError
        return value
    if not isinstance(value, kind):
        raise ValueError
    return value


_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "null"}


def describe(hint: Any) -> str:
    """What an annotation allows, in words for an error message."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return f"{describe(args[0])} {' '.join(bounds.describe() for bounds in args[1:])}"
    if origin in (Union, UnionType):
        return " or ".join(describe(a) for a in args)
    if origin is Literal:
        return ", ".join(str(a) for a in args)
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return f"a list, each {describe(args[0])}"
        return f"[{', '.join(describe(a) for a in args)}]"
    if origin is dict:
        return f"a mapping from {describe(args[0])} to {describe(args[1])}"
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))
