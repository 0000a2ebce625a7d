"""Every number is computed by hand from what torch documents of its caching allocator."""

import pickle
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hires.memory.allocator import FREE, AllocatorSettings, CachingAllocator, OutOfMemory, replay

KIB, MIB = 2**10, 2**20
EXPANDABLE = AllocatorSettings(expandable_segments=True)


def after(*events: tuple[str, float], **options) -> CachingAllocator:
    """Sizes in MiB; FREE frees."""
    sizes = [(key, int(size * MIB) if size > 0 else int(size)) for key, size in events]
    return replay(sizes, AllocatorSettings(**options))


def layout(allocator: CachingAllocator) -> list[list[tuple[float, bool]]]:
    """The blocks of each segment: MiB, in use."""
    return [[(size / MIB, used) for size, used in segment.blocks] for segment in allocator.segments()]


def counts(allocator: CachingAllocator) -> tuple[float, float]:
    return allocator.allocated / MIB, allocator.reserved / MIB


@pytest.mark.parametrize(
    ("size", "allocated", "reserved"),
    [
        (0, 0, 0),
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB - 511, 10 * MIB, 10 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),  # the last 1 MiB is not split off
        (12 * MIB + 1, 12 * MIB + 512, 14 * MIB),
    ],
)
def test_sizes_of_blocks_and_segments(size, allocated, reserved):
    allocator = CachingAllocator()
    allocator.allocate("a", size)
    assert (allocator.allocated, allocator.reserved) == (allocated, reserved)
    allocator.free("a")
    assert (allocator.allocated, allocator.reserved) == (0, reserved)
    assert (allocator.peak_allocated, allocator.peak_reserved) == (allocated, reserved)


def test_two_small_segments_hold_three_blocks_of_a_mebibyte():
    assert layout(after(("a", 1), ("b", 1), ("c", 1))) == [[(1, True), (1, True)], [(1, True), (1, False)]]


def test_small_requests_do_not_use_large_segments():
    assert counts(after(("a", 2), ("b", 1))) == (3, 22)


def test_what_was_freed_is_used_again():
    allocator = after(("a", 12), ("a", FREE), ("b", 12))
    assert counts(allocator) == (12, 12)


def test_peaks_start_anew():
    allocator = after(("a", 12), ("b", 30), ("a", FREE))
    assert (allocator.peak_allocated, allocator.peak_reserved) == (42 * MIB, 42 * MIB)
    allocator.empty_cache()
    allocator.reset_peak()
    assert (allocator.peak_allocated, allocator.peak_reserved) == (30 * MIB, 30 * MIB)
    allocator.allocate("c", 10 * MIB)
    allocator.free("c")
    assert (allocator.peak_allocated, allocator.peak_reserved) == (40 * MIB, 40 * MIB)


def test_the_smallest_block_that_suffices_serves():
    freed = after(("a", 18), ("b", 12), ("c", 16), ("a", FREE), ("b", FREE), ("c", FREE), ("d", 14))
    assert layout(freed) == [[(18, False)], [(12, False)], [(14, True), (2, False)]]


