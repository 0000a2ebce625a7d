"""Samples are the same behind the way from a worker as before it."""

import pytest
import torch

from hires.data.packing import packed, unpacked
from hires.interfaces import Sample


def sample(number, dtype, objects, with_masks):
    generator = torch.Generator().manual_seed(number)
    image = torch.randint(256, (3, 8, 6), generator=generator).to(dtype)
    target = {
        "boxes": torch.rand(objects, 4, generator=generator),
        "labels": torch.arange(objects),
        "ignored": torch.arange(objects) % 2 == 0,
        "size": torch.tensor([8, 6]),
    }
    if with_masks:
        target["masks"] = torch.randint(2, (objects, 8, 6), generator=generator, dtype=torch.uint8)
    return Sample(image, target, f"{number}.png", (f"{number} is broken",) * (number % 2))


@pytest.mark.parametrize("with_masks", [False, True])
@pytest.mark.parametrize("counts", [(0,), (0, 0), (2, 0, 5), (3, 3, 3), (1, 0)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.int16, torch.float32])
def test_nothing_changes(dtype, counts, with_masks):
    samples = [sample(number, dtype, count, with_masks) for number, count in enumerate(counts)]
    for before, after in zip(samples, unpacked(packed(samples)), strict=True):
        assert after.image.dtype == dtype
        assert torch.equal(after.image, before.image)
        assert (after.name, after.skipped) == (before.name, before.skipped)
        assert after.target.keys() == before.target.keys()
        for key, value in before.target.items():
            assert after.target[key].dtype == value.dtype
            assert after.target[key].shape == value.shape
            assert torch.equal(after.target[key], value)
            assert after.target[key].is_contiguous()


def test_samples_without_targets():
    (after,) = unpacked(packed([Sample(torch.zeros(1), {}, "a")]))
    assert after.target == {}
    assert after.name == "a"
