"""Files are decoded upright and unchanged, or refused by name."""

import io
import logging

import numpy as np
import pytest
from image_files import noise, save
from image_writers import png
from PIL import Image, ImageOps

from hires.data.images import image_size, mask_bands, read_image
from hires.interfaces import DataError


def read_mask(path):
    return np.concatenate(list(mask_bands(path, 1024)))


@pytest.mark.parametrize("kind", ["png", "tif", "bmp", "webp"])
def test_lossless_files_come_back_as_they_were(tmp_path, kind):
    image = noise(31, 45)
    options = {"lossless": True} if kind == "webp" else {}
    np.testing.assert_array_equal(read_image(save(tmp_path / f"a.{kind}", image, **options)), image)


def test_gray_stays_one_channel(tmp_path):
    image = noise(31, 45, 1)
    np.testing.assert_array_equal(read_image(save(tmp_path / "a.png", image)), image[:, :, None])


def test_jpeg_equals_pillow(tmp_path):
    path = save(tmp_path / "a.jpg", noise(64, 48), quality=95)
    difference = read_image(path).astype(int) - np.asarray(Image.open(path))
    assert np.abs(difference).max() <= 2


@pytest.mark.parametrize("kind", ["jpg", "png", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied_once(tmp_path, kind, orientation):
    exif = Image.Exif()
    exif[274] = orientation
    corners = np.zeros((32, 48, 3), np.uint8)
    corners[:16, :16, 0] = corners[:16, 32:, 1] = corners[16:, :16, 2] = 255
    path = save(tmp_path / f"a.{kind}", corners, exif=exif, **({"quality": 95} if kind == "jpg" else {}))
    upright = np.asarray(ImageOps.exif_transpose(Image.open(path)))
    image = read_image(path)
    assert image.shape[:2] == image_size(path) == upright.shape[:2]
    assert image.shape[:2] == ((32, 48) if orientation < 5 else (48, 32))
    assert np.abs(image.astype(int) - upright).mean() < 3


@pytest.mark.parametrize("kind", ["png", "tif"])
@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_masks_are_turned_like_images(tmp_path, kind, orientation):
    exif = Image.Exif()
    exif[274] = orientation
    mask = noise(32, 48, 1)
    path = save(tmp_path / f"a.{kind}", mask, exif=exif)
    np.testing.assert_array_equal(read_mask(path), np.rot90(mask, {1: 0, 3: 2, 6: -1}[orientation]))


def test_palette_masks_give_indices(tmp_path):
    indices = noise(20, 30, 1) % 4
    file = Image.fromarray(indices)
    file.putpalette([200, 100, 50, 0, 0, 0, 9, 9, 9, 1, 2, 3])
    file.save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_mask(tmp_path / "a.png"), indices)


def test_one_bit_masks_give_0_and_1(tmp_path):
    mask = noise(20, 30, 1) > 99
    Image.fromarray(mask).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_mask(tmp_path / "a.png"), mask.astype(np.uint8))


@pytest.mark.parametrize("kind", ["png", "tif"])
def test_16_bit_masks_keep_their_values(tmp_path, kind):
    mask = np.array([[0, 1, 40000], [65535, 256, 7]], np.uint16)
    np.testing.assert_array_equal(read_mask(save(tmp_path / f"a.{kind}", mask)), mask)


@pytest.mark.parametrize("bits", [2, 4])
def test_low_bit_gray_masks_are_not_stretched(tmp_path, bits):
    (tmp_path / "a.png").write_bytes(png(np.array([[0, 1, 2, 3]], np.uint8), bits))
    assert read_mask(tmp_path / "a.png").tolist() == [[0, 1, 2, 3]]


def test_multi_channel_masks_are_refused(tmp_path):
    path = save(tmp_path / "a.png", noise(8, 8))
    with pytest.raises(DataError, match="a.png.*mode RGB"):
        read_mask(path)


def test_alpha_is_dropped_with_a_word(tmp_path, caplog):
    image = noise(8, 8, 4)
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(read_image(save(tmp_path / "a.png", image)), image[..., :3])


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999])
@pytest.mark.parametrize("kind", ["jpg", "png", "tif", "bmp"])
def test_truncated_files_are_refused(tmp_path, kind, keep):
    path = save(tmp_path / f"a.{kind}", noise(200, 300))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(DataError, match=rf"a\.{kind}"):
        read_image(path)


def test_broken_files_leave_no_noise_of_the_library(tmp_path, capfd):
    path = save(tmp_path / "a.tif", noise(200, 300))
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(DataError):
        read_image(path)
    assert capfd.readouterr() == ("", "")


def test_a_jpeg_with_a_thumbnail_is_still_seen_as_truncated(tmp_path):
    thumbnail = io.BytesIO()
    Image.fromarray(noise(16, 16)).save(thumbnail, "JPEG")
    path = save(tmp_path / "a.jpg", noise(200, 300), exif=b"Exif\0\0" + thumbnail.getvalue())
    data = path.read_bytes()
    path.write_bytes(data[:-100])
    with pytest.raises(DataError, match="cut short"):
        read_image(path)


def test_bytes_after_the_jpeg_do_not_matter(tmp_path):
    path = save(tmp_path / "a.jpg", noise(32, 32), progressive=True)
    path.write_bytes(path.read_bytes() + b"\0" * 100)
    assert read_image(path).shape == (32, 32, 3)


def test_truncated_masks_are_refused(tmp_path):
    path = save(tmp_path / "a.png", noise(100, 100, 1))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataError, match="a.png"):
        read_mask(path)


@pytest.mark.parametrize("read", [read_image, read_mask, image_size])
def test_what_is_no_image_is_named(tmp_path, read):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("hello")
    for name, problem in {
        "folder.png": "folder",
        "empty.png": "empty",
        "text.png": "not an image",
        "missing.png": "no such file",
    }.items():
        with pytest.raises(DataError, match=f"{name}.*{problem}"):
            read(tmp_path / name)


def test_a_header_of_400_megapixels_is_read_without_decoding(tmp_path):
    path = tmp_path / "large.png"
    path.write_bytes(png(np.zeros((1, 1), np.uint8), 1, size=(20_000, 20_000)))
    assert image_size(path) == (20_000, 20_000)


def test_pillow_s_limit_on_pixels_does_not_hold_here(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    path = save(tmp_path / "a.png", noise(40, 40, 1))
    assert read_mask(path).shape == read_image(path).shape[:2] == image_size(path) == (40, 40)
    assert Image.MAX_IMAGE_PIXELS == 100
