"""Damages files at random, but always in the same way."""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

ODD = (
    *(None, True, 0, -1, 1, 0.5, -0.0, 1e-320, 1e308, -1e308, 2**31, 2**63, -(2**63) - 1, 10**400),
    *(float("nan"), float("inf"), -float("inf"), "", " ", "0", "1e5", "nan", "a", "\0", "\ud800", "x" * 10_000),
    *([], {}, [[]], [0, 0], [[0, 0]], [[0, 0], [1, 0], [0, 1]], ["a"], [None] * 4, [1e308] * 6, {"a": {}}),
)
ODD_WORDS = (
    *(
        b"",
        b" ",
        b"-1",
        b"0",
        b"-0.0",
        b"nan",
        b"inf",
        b"1e30",
        b"1e309",
        b"9" * 400,
        b"9" * 5000,
        b"0x10",
        b"1_0",
    ),
    *(
        "٣".encode(),
        "größe".encode(),
        b"\xff\xfe",
        b"\x00",
        b"a",
        b"x" * 200_000,
        b'"',
        b"\r",
        b"&amp;",
        b"&x;",
        b"]]>",
    ),
)
_CHANGES = (1, 1, 2, 8)  # of one kind


def mutated(data: bytes, others: Sequence[bytes], seed: int) -> bytes:
    """A file that is damaged in one of the ways below, or in two; `others` lend it their headers."""
    draw = random.Random(seed)
    for _ in range(draw.choice((1, 1, 2))):
        data = draw.choice(WAYS)(data, others, draw)
    return data


def odd_value(data: bytes, seed: int) -> bytes:
    """A file of JSON in which one or two values have become others that hardly belong there."""
    draw = random.Random(seed)
    content = json.loads(data)
    for _ in range(draw.choice((1, 1, 2))):
        where, key = draw.choice(list(_values(content)))
        others = [where[other] for other in (where if isinstance(where, dict) else range(len(where)))]
        where[key] = draw.choice((*ODD, draw.choice(others), [where[key]] * 2))
    return json.dumps(content).encode()


def odd_word(data: bytes, seed: int) -> bytes:
    """A text in which one or two words, of XML those between tags, have become others that hardly belong there."""
    draw = random.Random(seed)
    for _ in range(draw.choice((1, 1, 2))):
        words = [match.span() for match in re.finditer(rb"(?<=>)[^<>]+(?=<)|^[^<>]+$", data)]
        if len(words) < 2:
            words = [match.span() for match in re.finditer(rb"[^\s,;]+", data)]
        start, end = draw.choice(words)
        data = data[:start] + draw.choice((*ODD_WORDS, data[start:end] * 2)) + data[end:]
    return data


def _values(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every mapping and list with each of its keys."""
    for key in list(content) if isinstance(content, dict) else range(len(content)):
        yield content, key
        if isinstance(content[key], (dict, list)):
            yield from _values(content[key])


def flip_bits(data: bytes, others: Sequence[bytes], draw: random.Random) -> bytes:
    """Some bits anywhere, half of the time near the beginning, where headers are."""
    changed = bytearray(data)
    reach = len(changed) if draw.random() < 0.5 else min(64, len(changed))
    for _ in range(draw.choice(_CHANGES) if reach else 0):
        changed[draw.randrange(reach)] ^= 1 << draw.randrange(8)
    return bytes(changed)


def overwrite(data: bytes, others: Sequence[bytes], draw: random.Random) -> bytes:
    """Some bytes become the least and greatest, or digits and signs that texts are made of."""
    changed = bytearray(data)
    for _ in range(draw.choice(_CHANGES) if changed else 0):
        changed[draw.randrange(len(changed))] = draw.choice(b"\x00\xff\x7f\x80019-+.eE,:;\"'{}[]<>&\n\t ")
    return bytes(changed)


def truncate(data: bytes, others: Sequence[bytes], draw: random.Random) -> bytes:
    """Only the beginning, or only the end."""
    at = draw.randint(0, len(data))
    return data[:at] if draw.random() < 0.8 else data[at:]


def swap_header(data: bytes, others: Sequence[bytes], draw: random.Random) -> bytes:
    """The beginning of another file, the rest of this one."""
    size = draw.choice((1, 2, 4, 8, 16, 64, 256))
    return draw.choice(others)[:size] + data[size:] if others else data


def repeat_chunk(data: bytes, others: Sequence[bytes], draw: random.Random) -> bytes:
    """A part once more, or many times."""
    start, end = _part(data, draw)
    times = draw.choice((1, 1, 2, 50)) if end - start < 2**16 else 1
    return data[:end] + data[start:end] * times + data[end:]


def drop_chunk(data: bytes, others: Sequence[bytes], draw: random.Random) -> bytes:
    """Without a part."""
    start, end = _part(data, draw)
    return data[:start] + data[end:]


def swap_chunks(data: bytes, others: Sequence[bytes], draw: random.Random) -> bytes:
    """Two parts that follow each other change places."""
    a, b, c = sorted(draw.randint(0, len(data)) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _part(data: bytes, draw: random.Random) -> tuple[int, int]:
    """Where a part begins and ends: a few bytes, or any number."""
    start, end = sorted(draw.randint(0, len(data)) for _ in range(2))
    return (start, end) if draw.random() < 0.5 else (start, min(start + draw.randint(1, 4), len(data)))


WAYS: tuple[Callable[[bytes, Sequence[bytes], random.Random], bytes], ...] = (
    flip_bits,
    overwrite,
    truncate,
    swap_header,
    repeat_chunk,
    drop_chunk,
    swap_chunks,
)
