"""What the documentation shows to run: its pages, blocks and commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conftest import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs" / "howto").glob("*.md"))]
NOT_RUN = "<!-- not run -->"
"""Stands in the line above a block that tests leave alone."""

_FENCE = re.compile(r"```(\w*)\s*")
_SHELLS = ("sh", "bash", "shell", "console", "zsh")
_FILE = re.compile(r"`(my_[\w./-]+\.(?:yaml|py))`")
_VARIABLE = re.compile(r"[A-Z_]+=")
_OVERRIDE = re.compile(r"[a-z_][\w.]*=")


class Block(NamedTuple):
    """A fenced block: `file` is where a reader is told to keep it, by a path `my_.../NAME` in the line above."""

    page: str
    line: int  # of its first line, from 1
    kind: str
    text: str
    run: bool
    file: str | None = None

    @property
    def shell(self) -> bool:
        return self.kind in _SHELLS


class Command(NamedTuple):
    """One command line, its words as a shell would pass them on."""

    place: str
    words: list[str]
    variables: dict[str, str]
    bare: bool = False  # whether the line has overrides alone

    def __str__(self) -> str:
        return f"{self.place}: {shlex.join(self.words)}"


def blocks(path: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start, kind = None, ""
    for number, line in enumerate(lines):
        fence = _FENCE.fullmatch(line)
        if fence and start is None:
            start, kind = number, fence[1]
        elif line == "```" and start is not None:
            above = [text for text in lines[:start] if text.strip()][-1:] or [""]
            named = _FILE.search(above[0])
            text = "\n".join(lines[start + 1 : number]) + "\n"
            run = start == 0 or lines[start - 1].strip() != NOT_RUN
            yield Block(
                path.name, start + 2, kind, text, run, named[1] if named and kind in ("yaml", "python") else None
            )
            start = None


def commands(block: Block) -> list[Command]:
    """The command lines of a block. A line of overrides alone is meant for `hires train`."""
    found, words, start = [], "", block.line
    for number, line in enumerate(block.text.splitlines(), block.line):
        start = start if words else number
        words += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        split = shlex.split(words, comments=True)
        words = ""
        if split:
            found.append(_command(f"{block.page}:{start}", split))
    return found


def _command(place: str, words: list[str]) -> Command:
    count = next((i for i, word in enumerate(words) if not _VARIABLE.match(word)), len(words))
    variables = dict(word.split("=", 1) for word in words[:count])
    rest = words[count:]
    bare = bool(rest and _OVERRIDE.match(rest[0]))
    return Command(place, ["hires", "train", *rest] if bare else rest, variables, bare)
