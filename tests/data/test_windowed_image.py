"""Images too large to be decoded at once are evaluated all the same."""

import numpy as np
import pytest

from hires.data import file_source
from hires.data.augment import Augment
from hires.data.settings import WindowSettings
from hires.data.windowed_image import WindowedImage
from hires.data.windows import ResizeDataset
from hires.engine.views import Views, show
from hires.interfaces import Window
from tests.many_bands import make_set, pixels

IMAGE = pixels("uint16", 3, 70, 50)


class Reader:
    """Windows of IMAGE, and which were asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, window):
        self.asked.append(window)
        return IMAGE[window.y : window.y + window.height, window.x : window.x + window.width]


def windowed(most=10**9):
    read = Reader()
    return WindowedImage(read, IMAGE.shape, IMAGE.dtype, most), read


def test_slices_are_those_of_the_image():
    image, _ = windowed()
    rng = np.random.default_rng(0)
    for _ in range(50):
        y, x = rng.integers(0, 60), rng.integers(0, 40)
        place = slice(y, y + rng.integers(1, 30)), slice(x, x + rng.integers(1, 30))
        np.testing.assert_array_equal(image[place], IMAGE[place])
    np.testing.assert_array_equal(image[3:9], IMAGE[3:9])
    np.testing.assert_array_equal(np.asarray(image), IMAGE)
    assert (image.shape, image.dtype, image.ndim, len(image)) == (IMAGE.shape, IMAGE.dtype, 3, 70)


@pytest.mark.parametrize(
    "views", [Views("window", (32, 32)), Views("resize", (32, 32)), Views("window", (32, 32), whole=True)]
)
def test_views_are_those_of_the_image(views):
    image, _ = windowed()
    for (view, found), (wanted_view, wanted) in zip(show(image, views), show(IMAGE, views), strict=True):
        assert view == wanted_view
        assert found.equal(wanted)


def test_every_row_of_windows_is_read_once():
    image, read = windowed()
    list(show(image, Views("window", (32, 32))))
    assert read.asked == [Window(y, 0, 32, 50) for y in (0, 24, 38)]


def test_bands_that_are_too_large_are_not_read():
    image, read = windowed(most=32 * 50 * 3 * 2 - 1)
    list(show(image, Views("window", (32, 32), overlap=0)))
    assert {(window.height, window.width) for window in read.asked} == {(32, 32)}
    assert len(read.asked) == 3 * 2


def test_a_source_gives_large_images_so(folder, settings, monkeypatch):
    images = make_set(folder, "uint16", 5, tile=(16, 16))
    monkeypatch.setattr(file_source, "LARGE", 20_000)
    source = settings(bands=(3, 1, 5), cache_gib=1).source("train")
    found, target = source.read(1)
    assert isinstance(found, WindowedImage)
    assert found.shape == (61, 70, 3)
    assert target["mask"].shape == (61, 70)
    np.testing.assert_array_equal(found[5:20, 6:30], images[1][5:20, 6:30][..., [2, 0, 4]])
    dataset = ResizeDataset(source, (32, 32), WindowSettings(), Augment(), 0)
    monkeypatch.undo()
    whole = ResizeDataset(settings(bands=(3, 1, 5)).source("train"), (32, 32), WindowSettings(), Augment(), 0)
    assert dataset[0, 0].image.equal(whole[0, 0].image)
