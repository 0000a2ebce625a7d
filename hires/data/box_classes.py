"""Which class of an annotation file is which class of the task."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from hires.data.box_objects import Objects
from hires.interfaces import IGNORE, DataError
from hires.ops.printable import printable
from hires.settings import SettingError

Given = int | str
Table = tuple[str, ...] | dict[str, Given | tuple[Given, ...]]
"""Names of classes; or name -> what it is called in the files, its number there, or several of those."""


class Vocabulary(NamedTuple):
    """The classes that annotation files know: their numbers in `Objects.classes`, and names."""

    names: dict[int, str]
    numbered: bool = True  # the numbers are those of the files, not ours
    complete: bool = True  # the files declare all their classes

    @classmethod
    def of_names(cls, names: Iterable[str]) -> "Vocabulary":
        """That of files which call classes by these names as they occur; numbers follow the order given."""
        return cls(dict(enumerate(names)), numbered=False, complete=False)


class BoxClasses:
    """Class indices for what files call the classes; without a table as they do, in order of the numbers.

    `names`, and `ids` of the classes in the files (of several the first; from 1 in files that number none).
    `ignored` lists what files call the classes whose objects count neither way. Raises SettingError for classes
    that are not there or stand in two entries.
    """

    def __init__(self, vocabulary: Vocabulary, table: Table | None, ignored: Sequence[Given] = ()):
        self._vocabulary = vocabulary
        self._ignored = {n for key in ignored for n in self._matching("data.ignore_classes", key, "")}
        entries = _entries(vocabulary, table, self._ignored)
        if not 1 <= len(entries) <= IGNORE:
            raise SettingError("data.classes", f"{len(entries)} classes", f"1 to {IGNORE} classes")
        self.names = tuple(entries)
        for name in self.names:
            # logs and tables have a line for each
            if name.splitlines() != [name] or not _is_encodable(name) or printable(name) != name:
                allowed = "names of one line; rename it in the files, or list it as NAME: what the files call it"
                raise SettingError("data.classes", name, allowed)
        numbers = {name: self._numbers(name, keys) for name, keys in entries.items()}
        self._indices: dict[int, int] = dict.fromkeys(self._ignored, -1)
        for index, (name, several) in enumerate(numbers.items()):
            for number in several:
                if number in self._indices:
                    at = self._indices[number]
                    other = "data.ignore_classes" if at < 0 else self.names[at]
                    raise SettingError(f"data.classes.{name}", self._called(number), f"what is not yet in {other}")
                self._indices[number] = index
        firsts = [several[0] if several else 0 for several in numbers.values()]
        self.ids = tuple(firsts) if vocabulary.numbered else tuple(range(1, len(firsts) + 1))

    def indexed(self, objects: Objects, unlisted: str, places: Sequence[str]) -> np.ndarray:
        """Class index of every object, (M,) int64, -1 for classes in no entry.

        `places`: for each image the file that names its objects, for messages. With `unlisted` error such classes
        raise DataError, unless they are to be ignored.
        """
        numbers, inverse = np.unique(objects.classes, return_inverse=True)
        indices = np.array([self._indices.get(int(number), -1) for number in numbers], np.int64)
        labels = indices[inverse] if len(numbers) else np.zeros(0, np.int64)
        strange = (labels < 0) & ~self.ignores(objects)
        if unlisted == "error" and strange.any():
            self._refuse(objects.take(strange), places)
        return labels

    def ignores(self, objects: Objects) -> np.ndarray:
        """(M,) bool: the objects of classes that are listed as ignored."""
        return np.isin(objects.classes, np.array(sorted(self._ignored), np.int64))

    def _numbers(self, name: str, keys: Sequence[Given]) -> list[int]:
        if not keys:
            raise SettingError(f"data.classes.{name}", [], "at least one class of the files")
        return [number for key in keys for number in self._matching(f"data.classes.{name}", key, f"{name}: ")]

    def _matching(self, field: str, key: Given, called: str) -> list[int]:
        known = self._vocabulary
        if known.numbered and isinstance(key, int):
            matches = [key] if key in known.names or not known.complete else []
        else:
            matches = [number for number, known_as in known.names.items() if known_as == str(key)]
        if not matches and (known.complete or known.numbered):
            near = get_close_matches(str(key), known.names.values(), 1)
            listed = ", ".join(f"{known_as} ({number})" for number, known_as in known.names.items())
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError(field, key, f"{listed or 'numbers, as in the label files'}{hint}")
        if len(matches) > 1:
            numbers = " and ".join(map(str, matches))
            does = "makes them one class" if called else "ignores both"
            allowed = f"a name of one class, but {numbers} both have it; {called}{matches} {does}"
            raise SettingError(field, key, allowed)
        return matches

    def _called(self, number: int) -> str:
        name = self._vocabulary.names.get(number)
        if name is None or not self._vocabulary.numbered:
            return str(number) if name is None else name
        return f"{number} ({name})"

    def _refuse(self, unlisted: Objects, places: Sequence[str]) -> None:
        number = int(unlisted.classes[0])
        same = unlisted.images[unlisted.classes == number]
        called = self._called(number)
        near = get_close_matches(self._vocabulary.names.get(number, called), self.names, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        others = len(set(unlisted.classes.tolist())) - 1
        more = f", {others} more class(es) are unlisted" if others else ""
        raise DataError(
            f"{places[same[0]]}: class {called} is none of {', '.join(self.names)}{hint}; {len(same)} object(s) "
            f"in {len(set(same.tolist()))} image(s) have it{more}; add it to data.classes or "
            "data.ignore_classes, or set data.unlisted=ignore or drop"
        )


def _is_encodable(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:  # half of a pair of surrogates, which JSON can hold
        return False


def _entries(
    vocabulary: Vocabulary, table: Table | None, ignored: Collection[int]
) -> Mapping[str, tuple[Given, ...]]:
    if table is None:
        return {name: (name,) for number, name in sorted(vocabulary.names.items()) if number not in ignored}
    if isinstance(table, tuple):
        twice = [name for position, name in enumerate(table) if name in table[:position]]
        if twice:
            raise SettingError("data.classes", list(table), f"each name once; {twice[0]!r} stands there twice")
        return {name: (name,) for name in table}
    return {name: key if isinstance(key, tuple) else (key,) for name, key in table.items()}
