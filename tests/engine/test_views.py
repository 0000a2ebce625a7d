"""Views of whole images, flips and scales, and what becomes of them when they are blended."""

import numpy as np
import pytest
import torch
from torch import nn

from hires.engine.settings import EvaluationSettings
from hires.engine.views import Views, show
from hires.ops.blend import blend
from hires.settings import SettingError


def stitched(image, views, predict):
    """Predictions of every view, blended: (K, H, W)."""
    predictions = ((view, predict(pixels.float()[None])[0]) for view, pixels in show(image, views))
    return torch.cat([rows for _, rows in blend(image.shape[:2], predictions)], dim=1)


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


SIZES = [(100, 130), (64, 64), (33, 200), (5, 7)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("overlap", [0.25, 0.5])
def test_no_seams(size, overlap):
    """Where the receptive field is within the margin, tiles give what the whole image gives."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 5, padding=2)).eval()
    image = picture(*size)
    with torch.inference_mode():
        whole = network(torch.from_numpy(image).permute(2, 0, 1).float()[None])[0]
        tiled = stitched(image, Views("window", (64, 64), overlap), network)
    inner = whole if min(size) >= 64 else whole[:, : size[0] - 3, : size[1] - 3]  # mirrored padding, not zeros
    torch.testing.assert_close(tiled[:, : inner.shape[1], : inner.shape[2]], inner, rtol=1e-5, atol=1e-5 * 255)


def test_a_view_without_margin_would_show_seams():
    torch.manual_seed(0)
    network = nn.Conv2d(3, 1, 7, padding=3)
    image = picture(64, 200)
    with torch.inference_mode():
        whole = network(torch.from_numpy(image).permute(2, 0, 1).float()[None])[0]
        views = list(show(image, Views("window", (64, 64), 0.25)))
        predictions = [(view._replace(margin=0), network(x.float()[None])[0]) for view, x in views]
        seamed = torch.cat([rows for _, rows in blend((64, 200), iter(predictions))], dim=1)
    assert (seamed - whole).abs().max() > 1e-2


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tta", [("hflip",), ("vflip", "hflip"), ("hflip", 0.5, 2.0), (0.75,)])
def test_augmented_views_come_back_to_their_place(size, tta):
    """A network that repeats its input: the blend of all views is the image, but for resampling."""
    ramp = np.linspace(0, 200, size[0])[:, None] + np.linspace(0, 55, size[1])[None]
    image = np.repeat(ramp[..., None], 3, axis=2).round().astype(np.uint8)
    result = stitched(image, Views("window", (64, 64), 0.25, tta=tta), lambda x: x)
    exact = all(isinstance(entry, str) for entry in tta)
    expected = torch.from_numpy(image).permute(2, 0, 1).float()
    difference = (result - expected).abs()
    steepest = 255 / min(size)  # of the ramp, per pixel: what half a pixel of resampling can move
    assert difference.max() < (1e-3 if exact else 1 + 2 * steepest)


@pytest.mark.parametrize(
    ("size", "views"),
    [
        ((600, 400), Views("resize", (64, 64), tta=("hflip",))),
        ((1400, 900), Views("window", (256, 256), tta=(0.5, "vflip"))),
        ((600, 600), Views("window", (512, 512), tta=(1.5, 0.75))),
        ((300, 1300), Views("window", (512, 512), 0.0, tta=(0.3,))),
    ],
)
def test_views_larger_than_a_band_of_rows(size, views):
    image = np.full((*size, 3), 77, np.uint8)
    result = stitched(image, views, lambda x: x)
    assert result.shape == (3, *size)
    torch.testing.assert_close(result, torch.full_like(result, 77), rtol=1e-4, atol=1e-3)


def test_flips_of_a_resized_image_are_held_once():
    """Of a whole image that is shown twice, bands still leave one by one."""
    image = np.full((1000, 50, 3), 77, np.uint8)
    shown = show(image, Views("resize", (64, 64), tta=("hflip",)))
    rows = [part.shape[1] for _, part in blend((1000, 50), ((view, x.float()) for view, x in shown))]
    assert max(rows) <= 256


def test_flips_are_flipped_with_their_padding():
    image = picture(40, 50)
    shown = list(show(image, Views("window", (64, 64), 0.25, tta=("hflip", "vflip"))))
    assert [view.flip for view, _ in shown] == [(), (2,), (1,)]
    plain = shown[0][1]
    assert torch.equal(shown[1][1], plain.flip(2))
    assert torch.equal(shown[2][1], plain.flip(1))


def test_views_come_in_row_order_and_fill_the_network():
    shown = list(show(picture(300, 200), Views("window", (64, 96), 0.25, tta=(0.5, 2.0, "hflip"))))
    rows = [view.window.y for view, _ in shown]
    assert rows == sorted(rows)
    assert {pixels.shape for _, pixels in shown} == {(3, 64, 96)}
    heights = {view.window.height for view, _ in shown}
    assert heights == {64, 128, 32}


def test_resized_whole_images_take_flips_but_no_scales():
    assert EvaluationSettings(fit="resize", tta=("hflip",)).tta == ("hflip",)
    with pytest.raises(SettingError, match="scales need fit=window"):
        EvaluationSettings(fit="resize", tta=(0.5,))
    with pytest.raises(SettingError, match="hflip, vflip"):
        EvaluationSettings(tta=("rot90",))
    shown = list(show(picture(100, 50), Views("resize", (64, 64), tta=("hflip",))))
    assert [(view.height, view.width, view.flip) for view, _ in shown] == [(64, 32, ()), (64, 32, (2,))]


def test_the_whole_image_is_one_more_view_where_it_is_larger_than_a_window():
    views = Views("window", (64, 64), 0.25, whole=True)
    shown = [view for view, _ in show(picture(100, 200), views)]
    whole = [view for view in shown if view.window == (0, 0, 100, 200)]
    assert [(view.height, view.width) for view in whole] == [(32, 64)]
    assert len(shown) == 1 + sum(1 for _ in show(picture(100, 200), views._replace(whole=False)))
    assert sum(1 for _ in show(picture(64, 50), views)) == 1


def test_the_whole_image_blends_with_its_windows():
    image = np.full((100, 200, 3), 77, np.uint8)
    result = stitched(image, Views("window", (64, 64), 0.25, whole=True), lambda pixels: pixels)
    torch.testing.assert_close(result, torch.full((3, 100, 200), 77.0))


def test_padding_is_a_value_or_a_mirror_image():
    image = picture(20, 30)
    ((_, mirrored),) = show(image, Views("window", (32, 32)))
    ((_, filled),) = show(image, Views("window", (32, 32), padding=9))
    assert (filled[:, 20:] == 9).all()
    assert (filled[:, :, 30:] == 9).all()
    assert torch.equal(filled[:, :20, :30], mirrored[:, :20, :30])
    assert torch.equal(mirrored[:, 20], mirrored[:, 18])
