"""Options of torch's caching allocator, and how they round sizes up: computed by hand from its documentation."""

import pytest

from hires.memory.allocator import AllocatorSettings

KIB, MIB = 2**10, 2**20


@pytest.mark.parametrize(
    ("divisions", "size", "block"),
    [
        (4, 1200 * KIB, 1280 * KIB),
        (4, 1280 * KIB, 1280 * KIB),
        (4, 1281 * KIB, 1536 * KIB),
        (4, 2000 * KIB, 2048 * KIB),
        (4, 2048 * KIB, 2048 * KIB),
        (4, 1200, 1536),  # parts below 512 bytes
        (4, 2049, 2560),
        (1, 1200 * KIB + 1, 1200 * KIB + 512),
        (2, 600 * KIB, 768 * KIB),
    ],
)
def test_sizes_are_rounded_up_to_parts_of_a_power_of_two(divisions, size, block):
    assert AllocatorSettings(roundup_power2_divisions=divisions).block_size(size) == block
    alone = AllocatorSettings.from_env(f"roundup_power2_divisions:{divisions}")
    assert alone == AllocatorSettings(roundup_power2_divisions=divisions)


def test_divisions_by_interval():
    table = AllocatorSettings.from_env("roundup_power2_divisions:[2:8,8:4,16:0,>:2]")
    assert table.block_size(768 * KIB + 1) == 832 * KIB
    assert table.roundup_power2_divisions == (8, 8, 0, 4, 0, *[2] * 11)
    rounded = [table.block_size(each * MIB + 1) / MIB for each in (2, 5, 9, 17, 33, 100_000)]
    assert rounded == [2.25, 5 + 2**-11, 10, 17 + 2**-11, 48, 131072]


def test_options_from_the_environment():
    text = "max_split_size_mb:64, expandable_segments:True,pinned_use_background_threads:True,odd:[1:2,3],"
    expected = AllocatorSettings(expandable_segments=True, max_split_size=64 * MIB, capacity=MIB)
    assert AllocatorSettings.from_env(text, capacity=MIB) == expected
    assert AllocatorSettings.from_env("") == AllocatorSettings()
    text = "large_segment_size_mb:12,max_split_size_mb:12,max_non_split_rounding_mb:30,backend:native"
    assert AllocatorSettings.from_env(text) == AllocatorSettings(
        max_split_size=12 * MIB, large_segment_size=12 * MIB, max_non_split_rounding=30 * MIB
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("expandable_segments:true", "expandable_segments: got 'true', allowed: True or False"),
        ("max_split_size_mb:19", "max_split_size_mb: got '19', allowed: a whole number of MiB, at least 20"),
        ("large_segment_size_mb:40,max_split_size_mb:39", "max_split_size_mb: got '39'.*at least 40"),
        ("max_split_size_mb:2e3", "max_split_size_mb: got '2e3'"),
        ("max_split_size_mb", "got 'max_split_size_mb', allowed: key:value"),
        ("large_segment_size_mb:10", "large_segment_size_mb: got '10'.*at least 11"),
        ("roundup_power2_divisions:3", "roundup_power2_divisions: got '3', allowed: powers of two"),
        ("roundup_power2_divisions:0", "roundup_power2_divisions: got '0'"),
        ("roundup_power2_divisions:[64:3]", "roundup_power2_divisions: got '3'"),
        ("roundup_power2_divisions:[48:4,>:2]", "roundup_power2_divisions: got '48'"),
        ("roundup_power2_divisions:[64:4", "roundup_power2_divisions: got .*64:4"),
        ("backend:cudaMallocAsync", "backend: got 'cudaMallocAsync', allowed: native"),
    ],
)
def test_wrong_options_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        AllocatorSettings.from_env(text)
