"""Multi-scale windows: crops of image_size / s native pixels, shown at image_size."""

import numpy as np
import pytest
from image_files import noise, save

from hires.data.augment import Augment
from hires.data.settings import WindowSettings
from hires.data.windows import WindowDataset
from hires.interfaces import IGNORE
from hires.settings import SettingError


class Recorder:
    """A source that remembers the windows that were read."""

    def __init__(self, source):
        self.source, self.windows = source, []

    def __getattr__(self, name):
        return getattr(self.source, name)

    def __len__(self):
        return len(self.source)

    def read(self, index, window=None):
        self.windows.append(window)
        return self.source.read(index, window)


@pytest.fixture
def source(folder, settings):
    """One image with a vertical and a horizontal ramp, and a mask of one class pixel."""
    y, x = np.mgrid[:200, :250].astype(np.uint8)
    save(folder / "images" / "a.png", np.dstack([y, x, y]))
    mask = np.zeros((200, 250), np.uint8)
    mask[40, 170] = 255
    save(folder / "masks" / "a.png", mask)
    return Recorder(settings().source("train"))


def windows(source, scale, size=(32, 48), focus=0.5, seed=0):
    return WindowDataset(source, size, WindowSettings(focus=focus), Augment([]), seed, scale=scale)


def test_no_scale_is_scale_one(source):
    plain, one = windows(source, None), windows(source, (1.0, 1.0))
    for index in range(20):
        first, second = plain[(0, index)], one[(0, index)]
        assert first.image.equal(second.image)
        assert first.target["mask"].equal(second.target["mask"])


@pytest.mark.parametrize(("scale", "native"), [((2.0, 2.0), (16, 24)), ((0.5, 0.5), (64, 96))])
def test_a_scale_is_the_enlargement_of_objects(source, scale, native):
    sample = windows(source, scale, focus=0)[(0, 0)]
    assert source.windows[-1][2:] == native
    assert sample.image.shape == (3, 32, 48)
    assert sample.target["mask"].shape == (32, 48)
    steps = np.diff(sample.image.numpy().astype(float), axis=1)[0, 4:-4]
    assert steps.mean() == pytest.approx(1 / scale[0], abs=0.05)
    assert sample.image.numpy()[0].mean() == pytest.approx(source.windows[-1].y + native[0] / 2 - 0.5, abs=0.6)


def test_scales_are_log_uniform(source):
    dataset = windows(source, (0.5, 2.0), focus=0)
    for index in range(400):
        dataset[(0, index)]
    scales = np.log2([32 / window.height for window in source.windows])
    assert scales.min() >= -1.05
    assert scales.max() <= 1.05
    assert np.mean(scales) == pytest.approx(0, abs=0.1)
    assert np.std(scales) == pytest.approx(2 / np.sqrt(12), abs=0.06)


def test_a_sample_depends_on_seed_epoch_and_index_only(source):
    first, again = windows(source, (0.5, 2.0)), windows(source, (0.5, 2.0))
    keys = [(epoch, index) for epoch in range(2) for index in range(10)]
    samples = {key: first[key].image.numpy().tobytes() for key in keys}
    assert {key: again[key].image.numpy().tobytes() for key in reversed(keys)} == samples
    assert windows(source, (0.5, 2.0), seed=1)[(0, 0)].image.numpy().tobytes() != samples[0, 0]


@pytest.mark.parametrize("scale", [(0.2, 0.2), (0.5, 2.0), (6.0, 6.0), (100.0, 100.0)])
def test_a_focus_pixel_lies_in_the_window_at_every_scale(source, scale):
    dataset = windows(source, scale, focus=1.0)
    for index in range(40):
        sample = dataset[(0, index)]
        window = source.windows[-1]
        assert window.y <= 40 < window.y + window.height
        assert window.x <= 170 < window.x + window.width
        if scale[0] >= 1:
            assert (sample.target["mask"] == 1).any()


@pytest.mark.parametrize("size", [(1, 1), (5, 7), (3, 300)])
@pytest.mark.parametrize("scale", [(0.1, 0.1), (0.7, 0.7), (1.3, 1.3), (3.0, 3.0), (1000.0, 1000.0)])
@pytest.mark.parametrize("channels", [1, 3])
def test_tiny_images(folder, settings, size, scale, channels):
    save(folder / "images" / "a.png", noise(*size))
    save(folder / "masks" / "a.png", np.full(size, 255, np.uint8))
    made = Recorder(settings(channels=channels).source("train"))
    sample = windows(made, scale)[(0, 0)]
    assert sample.image.shape == (channels, 32, 48)
    valid = sample.target["mask"].numpy() != IGNORE
    native = [max(1, round(side / scale[0])) for side in (32, 48)]
    shown = [
        max(1, round(min(side, whole) * limit / whole))
        for side, whole, limit in zip(size, native, (32, 48), strict=True)
    ]
    assert [valid.any(1).sum(), valid.any(0).sum()] == shown
    assert valid[: shown[0], : shown[1]].all()
    assert (sample.target["mask"].numpy()[valid] == 1).all()


def test_shrinking_averages(folder, settings):
    board = np.indices((64, 64)).sum(axis=0) % 2 * np.uint8(255)
    save(folder / "images" / "a.png", board.astype(np.uint8))
    save(folder / "masks" / "a.png", np.zeros((64, 64), np.uint8))
    sample = windows(settings().source("train"), (0.5, 0.5), (32, 32))[(0, 0)]
    assert ((sample.image >= 127) & (sample.image <= 128)).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"scale": [0, 1]},
        {"scale": [2, 1]},
        {"scale": [1, float("inf")]},
        {"scale": [1]},
        {"scale": 2},
        {"scale": [0.5, 2.0], "fit": "resize"},
    ],
)
def test_scales_that_cannot_be_meant(settings, changes):
    with pytest.raises(SettingError) as caught:
        settings(**changes)
    assert caught.value.field == "scale"
    assert "fit=resize" in str(caught.value) or "fit" not in changes


def test_settings_keep_the_scale(settings):
    assert settings(scale=[1, 2]).scale == (1.0, 2.0)
    assert settings().scale is None
