"""What torch's caching allocator would hand out and reserve on a CUDA device, replayed without one.

Follows c10/cuda/CUDACachingAllocator.cpp of torch 2.8 to 2.14: native backend, one stream, no private pools, no
`garbage_collection_threshold`; an expandable segment never runs out of address space. Of free blocks of the same
size the one in the oldest segment serves, as in torch 2.14; before, the driver's addresses decided.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from hires.memory.allocator_blocks import ADDRESS_SPACE, Block, Pool
from hires.memory.allocator_settings import BLOCK, DEFAULTS, MIB, SMALL, AllocatorSettings, up

__all__ = ["FREE", "AllocatorSettings", "CachingAllocator", "OutOfMemory", "Segment", "replay"]

FREE = -1  # the size that marks a free in `replay`


class OutOfMemory(MemoryError):
    """The capacity does not suffice, with everything released that can be. Bytes; `free`: reserved, unused."""

    def __init__(self, requested: int, allocated: int, reserved: int):
        super().__init__(requested, allocated, reserved)
        self.requested, self.allocated, self.reserved = requested, allocated, reserved
        self.free = reserved - allocated

    def __str__(self) -> str:
        return (
            f"no room for {self.requested / MIB:.2f} MiB: {self.allocated / MIB:.2f} MiB are allocated, "
            f"{self.free / MIB:.2f} MiB more are reserved"
        )


class Segment(NamedTuple):
    """Memory that lies together: its first address, its bytes, and (bytes, in use) of its blocks in order."""

    address: int
    size: int
    blocks: tuple[tuple[int, bool], ...]


class CachingAllocator:
    """Allocates and frees by key, and counts bytes as `torch.cuda.memory_stats` does.

    `allocated` and `reserved`: now; `peak_allocated` and `peak_reserved`: the most since the last `reset_peak`;
    `retries`: how often everything cached had to be released (`num_alloc_retries`).
    """

    def __init__(self, settings: AllocatorSettings = DEFAULTS):
        self.settings = settings
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = self.retries = 0
        self._live: dict[Hashable, Block | None] = {}
        self._end = 2 * ADDRESS_SPACE  # where the next segment begins: by address is by age
        self._small = Pool(settings, small=True, base=0)
        self._large = Pool(settings, small=False, base=ADDRESS_SPACE)

    def allocate(self, key: Hashable, size: int) -> None:
        """Takes a block for `size` bytes; 0 take none. Raises OutOfMemory, and ValueError for a key in use."""
        if size < 0 or key in self._live:
            raise ValueError(f"{key!r}: got {size} bytes" if size < 0 else f"{key!r} is allocated already")
        self._live[key] = self._allocate(size) if size else None

    def free(self, key: Hashable) -> None:
        """Gives the block back to the cache. Raises ValueError for a key that is not allocated."""
        if key not in self._live:
            raise ValueError(f"{key!r} is not allocated")
        block = self._live.pop(key)
        if block:
            self.allocated -= block.size
            block.used = False
            block.pool.put_back(block)

    def empty_cache(self) -> None:
        """Gives every segment without a block in use, or such pages of an expandable one, back to the device."""
        for pool in (self._large, self._small):
            for block in [pool.at[address] for _, address in pool.free]:
                if self.settings.expandable_segments:
                    self._unmap(block)
                elif block.before is None and block.after is None:
                    self._release(block)

    def reset_peak(self) -> None:
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved

    def segments(self) -> list[Segment]:
        """What is reserved, by address; the parts of an expandable segment between its holes count one by one."""
        blocks = [block for block in self._live.values() if block]
        blocks += [block for pool in (self._small, self._large) for block in pool.at.values() if block.mapped]
        starts = [block for block in blocks if not (block.before and block.before.mapped)]
        return [_segment(start) for start in sorted(starts, key=lambda block: block.address)]

    def _allocate(self, requested: int) -> Block:
        size = self.settings.block_size(requested)
        pool = self._small if size <= SMALL else self._large
        block = pool.take(size) or self._grow(pool, size) or self._grow_after_release(pool, size)
        if block is None:
            raise OutOfMemory(requested, self.allocated, self.reserved)
        if self._splits(block, size):
            pool.add(block.split(size))
        block.used = True
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block

    def _splits(self, block: Block, size: int) -> bool:
        rest, limit = block.size - size, self.settings.max_split_size
        if block.pool.small or self.settings.expandable_segments:
            return rest >= BLOCK
        return rest > SMALL and (limit is None or size < limit)

    def _grow(self, pool: Pool, size: int) -> Block | None:
        """A free block of `size` bytes or more in new memory, in no pool's list; None when there is none left."""
        if self.settings.expandable_segments:
            return self._extend(pool, size)
        segment = self.settings.segment_size(size)
        if not self._reserve(segment):
            return None
        address, self._end = self._end, self._end + segment
        return Block(pool, address, segment)

    def _grow_after_release(self, pool: Pool, size: int) -> Block | None:
        if self._release_oversize(pool, size) and (block := self._grow(pool, size)):
            return block
        self.empty_cache()
        self.retries += 1
        return self._grow(pool, size)

    def _reserve(self, size: int) -> bool:
        if self.settings.capacity is not None and self.reserved + size > self.settings.capacity:
            return False
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return True

    def _release(self, block: Block) -> None:
        block.pool.remove(block)
        self.reserved -= block.size

    def _release_oversize(self, pool: Pool, size: int) -> bool:
        """Releases segments that must not be split: one that suffices, else from the largest on until they do."""
        limit = self.settings.max_split_size
        if limit is None or self.settings.expandable_segments:
            return False
        wanted, released = max(size, limit), 0
        index = bisect_left(pool.free, (wanted, 0))
        candidates = pool.free[index : index + 1] or pool.free[bisect_left(pool.free, (limit, 0)) :][::-1]
        for found, address in candidates:
            if released < wanted:
                self._release(pool.at[address])
                released += found
        return released >= wanted

    def _extend(self, pool: Pool, size: int) -> Block | None:
        """Maps pages at the lowest address that has the room. What was mapped before a failure stays."""
        block = pool.first_room(size)
        while not block.mapped or block.size < size:
            free, hole = (block.size, block.after) if block.mapped else (0, block)
            assert hole is not None
            if not self._map(hole, min(size - free, hole.size)):
                return None
            block = hole
        pool.remove(block)
        return block

    def _map(self, hole: Block, size: int) -> bool:
        pool, size = hole.pool, up(size, hole.pool.page)
        if not self._reserve(size):
            return False
        pool.remove(hole)
        if size < hole.size:
            pool.add(hole.split(size))
        hole.mapped = True
        pool.put_back(hole)
        return True

    def _unmap(self, block: Block) -> None:
        """Takes the whole pages out of a free block; what lies before and after them stays."""
        pool = block.pool
        end = block.address + block.size
        first = pool.base + up(block.address - pool.base, pool.page)
        last = end - (end - pool.base) % pool.page
        if first >= last:
            return
        pool.remove(block)
        if first > block.address:
            front, block = block, block.split(first - block.address)
            pool.add(front)
        if last < end:
            pool.add(block.split(last - first))
        block.mapped = False
        self.reserved -= block.size
        pool.put_back(block)


def replay(events: Iterable[tuple[Hashable, int]], settings: AllocatorSettings = DEFAULTS) -> CachingAllocator:
    """The allocator after `events`: (key, bytes) allocates, 0 bytes too; (key, FREE), or any negative, frees."""
    allocator = CachingAllocator(settings)
    for key, size in events:
        if size < 0:
            allocator.free(key)
        else:
            allocator.allocate(key, size)
    return allocator


def _segment(start: Block) -> Segment:
    blocks, block = [], start
    while True:
        blocks.append((block.size, block.used))
        if block.after is None or not block.after.mapped:
            return Segment(start.address, sum(size for size, _ in blocks), tuple(blocks))
        block = block.after
