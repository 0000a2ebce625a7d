"""The files of a segmentation, from parts that are made up."""

import os
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from hires.data.images import read_values
from hires.data.mask_folder import MaskFolder
from hires.data.mask_values import MaskValues, mask_values
from hires.evaluation.segmentation import LabelRows
from hires.interfaces import ConfigError, DataError, Normalization
from hires.predictions.inputs import Input
from hires.predictions.masks import MaskWriter
from hires.predictions.settings import PredictionSettings
from hires.visualize.colours import class_colours

NAMES = ("background", "a/b", "a b")
NORMALIZATION = Normalization("dtype", "uint8", (0.0,) * 3, (255.0,) * 3)
SIZE = (50, 70)


def labels(most: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, most, SIZE).astype(np.uint8)


def write(
    out: Path, mask: np.ndarray, *, parts=None, multilabel=False, given=None, image=None, **settings
) -> MaskWriter:
    chosen = PredictionSettings(**settings)
    writer = MaskWriter(out, NAMES, chosen, NORMALIZATION, multilabel=multilabel, given=given)
    bands = parts or (LabelRows(top, mask[top : top + 7]) for top in range(0, len(mask), 7))
    image = np.full((*SIZE, 3), 100, np.uint8) if image is None else image
    writer.write(Input(out, "x.png", "x"), image, bands, lambda share: None)
    return writer


def test_several_labels_have_a_mask_each(tmp_path):
    mask = labels(8)
    writer = write(tmp_path, mask, multilabel=True, format="tiff")
    folders = [row["folder"] for row in writer.table()["classes"]]
    assert folders == ["masks/background", "masks/a_b_1", "masks/a_b_2"]
    for index, folder in enumerate(folders):
        found = read_values(tmp_path / folder / "x.tif")[:, :, 0]
        assert np.array_equal(found, 255 * (mask >> index & 1))
    with pytest.raises(ConfigError, match="values: got data, allowed: index"):
        write(tmp_path, mask, multilabel=True, values="data")


def test_values_above_255_take_two_bytes(tmp_path):
    mask = labels(3)
    write(tmp_path, mask, values="data", given=MaskValues((7, 300, 65535), False))
    assert np.array_equal(read_values(tmp_path / "masks" / "x.png")[:, :, 0], np.array([7, 300, 65535])[mask])


def test_colours_of_the_data_set_are_those_of_the_palette(tmp_path):
    settings = MaskFolder(
        root=str(tmp_path),
        images="*",
        masks="*",
        classes={"a": ["#102030", "#FFFFFF"], "b": "#FF0000", "c": "#00FF00"},
    )
    mask = labels(3)
    writer = write(tmp_path, mask, values="data", given=mask_values(settings))
    assert [row["colour"] for row in writer.table()["classes"]] == ["#102030", "#FF0000", "#00FF00"]
    with Image.open(tmp_path / "masks" / "x.png") as image:
        wanted = np.array([[0x10, 0x20, 0x30], [255, 0, 0], [0, 255, 0]])[mask]
        assert np.array_equal(np.array(image.convert("RGB")), wanted)


def test_colours_differ_and_stay():
    names = [f"class {index}" for index in range(60)]
    colours = class_colours(names)
    assert len({tuple(colour) for colour in colours.tolist()}) == 60
    assert np.array_equal(class_colours(names[:5]), colours[:5])


@pytest.mark.parametrize(("most", "shape"), [(4096, (50, 70)), (64, (25, 35)), (70, (50, 70))])
def test_overlays_tint_all_but_the_background(most, shape, tmp_path):
    mask = np.zeros(SIZE, np.uint8)
    mask[:, 36:] = 1
    mask[26:, :30] = 2
    writer = write(tmp_path, mask, overlay_size=most)
    picture = cv2.imread(str(tmp_path / "overlays" / "x.jpg"))[..., ::-1].astype(int)
    assert picture.shape == (*shape, 3)
    factor = 50 // shape[0]
    for (y, x), colour in (((10, 10), None), ((10, 60), writer.colours[1]), ((45, 10), writer.colours[2])):
        wanted = np.full(3, 100) if colour is None else 55 + colour * 0.45
        assert abs(picture[y // factor, x // factor] - wanted).max() < 12


def test_images_of_other_types_are_stretched(tmp_path):
    image = np.repeat(np.linspace(1000, 3000, SIZE[1])[None, :, None], SIZE[0], 0).astype(np.uint16)
    normalization = Normalization("percentile", "uint16", (1500.0,), (2500.0,))
    writer = MaskWriter(tmp_path, NAMES, PredictionSettings(), normalization, multilabel=False, given=None)
    rows = iter([LabelRows(0, np.zeros(SIZE, np.uint8))])
    writer.write(Input(tmp_path, "x.png", "x"), image, rows, lambda share: None)
    picture = cv2.imread(str(tmp_path / "overlays" / "x.jpg"))
    assert picture[:, :10].max() < 20
    assert picture[:, -10:].min() > 235
    assert abs(picture[25, 35].astype(int) - 130).max() < 15


def test_a_broken_image_leaves_what_was_there(tmp_path):
    def broken():
        yield LabelRows(0, np.ones((7, 70), np.uint8))
        raise DataError("x.png: broken")

    write(tmp_path, labels(3))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(DataError, match="broken"):
        write(tmp_path, labels(3), parts=broken())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_done_is_what_was_made_since(tmp_path):
    writer = write(tmp_path, labels(3))
    item = Input(tmp_path, "x.png", "x")
    assert writer.done(item)
    mask = tmp_path / "masks" / "x.png"
    for seconds, done in ((-1, True), (1, False)):  # an image of the same name takes the place of the other
        item.path.touch()
        os.utime(item.path, ns=(0, mask.stat().st_mtime_ns + seconds * 10**9))
        assert writer.done(item) == done
    item.path.unlink()
    writer.since = (tmp_path / "masks" / "x.png").stat().st_mtime_ns + 1
    assert not writer.done(item)


def test_masks_are_read_as_classes(tmp_path):
    """What is written is a data set again."""
    mask = labels(3)
    write(tmp_path, mask)
    (tmp_path / "images").mkdir()
    tifffile.imwrite(tmp_path / "images" / "x.tif", np.zeros((*SIZE, 3), np.uint8), photometric="rgb")
    settings = MaskFolder(
        root=str(tmp_path), images="images/*", masks="masks/*", classes=list("abc"), splits={}, cache_gib=0
    )
    assert np.array_equal(settings.source("train").mask(0), mask)
