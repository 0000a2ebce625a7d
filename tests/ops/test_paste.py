"""Masks on grids become pixels of the image where the frame lies."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torchvision.models.detection.roi_heads import paste_masks_in_image

from hires.ops.boxes import Detections, nothing
from hires.ops.paste import pasted

EXTENT = (60, 80)


def detection(box, grid, frame=None):
    boxes, frames = torch.tensor([box], dtype=torch.float32), torch.tensor([frame or box], dtype=torch.float32)
    return Detections(boxes, torch.ones(1), torch.zeros(1).long(), EXTENT, grid[None], frames)


def image_of(found):
    (instance,) = pasted(found)
    image = np.zeros(EXTENT, bool)
    height, width = instance.mask.shape
    image[instance.y : instance.y + height, instance.x : instance.x + width] = instance.mask
    return image


def test_full_grid_fills_the_box():
    expected = np.zeros(EXTENT, bool)
    expected[5:25, 10:47] = True
    assert (image_of(detection([10, 5, 47, 25], torch.ones(28, 28))) == expected).all()


def test_equals_bilinear_sampling_at_pixel_centres():
    grid = torch.rand(7, 9, generator=torch.Generator().manual_seed(0))
    image = image_of(detection([10, 5, 60, 45], grid, frame=[8, 2, 62.5, 45]))
    x = (torch.arange(10, 60) + 0.5 - 8) / 54.5 * 2 - 1
    y = (torch.arange(5, 45) + 0.5 - 2) / 43 * 2 - 1
    points = torch.stack([x.expand(40, 50), y[:, None].expand(40, 50)], -1)
    expected = F.grid_sample(grid[None, None], points[None], align_corners=False)[0, 0]
    near = (expected - 0.5).abs() < 1e-4
    assert ((image[5:45, 10:60] == (expected >= 0.5).numpy()) | near.numpy()).all()
    assert image.sum() == image[5:45, 10:60].sum()


def test_is_close_to_torchvision():
    y, x = torch.meshgrid(torch.arange(28), torch.arange(28), indexing="ij")
    grid = torch.sigmoid((100 - (y - 12) ** 2 - (x - 15) ** 2) / 20)
    found = detection([10.3, 5.6, 61.2, 48.9], grid)
    ours = image_of(found)
    theirs = paste_masks_in_image(found.masks[:, None], found.boxes, EXTENT)[0, 0].numpy() >= 0.5
    assert (ours & theirs).sum() / (ours | theirs).sum() > 0.93


def test_frame_beyond_the_image_is_cut_and_not_squeezed():
    grid = torch.zeros(20, 20)
    grid[:, 15:] = 1  # the right quarter of the frame, which begins left of the image
    image = image_of(detection([0, 0, 10, 20], grid, frame=[-10, 0, 10, 20]))
    assert image[:20, 5:10].all()
    assert image.sum() == 100


def test_rows_in_pieces_equal_the_whole(monkeypatch):
    found = detection([10.3, 5.6, 61.2, 48.9], torch.rand(28, 28, generator=torch.Generator().manual_seed(0)))
    whole = image_of(found)
    monkeypatch.setattr("hires.ops.paste._ROWS", 5)
    assert (image_of(found) == whole).all()


def test_none_found_and_none_given():
    assert list(pasted(nothing(EXTENT))) == []
    with pytest.raises(ValueError, match="no masks"):
        list(pasted(detection([0, 0, 5, 5], torch.ones(2, 2))._replace(masks=None)))
