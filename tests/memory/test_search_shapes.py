"""Micro-batches and image sizes that a search tries."""

import pytest
from blocks import Trunk, batch_norm, group_norm, instance_norm

from hires.memory.predictions import Shape
from hires.memory.shapes import LARGEST_SIDE, least_micro_batch, micro_batches, shapes, sizes


@pytest.mark.parametrize("batch_size", range(1, 40))
def test_of_micro_batches_that_need_as_many_steps_only_the_smallest(batch_size):
    found = micro_batches(batch_size, 1, growing=False)
    counts = {-(-batch_size // micro) for micro in range(1, batch_size + 1)}
    assert found == sorted(
        min(m for m in range(1, batch_size + 1) if -(-batch_size // m) == count) for count in counts
    )


@pytest.mark.parametrize(("batch_size", "least"), [(16, 2), (16, 3), (7, 4), (5, 5), (2, 8), (1, 2)])
def test_no_micro_batch_is_smaller_than_the_least_or_larger_than_the_batch(batch_size, least):
    found = micro_batches(batch_size, least, growing=False)
    assert found[0] == min(least, batch_size)
    assert found[-1] == batch_size
    assert found == sorted(set(found))
    within = [micro for micro in micro_batches(batch_size, 1, growing=False) if micro >= least]
    assert set(within) <= set(found)


def test_a_batch_that_may_grow_has_every_micro_batch_beyond_it():
    found = micro_batches(4, 1, growing=True)
    assert found[:6] == [1, 2, 4, 5, 6, 7]
    assert found[-1] >= 1024


@pytest.mark.parametrize("largest", [(1000, 1000), (640, 4000), (4000, 640), (150, 201), (64, 64)])
@pytest.mark.parametrize("aspect", [(256, 256), (512, 1024), (1088, 1920), (96, 64)])
@pytest.mark.parametrize("stride", [32, 14])
def test_sizes_are_multiples_of_the_stride_of_about_the_aspect_within_the_image(largest, aspect, stride):
    found = sizes(aspect, stride, largest)
    assert found == sorted(set(found))
    for size in found:
        shorter, longer = sorted(size)
        wanted = shorter * max(aspect) / min(aspect)
        assert all(side % stride == 0 for side in size)
        assert abs(longer - wanted) <= stride / 2
        assert aspect[0] == aspect[1] or (size[0] > size[1]) == (aspect[0] > aspect[1])
        assert all(side - bound < stride for side, bound in zip(size, largest, strict=True))


def test_the_largest_size_shows_the_whole_of_the_largest_image():
    assert sizes((1, 1), 32, (1000, 1000))[-1] == (1024, 1024)
    assert sizes((1, 2), 32, (500, 1000))[-1] == (512, 1024)
    assert sizes((1, 1), 32, (4000, 640))[-1] == (640, 640)


def test_where_no_image_is_known_there_is_a_largest_side():
    assert sizes((1, 1), 32, (0, 0))[-1] == (LARGEST_SIDE, LARGEST_SIDE)


@pytest.mark.parametrize(("aspect", "largest"), [((1, 1), (20, 20)), ((1, 1), (32, 500)), ((1, 4), (64, 64))])
def test_images_of_less_than_two_strides_have_a_size_all_the_same(aspect, largest):
    found = sizes(aspect, 32, largest)
    assert found
    assert all(side % 32 == 0 and side > 0 for size in found for side in size)


def test_shapes_are_all_combinations_by_their_pixels():
    found = shapes([1, 2], [(64, 64), (96, 64), (128, 128)])
    assert len(found) == 6
    assert found[0] == Shape(1, 64, 64)
    assert [shape.pixels for shape in found] == sorted(shape.pixels for shape in found)


@pytest.mark.parametrize(("norm", "least"), [(batch_norm(0.1), 2), (group_norm, 1), (instance_norm, 1)])
def test_batch_norm_needs_two_samples(norm, least):
    assert least_micro_batch(Trunk(norm)) == least
