"""Files that a glob misses since their ending is in capitals, or the glob's is: IMG_1.JPG beside *.jpg."""

import glob
import logging
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from hires.data.glob_keys import key_of
from hires.data.globbing import Found

log = logging.getLogger(__name__)

_ENDING = re.compile(r"\.(\w*[A-Za-z]\w*)$")


class OtherCase(NamedTuple):
    """Files that differ from what a glob matches in the case of their ending only."""

    paths: list[str]  # relative to the root
    both: str  # the glob that matches both, with the same keys

    def __str__(self) -> str:
        return f"differ from it in upper and lower case only and are not read, such as {self.paths[0]}"


def other_case(
    root: Path, pattern: str, keys: Iterable[str], accept: Callable[[str], bool] = bool
) -> OtherCase | None:
    """The accepted files that `pattern` misses so, whose keys are none of `keys`; None where there are none."""
    both = either_case(pattern)
    if both == pattern or not glob.has_magic(pattern):
        return None
    known = set(keys)
    listed = (path.replace(os.sep, "/") for path in Found(root, both, once=True).paths)
    missed = [path for path in filter(accept, listed) if key_of(path, both) not in known]
    missed = [path for path in missed if (root / path).is_file()]
    return OtherCase(missed, both) if missed else None


def warn_of_other_case(
    root: Path, name: str, pattern: str, keys: Iterable[str], accept: Callable[[str], bool]
) -> None:
    """Warns of what `other_case` finds; the glob is that of the setting data.`name`."""
    other = other_case(root, pattern, keys, accept)
    if other:
        text = "%s: %d file(s) beside those of data.%s=%r %s; data.%s=%r takes both"
        log.warning(text, root, len(other.paths), name, pattern, other, name, other.both)


def either_case(pattern: str) -> str:
    """The glob with an ending in any case; wildcards of an ending are no part of keys."""
    ending = _ENDING.search(pattern)
    if ending is None:
        return pattern
    letters = (f"[{c.lower()}{c.upper()}]" if c.isalpha() and c.isascii() else c for c in ending.group(1))
    return pattern[: ending.start(1)] + "".join(letters)
