"""What a glob says of a path: whether it matches, and the text of its wildcards, which is the key of a file."""

import os
import re
from collections.abc import Callable, Sequence

_WILDCARD = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]")


def matches_any(path: str, globs: Sequence[str]) -> bool:
    return any(glob_regex(glob).fullmatch(path) for glob in globs)


def kept_by(exclude: Sequence[str]) -> Callable[[str], bool]:
    """Says of a path whether no glob matches it."""
    return lambda path: not matches_any(path, exclude)


def key_of(path: str, pattern: str) -> str:
    """What the wildcards of `pattern` matched in `path`, without the file's extension.

    Parts are joined by / where the pattern has one between them, by + where other text stands there, and
    directly where they touch. Example: `a/images/7.jpg` by `*/images/*.jpg` gives `a/7`.
    """
    keys = keys_within(path, pattern)
    return keys[-1] if keys else os.path.splitext(os.path.basename(path))[0]


def keys_within(path: str, pattern: str) -> list[str]:
    """What the first wildcard matched, the first two, and so on: the last is `key_of`, if there is any."""
    match = glob_regex(pattern).fullmatch(path)
    if match is None:
        raise ValueError(f"{path!r} does not match {pattern!r}")
    end = len(os.path.splitext(path)[0])
    keys, key, last = [], "", 0
    for group in range(1, match.re.groups + 1):
        start, stop = match.start(group), min(match.end(group), end)
        if start >= stop:
            continue
        part, between = path[start:stop], path[last:start]
        if key and between and not key.endswith("/"):
            key += "/" if "/" in between else "+"
        key, last = key + part, stop
        keys.append(key)
    return keys


def glob_regex(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression that captures every wildcard; `**/` may match nothing."""
    parts, at = [], 0
    for wildcard in _WILDCARD.finditer(pattern):
        parts.append(re.escape(pattern[at : wildcard.start()]))
        parts.append(_captured(wildcard.group()))
        at = wildcard.end()
    return re.compile("".join(parts) + re.escape(pattern[at:]), re.DOTALL)


def _captured(wildcard: str) -> str:
    simple = {"**/": "((?:[^/]+/)*)", "**": "(.*)", "*": "([^/]*)", "?": "([^/])"}
    if wildcard in simple:
        return simple[wildcard]
    inside = wildcard[1:-1].replace("\\", "\\\\")
    return f"([{'^' + inside[1:] if inside.startswith('!') else inside}])"
