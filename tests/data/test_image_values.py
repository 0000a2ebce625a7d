"""Masks come as the values that are stored: palette indices, few bits unstretched, whole numbers of any size."""

import io

import numpy as np
import pytest
from image_arrays import samples
from image_writers import bits_of, by_pillow, by_tifffile, exif, png, tiff
from PIL import Image

from hires.data.formats.image_file import tell_once
from hires.data.images import mask_bands, read_image, read_values
from hires.interfaces import DataError, Window

H, W = 37, 53
COLOURS = samples("uint8", 256, 3)


def palette_image(indices, kind):
    image, out = Image.fromarray(indices), io.BytesIO()
    image.putpalette(COLOURS[: int(indices.max()) + 1].ravel().tolist())
    image.save(out, kind)
    return out.getvalue()


def cases():
    one, four, byte = (samples("uint8", H, W, below=below) for below in (2, 16, 256))
    deep, wide = samples("uint16", H, W), samples("int32", H, W)
    told = {320: ("H", [int(v) * 257 for v in COLOURS.T.ravel()])}
    yield "png 1 bit", png(one, 1), one
    yield "png 4 bit", png(four, 4), four
    yield "png palette", png(byte, 8, COLOURS), byte
    yield "png palette of 4 bit", png(four, 4, COLOURS[:16]), four
    yield "png 16 bit", png(deep, 16), deep
    yield "png turned", png(byte, chunks={b"eXIf": exif(6)}), np.rot90(byte, -1)
    yield "tiff 1 bit", by_pillow(one.astype(bool), "TIFF", compression="group4"), one
    yield "tiff 4 bit", tiff(bits_of(four, 4), H, W, bits=4), four
    yield "tiff palette", tiff(byte.tobytes(), H, W, told, photometric=3), byte
    yield "tiff palette zstd", by_tifffile(byte, compression="zstd", tile=(16, 16)), byte
    yield "tiff uint16", by_tifffile(deep, compression="lzw", predictor=True), deep
    yield "tiff int32", by_tifffile(wide, compression="zstd"), wide
    yield "tiff uint32", by_tifffile(wide.astype(np.uint32), tile=(16, 16)), wide.astype(np.uint32)
    yield "gif", palette_image(byte, "GIF"), byte
    yield "bmp palette", palette_image(byte, "BMP"), byte
    yield "pnm of 15", b"P5 %d %d 15\n" % (W, H) + four.tobytes(), four
    yield "webp has none", by_pillow(samples("uint8", H, W, 3), "WEBP", lossless=True), None


@pytest.fixture(params=list(cases()), ids=lambda case: case[0].replace(" ", "-"))
def case(request, tmp_path):
    _, data, expected = request.param
    (tmp_path / "a mask").write_bytes(data)
    return tmp_path / "a mask", expected


@pytest.mark.parametrize("rows", [1, 16, 1000])
def test_bands_of_rows(case, rows):
    path, expected = case
    if expected is None:
        with pytest.raises(DataError, match="a mask: a mask has one channel.*mode RGB"):
            next(mask_bands(path, rows))
        return
    bands = list(mask_bands(path, rows))
    np.testing.assert_array_equal(np.concatenate(bands), expected)
    assert {len(band) for band in bands[:-1]} <= {rows}
    assert all(band.dtype == expected.dtype for band in bands)


def test_windows_of_values(case):
    path, expected = case
    if expected is not None:
        part = read_values(path, Window(4, 6, 20, 30))
        np.testing.assert_array_equal(part[..., 0], expected[4:24, 6:36])
        assert part.dtype == expected.dtype


@pytest.mark.parametrize(("dtype", "told"), [("float32", "1 band.s. of float32"), ("uint8", "4 band.s. of uint8")])
def test_masks_of_other_kinds_are_refused(tmp_path, dtype, told):
    array = samples(dtype, H, W) if dtype == "float32" else samples(dtype, H, W, 4)
    data = by_tifffile(array, **({} if array.ndim == 2 else {"extrasamples": (0, 0, 0), "planarconfig": "contig"}))
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(DataError, match=f"/a: a mask has one channel of whole numbers, this file has {told}"):
        next(mask_bands(tmp_path / "a", 10))


def test_64_bit_floats_are_rounded_with_a_word(tmp_path, caplog):
    array = np.random.default_rng(0).normal(size=(4, 5, 2))
    array[0, 0] = np.nan, np.inf
    np.save(tmp_path / "a.npy", array)
    tell_once.cache_clear()
    for _ in range(2):
        np.testing.assert_array_equal(read_image(tmp_path / "a.npy"), array.astype(np.float32))
    assert caplog.text.count("rounded to 32 bits") == 1


def test_truth_values_are_a_mask(tmp_path):
    array = np.arange(20).reshape(4, 5) % 3 == 0
    np.save(tmp_path / "a.npy", array)
    assert np.concatenate(list(mask_bands(tmp_path / "a.npy", 3))).tolist() == array.astype(int).tolist()
    np.testing.assert_array_equal(read_image(tmp_path / "a.npy")[..., 0], array * 255)
