"""Blending in rows gives what whole-image arithmetic gives, and holds one row of windows at a time."""

import pytest
import torch
from torch.nn import functional as F

from hires.interfaces import View, Window
from hires.ops.blend import blend
from hires.ops.windows import tiles


def blended(size, predictions):
    rows = list(blend(size, predictions))
    tops = [top for top, _ in rows]
    lengths = [values.shape[1] for _, values in rows]
    assert tops == [sum(lengths[:i]) for i in range(len(rows))]
    return torch.cat([values for _, values in rows], dim=1)


@pytest.mark.parametrize("size", [(50, 70), (64, 64), (129, 33), (10, 200), (1, 1)])
def test_equal_predictions_stay_what_they_are(size):
    image = torch.rand(3, *size)
    views = [View(w, w.height, w.width) for w in tiles(size, (32, 64), 0.25)]
    crops = [F.pad(cut(image, v.window), (0, 5, 0, 3)) for v in views]  # padding must be left out
    torch.testing.assert_close(blended(size, zip(views, crops, strict=True)), image, rtol=1e-5, atol=1e-6)


def cut(image, window):
    return image[:, window.y : window.y + window.height, window.x : window.x + window.width]


def test_overlap_is_a_weighted_mean_without_seams():
    """Two windows that say 0 and 1: from one to the other the blend rises steadily, from 0 to 1."""
    views = [View(Window(0, x, 8, 16), 8, 16) for x in (0, 8)]
    values = [torch.zeros(1, 8, 16), torch.ones(1, 8, 16)]
    row = blended((8, 24), zip(views, values, strict=True))[0, 4]
    assert row[:8].max() == 0
    assert row[16:].min() == 1
    assert (row.diff() >= 0).all()


@pytest.mark.parametrize("size", [(700, 90), (256, 300), (257, 31), (40, 40), (1, 5)])
def test_resized_view_equals_interpolation_of_the_whole(size):
    prediction = torch.rand(4, 30, 20)
    view = View(Window(0, 0, *size), 27, 19)
    expected = F.interpolate(prediction[None, :, :27, :19], size=size, mode="bilinear", align_corners=False)[0]
    torch.testing.assert_close(blended(size, [(view, prediction)]), expected, rtol=1e-4, atol=1e-5)


def test_rows_leave_as_soon_as_no_window_reaches_them():
    seen = []
    views = [View(w, w.height, w.width) for w in tiles((320, 32), (32, 32), 0)]

    def predictions():
        for view in views:
            seen.append(view.window.y)
            yield view, torch.rand(1, 32, 32)

    for top, _ in blend((320, 32), predictions()):
        assert seen[-1] <= top + 32