def test_the_lowest_of_equal_blocks_serves():
    allocator = after(*[(key, 0.25) for key in "abcdefgh"])
    for key in "fbd":
        allocator.free(key)
    allocator.allocate("i", MIB // 4)
    used = [used for _, used in allocator.segments()[0].blocks]
    assert used == [True, True, True, False, True, False, True, True]


def test_the_oldest_of_equal_segments_serves():
    allocator = after(("a", 10), ("b", 10), ("b", FREE), ("a", FREE), ("c", 10))
    assert layout(allocator) == [[(10, True)], [(10, False)]]


def test_small_blocks_are_split_to_the_last_512_bytes():
    allocator = replay([("a", 1024), ("guard", 512), ("a", FREE), ("b", 512)])
    sizes = [(512, True), (512, False), (512, True), (2 * MIB - 1536, False)]
    assert list(allocator.segments()[0].blocks) == sizes


@pytest.mark.parametrize(("size", "block"), [(11 * MIB, 12 * MIB), (11 * MIB - 512, 11 * MIB - 512)])
def test_large_blocks_are_split_when_more_than_a_mebibyte_is_left(size, block):
    assert replay([("a", 12 * MIB), ("a", FREE), ("b", size)]).allocated == block


def test_free_neighbours_become_one_block():
    allocator = after(("a", 5), ("b", 5), ("c", 5), ("a", FREE), ("c", FREE))
    assert layout(allocator) == [[(5, False), (5, True), (10, False)]]
    allocator.free("b")
    assert layout(allocator) == [[(20, False)]]
    allocator.allocate("d", 20 * MIB)
    assert counts(allocator) == (20, 20)


def test_segments_do_not_become_one_block():
    assert counts(after(("a", 10), ("b", 10), ("a", FREE), ("b", FREE), ("c", 20))) == (20, 40)


def test_empty_cache_keeps_segments_in_use():
    allocator = after(("a", 4), ("b", 4), ("c", 12), ("d", 0.5), ("b", FREE), ("c", FREE), ("d", FREE))
    allocator.empty_cache()
    assert layout(allocator) == [[(4, True), (16, False)]]
    assert counts(allocator) == (4, 20)


def test_oversize_blocks_are_not_split():
    options = {"max_split_size": 20 * MIB}
    freed = (("a", 24), ("a", FREE))
    assert counts(after(*freed, ("b", 4), **options)) == (4, 44)  # not from the 24
    assert counts(after(*freed, ("b", 22), **options)) == (24, 24)  # the whole 24
    freed = (("a", 42), ("a", FREE))
    assert counts(after(*freed, ("b", 22), **options)) == (22, 64)  # 20 MiB would be wasted
    assert counts(after(*freed, ("b", 22), max_non_split_rounding=21 * MIB, **options)) == (42, 42)


def test_new_oversize_segments_are_not_split():
    assert counts(after(("a", 20.5), max_split_size=21 * MIB)) == (20.5, 22)
    assert counts(after(("a", 20.5), max_split_size=20 * MIB)) == (22, 22)


def test_cached_segments_are_released_when_the_capacity_is_reached():
    allocator = after(("a", 0.5), ("a", FREE), ("b", 30), ("b", FREE), ("c", 36), capacity=40 * MIB)
    assert counts(allocator) == (36, 36)
    assert (allocator.peak_reserved, allocator.retries) == (36 * MIB, 1)


def test_out_of_memory():
    allocator = after(("a", 4), ("b", 12), ("b", FREE), capacity=40 * MIB)
    with pytest.raises(OutOfMemory, match="no room for 30.00 MiB: 4.00 MiB are allocated, 16.00 MiB more") as told:
        allocator.allocate("c", 30 * MIB)
    error = pickle.loads(pickle.dumps(told.value))
    sizes = [error.requested, error.allocated, error.reserved, error.free]
    assert sizes == [30 * MIB, 4 * MIB, 20 * MIB, 16 * MIB]
    assert allocator.retries == 1
    allocator.allocate("c", 20 * MIB)
    assert counts(allocator) == (24, 40)


@pytest.mark.parametrize(
    ("cached", "size", "reserved", "retries"),
    [
        ([24, 30], 50, 50, 0),  # 30 + 24 suffice
        ([24, 30], 56, 56, 1),  # they do not, so everything else goes too
        ([12, 48], 24, 36, 0),  # 48 alone suffices: 12 stay
        ([22, 36], 32, 58, 0),  # 36 is used as it is: only 4 MiB are wasted
    ],
)
def test_oversize_segments_are_released_first(cached, size, reserved, retries):
    events = [(str(each), each) for each in cached] + [(str(each), FREE) for each in cached]
    allocator = after(*events, ("new", size), max_split_size=20 * MIB, capacity=60 * MIB)
    assert (allocator.reserved, allocator.retries) == (reserved * MIB, retries)


def test_an_expandable_segment_grows_by_pages():
    allocator = after(("a", 3), ("b", 18), ("c", 0.75), ("d", 1), ("e", 1), expandable_segments=True)
    small = [(0.75, True), (1, True), (1, True), (1.25, False)]
    assert layout(allocator) == [small, [(3, True), (18, True), (19, False)]]
    for key in "abcde":
        allocator.free(key)
    allocator.allocate("f", 40 * MIB)
    assert counts(allocator) == (40, 44)


def test_blocks_of_an_expandable_segment_are_split_to_the_last_512_bytes():
    allocator = after(("a", 3), ("b", 3), ("a", FREE), ("c", 2.5), expandable_segments=True)
    assert layout(allocator) == [[(2.5, True), (0.5, False), (3, True), (14, False)]]


def test_the_end_of_an_expandable_segment_counts_as_large():
    allocator = after(("a", 12), ("b", 6), ("a", FREE), ("c", 1.5), expandable_segments=True)
    assert layout(allocator) == [[(1.5, True), (10.5, False), (6, True), (2, False)]]


def test_pages_without_a_block_in_use_are_released_and_mapped_again():
    allocator = after(("a", 30), ("b", 5), ("a", FREE), expandable_segments=True)
    assert counts(allocator) == (5, 40)
    allocator.empty_cache()
    assert layout(allocator) == [[(10, False), (5, True), (5, False)]]
    allocator.allocate("c", 25 * MIB)  # 20 MiB mapped again, before the 10 that are free
    assert layout(allocator) == [[(25, True), (5, False), (5, True), (5, False)]]
    for key in "bc":
        allocator.free(key)
    allocator.empty_cache()
    assert counts(allocator) == (0, 0)


def test_an_expandable_segment_ends_at_the_capacity():
    allocator = after(("a", 3), ("a", FREE), ("b", 0.5), ("c", 18), expandable_segments=True, capacity=41 * MIB)
    assert counts(allocator) == (18.5, 22)
    with pytest.raises(OutOfMemory):
        allocator.allocate("d", 3 * MIB)
    assert (counts(allocator), allocator.retries) == ((18.5, 22), 1)
    allocator.free("b")
    allocator.allocate("d", 3 * MIB)  # once the small page is released
    assert (counts(allocator), allocator.retries) == ((21, 40), 2)


def test_size_of_large_segments():
    assert after(("a", 3), large_segment_size=12 * MIB).reserved == 12 * MIB
    grown = after(("a", 3), ("b", 10), expandable_segments=True, large_segment_size=12 * MIB)
    assert counts(grown) == (13, 24)


def test_keys_are_used_once():
    allocator = replay([("a", 0), ("b", 1), ("b", FREE), ("b", 2), ("b", -7)])
    assert (allocator.allocated, allocator.peak_allocated) == (0, 512)
    for wrong in (lambda: allocator.allocate("a", 1), lambda: allocator.allocate("c", -1)):
        with pytest.raises(ValueError, match="'a' is allocated already|'c': got -1 bytes"):
            wrong()
    allocator.free("a")
    with pytest.raises(ValueError, match="'a' is not allocated"):
        allocator.free("a")


OPTIONS = st.builds(
    AllocatorSettings,
    expandable_segments=st.booleans(),
    max_split_size=st.sampled_from([None, 20 * MIB, 64 * MIB]),
    roundup_power2_divisions=st.sampled_from([None, 4]),
    capacity=st.sampled_from([None, 100 * MIB]),
)
SIZES = st.one_of(st.integers(0, 4 * KIB), st.integers(0, 3 * MIB), st.integers(0, 70 * MIB))
EVENTS = st.lists(st.one_of(SIZES, st.just("empty"), st.floats(0, 1, exclude_max=True)), max_size=60)


@settings(deadline=None, max_examples=300)
@given(options=OPTIONS, events=EVENTS)
def test_what_always_holds(options, events):
    allocator, live = CachingAllocator(options), []
    for number, event in enumerate(events):
        if event == "empty":
            allocator.empty_cache()
        elif isinstance(event, int):
            with suppress(OutOfMemory):
                allocator.allocate(number, event)
                live.append(number)
        elif live:
            allocator.free(live.pop(int(event * len(live))))
        check(allocator)
    for number in live:
        allocator.free(number)
    assert allocator.allocated == 0
    assert all(segment.blocks == ((segment.size, False),) for segment in allocator.segments())
    allocator.empty_cache()
    assert (allocator.reserved, allocator.segments()) == (0, [])


def check(allocator: CachingAllocator) -> None:
    segments = allocator.segments()
    assert 0 <= allocator.allocated <= allocator.reserved <= allocator.peak_reserved
    assert allocator.peak_reserved <= (allocator.settings.capacity or allocator.peak_reserved)
    assert allocator.reserved == sum(segment.size for segment in segments)
    assert allocator.allocated == sum(size for segment in segments for size, used in segment.blocks if used)
    ends = [segment.address + segment.size for segment in segments]
    assert all(end <= segment.address for end, segment in zip(ends, segments[1:], strict=False))
    for segment in segments:
        assert segment.size == sum(size for size, _ in segment.blocks)
        assert all(size > 0 and size % 512 == 0 for size, _ in segment.blocks)
        frees = [not used for _, used in segment.blocks]
        assert not any(here and following for here, following in zip(frees, frees[1:], strict=False))
