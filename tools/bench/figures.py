"""What the blocks of figures share: reading a JSON of docs/bench, tables in Markdown, the register of blocks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import results

NOT_RUN = "not run"
BLOCKS: dict[str, Callable[[], str]] = {}
"""By name, as it stands in a document's mark."""


class NotRun(Exception):
    """There is no such JSON, or it lacks what is asked for."""


def block(function: Callable[[], str]) -> Callable[[], str]:
    """Registers what makes the text of a mark, by the function's name."""
    BLOCKS[function.__name__] = function
    return function


def bench(name: str) -> dict[str, Any]:
    content = results.read(results.FOLDER / f"{name}.json")
    if content is None:
        raise NotRun(name)
    return content


def text_of(name: str) -> str:
    """What stands in the mark of that name: a block's text, or one value of a JSON, as FILE.KEY.KEY:FORMAT."""
    try:
        return BLOCKS[name]() if name in BLOCKS else _value(name)
    except NotRun:
        return NOT_RUN


def _value(name: str) -> str:
    path, _, spec = name.partition(":")
    file, *keys = path.split(".")
    value = bench(file)
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            raise NotRun(name)
        value = value[key]
    return format(value, spec)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], made: str = "") -> str:
    """A table in Markdown, under it how it was made."""
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    return "\n".join([*lines, *(["", made] if made else [])])


def _row(cells: Sequence[str]) -> str:
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"


def made(content: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] = ()) -> str:
    """The line below a table."""
    words = results.said(content, rows)
    return f"*{words[0].upper()}{words[1:]}.*"


def span(values: Iterable[float], spec: str) -> str:
    """The smallest and the largest."""
    ends = sorted(values)
    return " to ".join(dict.fromkeys(format(end, spec) for end in (ends[0], ends[-1])))


def mib(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"
