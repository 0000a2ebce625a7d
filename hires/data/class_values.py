"""The values of a class table: numbers in a mask, colours, or either only in files below a folder."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hires.interfaces import IGNORE
from hires.ops.labels import MOST_LABELS
from hires.settings import SettingError

HIGHEST = 2**16 - 1
Given = int | str | tuple[int, int, int]
"""A value as settings give it: 3, "#3C1098", (60, 16, 152), "FOLDER/3" or "FOLDER/#3C1098"."""

_FORMS = 'a mask value (3), a colour ("#3C1098", or [60, 16, 152] within a list), or FOLDER/VALUE'
_TEXT = re.compile(r"(?:([^/]+)/)?(?:#([0-9A-Fa-f]{6})|(\d{1,9}))")


class Value(NamedTuple):
    """What a mask's pixel is, in the files below `folder` or, without one, in all."""

    number: int  # the value, or the colour as 0xRRGGBB
    is_colour: bool = False
    folder: str = ""

    def __str__(self) -> str:
        shown = colour_text(self.number) if self.is_colour else str(self.number)
        return f"{self.folder}/{shown}" if self.folder else shown


def colour_text(code: int) -> str:
    """A colour 0xRRGGBB for a message."""
    return f"#{code:06X} ({code >> 16}, {code >> 8 & 255}, {code & 255})"


class ClassValues:
    """The checked values of a class table, by class, and those that are ignored or belong to no class.

    Raises SettingError for a table that is empty, too long, mixes numbers with colours, or gives a value two
    meanings; with `multilabel` a value may stand in several classes.
    """

    def __init__(
        self,
        classes: Mapping[str, Given | Sequence[Given]],
        ignored: Sequence[Given],
        background: Sequence[Given] | None = None,
        multilabel: bool = False,
    ):
        most = MOST_LABELS if multilabel else IGNORE
        if not 1 <= len(classes) <= most:
            allowed = f"1 to {most} classes" + (" with multilabel" if multilabel else "")
            raise SettingError("classes", f"{len(classes)} classes", allowed)
        if background is not None and not multilabel:
            raise SettingError("background_values", list(background), "null, unless multilabel is true")
        self.multilabel = multilabel
        self.classes = {name: _class_values(name, given) for name, given in classes.items()}
        self.ignored = [_parsed(given, "ignore_values") for given in ignored]
        self.is_colour = next(iter(self.classes.values()))[0].is_colour
        self.background = self._background(background)
        self._check_kinds()
        self._check_meanings()

    def folders(self) -> frozenset[str]:
        """The folders that values are bound to."""
        listed = [*self.classes.values(), self.ignored, self.background]
        return frozenset(value.folder for several in listed for value in several if value.folder)

    def _background(self, given: Sequence[Given] | None) -> list[Value]:
        if given is not None:
            return [_parsed(value, "background_values") for value in given]
        usual = Value(0, self.is_colour)
        taken = {value for several in self.classes.values() for value in several} | set(self.ignored)
        return [usual] if self.multilabel and usual not in taken else []

    def _check_kinds(self) -> None:
        lists = {f"classes.{name}": several for name, several in self.classes.items()}
        lists |= {"ignore_values": self.ignored, "background_values": self.background}
        kind = "colours" if self.is_colour else "mask values"
        for field, value in ((field, value) for field, several in lists.items() for value in several):
            if value.is_colour != self.is_colour:
                allowed = f'{kind}, as the first class has; a colour is "#3C1098", or [60, 16, 152] within a list'
                raise SettingError(field, str(value), allowed)

    def _check_meanings(self) -> None:
        seen = dict.fromkeys(self.ignored, "ignore_values")
        for value in self.background:
            _check_unused(value, "background_values", seen)
        seen |= dict.fromkeys(self.background, "background_values")
        for name, several in self.classes.items():
            here = dict(seen)
            for value in several:
                _check_unused(value, f"classes.{name}", here)
                here[value] = name
            seen = seen if self.multilabel else here


def _check_unused(value: Value, field: str, seen: Mapping[Value, str]) -> None:
    if value in seen:
        given = str(value) if value.is_colour or value.folder else value.number
        raise SettingError(field, given, f"a value used once; it is already in {seen[value]}")


def _class_values(name: str, given: Given | Sequence[Given]) -> list[Value]:
    # settings cannot tell [60, 16, 152] from a list of three values: a colour is a list within a list
    several = [given] if isinstance(given, (int, str)) else list(given)
    if not several:
        raise SettingError(f"classes.{name}", [], "at least one mask value")
    return [_parsed(value, f"classes.{name}") for value in several]


def _parsed(given: Any, field: str) -> Value:
    value = _from_text(given, field) if isinstance(given, str) else _from_numbers(given, field)
    if not value.is_colour and not 0 <= value.number <= HIGHEST:
        raise SettingError(field, given, f"mask values from 0 to {HIGHEST}")
    return value


def _from_numbers(given: int | Sequence[int], field: str) -> Value:
    if isinstance(given, int):
        return Value(given)
    if len(given) != 3 or not all(0 <= part <= 255 for part in given):
        raise SettingError(field, list(given), "red, green and blue, each from 0 to 255")
    red, green, blue = given
    return Value(red << 16 | green << 8 | blue, is_colour=True)


def _from_text(given: str, field: str) -> Value:
    match = _TEXT.fullmatch(given)
    if match is None or (match[1] is None and match[2] is None):
        table, _, name = field.partition(".")
        raise SettingError(table, {name: given} if name else given, _FORMS)
    folder, colour, number = match.groups()
    return Value(int(colour, 16) if colour else int(number), bool(colour), folder or "")
