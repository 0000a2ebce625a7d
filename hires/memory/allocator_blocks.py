"""Blocks of memory, and the pools that find the one that fits best.

Follows c10/cuda/CUDACachingAllocator.cpp of torch 2.8 to 2.14.
"""

from bisect import bisect_left, insort

from hires.memory.allocator_settings import SMALL_SEGMENT, AllocatorSettings

ADDRESS_SPACE = 2**60  # of an expandable segment: more than any device has


class Block:
    """A part of a segment, linked to the parts before and after it."""

    __slots__ = ("address", "after", "before", "mapped", "pool", "size", "used")

    def __init__(self, pool: "Pool", address: int, size: int, mapped: bool = True):
        self.pool, self.address, self.size, self.mapped = pool, address, size, mapped
        self.used = False
        self.before: Block | None = None
        self.after: Block | None = None

    def split(self, size: int) -> "Block":
        """Keeps the first `size` bytes and returns the rest."""
        rest = Block(self.pool, self.address + size, self.size - size, self.mapped)
        rest.before, rest.after, self.after, self.size = self, self.after, rest, size
        if rest.after:
            rest.after.before = rest
        return rest

    def absorb(self, neighbour: "Block") -> None:
        """Takes over the bytes and the links of the block just before or after."""
        self.size += neighbour.size
        if neighbour is self.before:
            self.address, self.before = neighbour.address, neighbour.before
            if self.before:
                self.before.after = self
        else:
            self.after = neighbour.after
            if self.after:
                self.after.before = self


class Pool:
    """The free blocks of small or of large requests, by size, then by age of the segment, then by address.

    Later segments get higher addresses, so that (size, address) is that order.
    """

    def __init__(self, settings: AllocatorSettings, small: bool, base: int):
        self.settings, self.small = settings, small
        self.base = base  # where the expandable segment begins
        self.page = SMALL_SEGMENT if small else settings.large_segment_size  # what it grows by
        self.free: list[tuple[int, int]] = []
        self.holes: list[int] = []  # addresses without memory behind them, in an expandable segment
        self.at: dict[int, Block] = {}  # the free blocks and the holes
        if settings.expandable_segments:
            self.add(Block(self, base, ADDRESS_SPACE, mapped=False))

    def add(self, block: Block) -> None:
        self.at[block.address] = block
        if block.mapped:
            insort(self.free, (block.size, block.address))
        else:
            insort(self.holes, block.address)

    def remove(self, block: Block) -> None:
        del self.at[block.address]
        if block.mapped:
            del self.free[bisect_left(self.free, (block.size, block.address))]
        else:
            del self.holes[bisect_left(self.holes, block.address)]

    def put_back(self, block: Block) -> None:
        """Adds a block that is no longer used, merged with its neighbours of the same kind."""
        for neighbour in (block.before, block.after):
            if neighbour and not neighbour.used and neighbour.mapped == block.mapped:
                self.remove(neighbour)
                block.absorb(neighbour)
        self.add(block)

    def take(self, size: int) -> Block | None:
        """The smallest free block that may serve `size` bytes, at the lowest address; None without one."""
        index = bisect_left(self.free, (size, 0))
        if index == len(self.free):
            return None
        if self.settings.expandable_segments:
            index = self._least_growing(index)
        found, address = self.free[index]
        limit = self.settings.max_split_size
        if limit is not None:
            too_large = limit if size < limit else size + self.settings.max_non_split_rounding
            if found >= too_large:
                return None
        del self.free[index]
        return self.at.pop(address)

    def _least_growing(self, index: int) -> int:
        """Goes on while the next larger block is the smaller one, each counted with the hole behind it."""
        room = self._room(index)
        while index + 1 < len(self.free) and (following := self._room(index + 1)) < room:
            index, room = index + 1, following
        return index

    def _room(self, index: int) -> int:
        size, address = self.free[index]
        after = self.at[address].after
        return size + (after.size if after and not after.mapped else 0)

    def first_room(self, size: int) -> Block:
        """Where free blocks and holes in a row, one hole at least, have `size` bytes: the lowest address."""
        for address in self.holes:
            start = hole = self.at[address]
            if hole.before and not hole.before.used:
                start = hole.before
            room, block = 0, start
            while room < size and not block.used:
                room += block.size
                if block.after is None:
                    break
                block = block.after
            if room >= size:
                return start
        raise ValueError(f"{size} bytes are more than any device has")
