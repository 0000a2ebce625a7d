"""Options of torch's CUDA caching allocator, and the sizes that follow from them.

Follows c10/core/AllocatorConfig.cpp of torch 2.9 to 2.14; documented in docs/source/notes/cuda.rst of torch.
"""

import re
from dataclasses import dataclass
from typing import Self

MIB = 2**20
BLOCK = 512  # sizes of blocks are multiples of it
SMALL = MIB  # up to this, blocks come from the small pool
SMALL_SEGMENT = 2 * MIB
LARGE = 10 * MIB  # from this on, a new segment is made for one block
LARGE_STEP = 2 * MIB
INTERVALS = 16  # of roundup_power2_divisions: from 1 MiB on, each twice the one before; the last has no end


def up(size: int, step: int) -> int:
    return -(-size // step) * step


@dataclass(frozen=True)
class AllocatorSettings:
    """The options of PYTORCH_ALLOC_CONF that change sizes, in bytes, and the bound on all segments together.

    `roundup_power2_divisions` is one number, or one for each of the 16 intervals [1, 2), [2, 4) … MiB.
    `capacity` acts as a device that is full: a segment, or pages of one, that go beyond it are not given. So does
    torch's `set_per_process_memory_fraction`, except that it looks at whole segments where they expand.
    """

    expandable_segments: bool = False
    max_split_size: int | None = None
    roundup_power2_divisions: int | tuple[int, ...] | None = None
    large_segment_size: int = 20 * MIB
    max_non_split_rounding: int = 20 * MIB
    capacity: int | None = None

    @classmethod
    def from_env(cls, text: str, capacity: int | None = None) -> Self:
        """Reads the text of PYTORCH_ALLOC_CONF (or PYTORCH_CUDA_ALLOC_CONF), `key:value,key:value`.

        Unknown keys are ignored. Raises ValueError with the key and what is allowed for a wrong value, and for
        a backend other than `native`: its memory is another one's.
        """
        given = _items(text)
        if given.get("backend", "native") != "native":
            raise _wrong("backend", given["backend"], "native (no other can be replayed)")
        large = _mebibytes(given, "large_segment_size_mb", LARGE // MIB + 1) or cls.large_segment_size
        least = large // MIB
        rounding = _mebibytes(given, "max_non_split_rounding_mb", least)
        return cls(
            expandable_segments=_boolean(given, "expandable_segments"),
            max_split_size=_mebibytes(given, "max_split_size_mb", least),
            roundup_power2_divisions=_table(given, "roundup_power2_divisions"),
            large_segment_size=large,
            max_non_split_rounding=rounding or cls.max_non_split_rounding,
            capacity=capacity,
        )

    def block_size(self, requested: int) -> int:
        """Bytes of the block for `requested` bytes (1 or more)."""
        divisions = self._divisions(requested)
        if divisions > 1 and requested > BLOCK * divisions:
            return up(requested, (1 << requested.bit_length() - 1) // divisions)
        return up(requested, BLOCK)

    def segment_size(self, block: int) -> int:
        """Bytes of a new segment for a block of `block` bytes, where segments do not expand."""
        if block <= SMALL:
            return SMALL_SEGMENT
        return self.large_segment_size if block < LARGE else up(block, LARGE_STEP)

    def _divisions(self, requested: int) -> int:
        divisions = self.roundup_power2_divisions
        if not isinstance(divisions, tuple):
            return divisions or 0
        return divisions[min(max(requested.bit_length() - MIB.bit_length(), 0), INTERVALS - 1)]


DEFAULTS = AllocatorSettings()


def _wrong(key: str, value: str, allowed: str) -> ValueError:
    return ValueError(f"{key}: got {value!r}, allowed: {allowed}")


def _items(text: str) -> dict[str, str]:
    """The values by key; a comma between brackets does not end a value."""
    items = [item for item in re.split(r",(?![^\[]*\])", "".join(text.split())) if item]
    for item in items:
        if ":" not in item:
            raise _wrong("allocator settings", item, "key:value")
    return dict(item.split(":", 1) for item in items)


def _boolean(given: dict[str, str], key: str) -> bool:
    value = given.get(key, "False")
    if value not in ("True", "False"):
        raise _wrong(key, value, "True or False")
    return value == "True"


def _mebibytes(given: dict[str, str], key: str, least: int) -> int | None:
    value = given.get(key)
    if value is None:
        return None
    if not value.isdecimal() or int(value) < least:
        raise _wrong(key, value, f"a whole number of MiB, at least {least}")
    return int(value) * MIB


def _power_of_two(key: str, number: str) -> int:
    if not number.isdecimal() or int(number).bit_count() != 1:
        raise _wrong(key, number, "powers of two: 4, or [1:8,64:4,>:2] by MiB, where a division may be 0")
    return int(number)


def _table(given: dict[str, str], key: str) -> int | tuple[int, ...] | None:
    """One number; or `[256:1,512:2,>:4]`, where the first holds for smaller sizes too and `>` for all larger."""
    value = given.get(key)
    if value is None:
        return None
    if not (value.startswith("[") and value.endswith("]")):
        return _power_of_two(key, value)
    table, last = [0] * INTERVALS, -1
    for pair in value[1:-1].split(","):
        start, _, divisions = pair.partition(":")
        number = 0 if divisions == "0" else _power_of_two(key, divisions)
        if start == ">":
            table[last + 1 :] = [number] * (INTERVALS - last - 1)
            continue
        index = min(_power_of_two(key, start).bit_length() - 1, INTERVALS - 1)
        if last < 0:
            table[:index] = [number] * index
        table[index], last = number, index
    return tuple(table)
