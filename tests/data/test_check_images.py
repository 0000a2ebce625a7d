"""What a survey finds in image files, in their splits, and in what they show twice."""

import numpy as np
import pytest
import tifffile
from image_files import noise, save
from PIL import Image

from hires.data.checks.survey import Shown, survey
from hires.data.mask_folder import MaskFolder
from hires.interfaces import DataError

SHOWN = Shown((64, 64), "window", 1)


@pytest.fixture
def root(tmp_path):
    """Six pairs of smooth images, each another, with masks of 0 and a spot of 255."""
    for number in range(6):
        save(tmp_path / "images" / f"{number}.png", smooth(number))
        mask = np.zeros((96, 80), np.uint8)
        mask[20:60, 20:70] = 255
        save(tmp_path / "masks" / f"{number}.png", mask)
    return tmp_path


def smooth(seed: int, height: int = 96, width: int = 80) -> np.ndarray:
    grid = Image.fromarray(noise(6, 5, seed=seed))
    return np.asarray(grid.resize((width, height), Image.Resampling.BICUBIC))


def surveyed(root, **changes):
    usual = {
        "root": str(root),
        "images": "images/*",
        "masks": "masks/*.png",
        "classes": {"background": 0, "thing": 255},
        "splits": {"val": "images/[45].*"},
        "cache_gib": 0,
        "workers": 0,
    }
    return survey(MaskFolder(**{**usual, **changes}), SHOWN, lambda done, total: None).findings


def seen(root, **changes):
    """Findings by code: (severity, {file: detail})."""
    findings = surveyed(root, **changes)
    assert len({one.code for one in findings}) == len(findings)
    return {one.code: (one.severity, {place.file: place.detail for place in one.places}) for one in findings}


def test_a_sound_set_has_nothing(root):
    assert seen(root) == {}


def test_every_broken_file_is_named(root):
    (root / "images" / "0.png").write_bytes(b"")
    (root / "images" / "1.png").write_bytes(b"not a picture")
    data = (root / "images" / "2.png").read_bytes()
    (root / "images" / "2.png").write_bytes(data[: len(data) // 2])
    Image.fromarray(smooth(3)).save(root / "images" / "3.jpg")
    (root / "images" / "3.png").unlink()
    data = (root / "images" / "3.jpg").read_bytes()
    (root / "images" / "3.jpg").write_bytes(data[: len(data) * 2 // 3])
    (root / "masks" / "4.png").write_bytes(b"GIF89a")
    (root / "images" / "5.png").unlink()
    (root / "images" / "5.png").symlink_to(root / "images" / "5.png")
    found = seen(root)
    severity, broken = found["unreadable-image"]
    assert severity == "error"
    assert set(broken) == {"images/0.png", "images/1.png", "images/2.png", "images/3.jpg", "images/5.png"}
    assert all(broken.values())
    assert not any(str(root) in text for text in broken.values())
    assert set(found["unreadable-mask"][1]) == {"masks/4.png"}


@pytest.mark.parametrize(("broken", "severity"), [((0, 1), "warning"), ((0, 1, 2), "error"), ((4, 5), "error")])
def test_broken_files_that_are_skipped_stop_training_where_they_are_most(root, broken, severity):
    """More than half of the four images that are trained on, or of the two others."""
    (root / "images" / f"{broken[0]}.png").write_bytes(b"x")
    save(root / "masks" / f"{broken[1]}.png", np.zeros((40, 80), np.uint8))
    for number in broken[2:]:
        (root / "masks" / f"{number}.png").write_bytes(b"x")
    found = seen(root, on_error="skip")
    kinds = ["unreadable-image", "size-mismatch", "unreadable-mask"][: len(broken)]
    assert [found[kind][0] for kind in kinds] == [severity] * len(kinds)
    assert seen(root)["size-mismatch"][0] == "error"


def test_pairs_that_are_none(root):
    (root / "masks" / "0.png").unlink()
    (root / "images" / "1.png").unlink()
    save(root / "masks" / "2.png", np.zeros((40, 80), np.uint8))
    found = seen(root)
    assert found["image-without-label"] == ("error", {"images/0.png": ""})
    assert found["label-without-image"] == ("warning", {"masks/1.png": ""})
    assert found["size-mismatch"] == ("error", {"masks/2.png": "mask 40x80, image 96x80 (height x width)"})


def test_copies_and_leaks(root):
    save(root / "images" / "1.png", smooth(0))
    save(root / "images" / "4.bmp", smooth(2))
    (root / "images" / "4.png").unlink()
    nearly = smooth(3).astype(int) + np.random.default_rng(0).integers(-3, 4, (96, 80, 3))
    save(root / "images" / "5.png", nearly.clip(0, 255).astype(np.uint8))
    found = seen(root)
    assert found.pop("copies") == ("warning", {"images/0.png": "in train, and images/1.png in train"})
    assert found.pop("leak-copy") == ("error", {"images/2.png": "in train, and images/4.bmp in val"})
    assert found.pop("leak-similar") == (
        "warning",
        {"images/3.png": "in train, and images/5.png in val"},
    )
    assert found == {}


def test_a_brighter_copy_is_similar_and_a_turned_one_is_not(root):
    save(root / "images" / "4.png", (smooth(0) * 0.7 + 20).astype(np.uint8))
    save(root / "images" / "5.png", np.ascontiguousarray(smooth(1)[::-1]))
    assert set(seen(root)["leak-similar"][1]) == {"images/0.png"}


def test_turned_images_are_of_two_sizes(root):
    save(root / "images" / "0.png", smooth(0, 80, 96))
    texts = {one.code: one.text for one in surveyed(root)}
    assert texts["sizes-vary"] == "images have 2 sizes, from 80x96 to 96x80 (height x width)"


def test_images_that_show_nothing(root):
    for number in (0, 4):
        save(root / "images" / f"{number}.png", np.full((96, 80, 3), 7, np.uint8))
    assert seen(root) == {
        "blank": ("warning", dict.fromkeys(("images/0.png", "images/4.png"), "all pixels are 7"))
    }


def test_lists(root):
    (root / "train.txt").write_text("images/0.png\nold/1.png\n2\n2\nimages/9.png\n3.jpg\n")
    (root / "val.txt").write_text("images/4.png\nimages/3.png\n")
    found = seen(root, splits={"train": "train.txt", "val": "val.txt"})
    assert found["list-without-image"] == ("error", {"train.txt": "images/9.png"})
    assert found["list-repeats"] == ("warning", {"train.txt": "2: 2 times"})
    assert found["leak-listed"] == ("error", {"images/3.png": "train and val"})
    assert found["unused-images"] == ("info", {"images/5.png": ""})
    assert found["list-other-name"][1] == {"train.txt": "3.jpg: taken for images/3.png"}  # and old/1.png
    assert seen(root, splits={"val": "no.txt"})["list-unreadable"][0] == "error"
    assert seen(root, splits={"val": "images/x*"})["glob-without-image"] == (
        "error",
        {"images/x*": "data.splits.val"},
    )
    missing = seen(root, splits={"train": "train.txt", "val": "val.txt"}, missing_entries="skip")
    assert missing["list-without-image"][0] == "warning"


def test_clips_and_groups(root):
    for number in range(6):
        (root / "images" / f"{number}.png").rename(root / "images" / f"clip1-{number:04}.png")
        (root / "masks" / f"{number}.png").rename(root / "masks" / f"clip1-{number:04}.png")
    found = seen(root, splits={"val": "images/*[45].png"})
    assert set(found["leak-frames"][1]) == {"images/clip1-0003.png"}
    assert seen(root, splits={"val": "images/*[45].png"}, groups=r"clip\d+")["leak-group"][0] == "error"
    assert seen(root, splits={"val": "images/*[45].png"}, groups=r"film\d+")["groups"][0] == "error"


def test_kinds_of_files(root):
    (root / "images" / "0.png").unlink()
    Image.fromarray(smooth(0)).save(root / "images" / "0.JPG", exif=orientation(3))
    Image.fromarray(smooth(1)).save(root / "images" / "1.png", format="JPEG")
    pages = [Image.fromarray(smooth(2)), Image.fromarray(smooth(9))]
    (root / "images" / "2.png").unlink()
    pages[0].save(root / "images" / "2.tif", save_all=True, append_images=pages[1:])
    save(root / "images" / "3.png", smooth(3)[:, :, 0])
    found = seen(root)
    assert found["orientation"] == ("info", {"images/0.JPG": "EXIF orientation 3"})
    assert found["capital-endings"] == ("info", {"images/0.JPG": ""})
    assert found["other-format"] == ("info", {"images/1.png": "is JPEG"})
    assert found["several-pictures"] == ("info", {"images/2.tif": "2 pictures"})
    assert found["mixed-bands"] == ("info", {"images/3.png": "1"})
    assert set(found) == {"orientation", "capital-endings", "other-format", "several-pictures", "mixed-bands"}


def orientation(value: int) -> Image.Exif:
    exif = Image.Exif()
    exif[274] = value
    return exif


def test_what_other_programs_lose(root):
    deep = smooth(0)[:, :, 0].astype(np.uint16) * 40
    for number in range(6):
        (root / "images" / f"{number}.png").unlink()
        bands = np.stack([deep + number] * 4) if number == 1 else deep * (number + 1) % 9000
        extra = {"photometric": "minisblack", "planarconfig": "separate"} if number == 1 else {}
        tifffile.imwrite(root / "images" / f"{number}.tif", bands, **extra)
    found = seen(root)
    severity, told = found["decoders-disagree"]
    assert severity == "info"
    assert set(told) == {f"images/{number}.tif" for number in range(6)}
    assert "unless asked for it unchanged" in told["images/0.tif"]
    assert found["bands-refused"][0] == "error"
    assert "data.bands=[1,2,3]" in found["bands-refused"][1]["images/1.tif"]


def test_types_that_do_not_go_together_and_pixels_that_are_none(root):
    (root / "images" / "0.png").unlink()
    values = smooth(0)[:, :, 0].astype(np.float32)
    values[3, 3] = np.nan
    tifffile.imwrite(root / "images" / "0.tif", values)
    found = seen(root)
    assert found["mixed-types"] == ("error", {"images/0.tif": "float32"})
    assert found["not-finite"] == ("error", {"images/0.tif": ""})
    assert "not-finite" not in seen(root, nodata=0.0)


def test_a_second_picture_that_is_broken_does_not_matter(root):
    path = root / "images" / "0.tif"
    (root / "images" / "0.png").unlink()
    tifffile.imwrite(path, np.stack([smooth(0)] * 2), photometric="rgb")
    with tifffile.TiffFile(path) as file:
        width = file.pages[1].tags[256].offset
    data = bytearray(path.read_bytes())
    data[width : width + 2] = b"\xfe\xff"  # a tag that nobody knows, in place of the width
    path.write_bytes(data)
    assert seen(root) == {}


def opaque(seed: int, alpha: np.ndarray | int) -> np.ndarray:
    return np.concatenate([smooth(seed), np.broadcast_to(np.uint8(alpha), (96, 80))[..., None]], axis=2)


def test_alpha_that_says_something_and_is_not_read(root):
    column = np.arange(80, dtype=np.uint8)
    for number in range(5):
        save(root / "images" / f"{number}.png", opaque(number, column if number == 3 else 255))
    (root / "images" / "5.png").unlink()
    tifffile.imwrite(root / "images" / "5.tif", opaque(5, column), photometric="rgb", extrasamples=["unassalpha"])
    found = seen(root)
    text = "alpha from 0 to 79"
    assert found["alpha-dropped"] == ("warning", {"images/3.png": text, "images/5.tif": text})
    named = seen(root, bands=[1, 2, 3, 4])
    assert not {"alpha-dropped", "bands-refused"} & set(named)
    assert "alpha-dropped" not in seen(root, bands=[3, 2, 1])
    assert "bands-refused" in seen(root, bands=[1, 2, 3, 4, 5])


def test_images_that_opencv_reads_otherwise(root):
    """Alpha and turned photographs, though they are 8-bit files of usual kinds."""
    save(root / "images" / "0.png", opaque(0, 255))
    (root / "images" / "1.png").unlink()
    Image.fromarray(smooth(1, 80, 96)).save(root / "images" / "1.jpg", exif=orientation(6))
    assert seen(root)["decoders-disagree"] == (
        "info",
        {
            "images/0.png": "cv2.imread reads it as 96x80, 4 bands of uint8 instead of 96x80, 3 bands of uint8, "
            "unchanged",
            "images/1.jpg": "cv2.imread reads it as 80x96, 3 bands of uint8 instead of 96x80, 3 bands of uint8, "
            "unchanged",
        },
    )


def test_sizes(root):
    save(root / "images" / "0.png", smooth(0, 33, 90))
    save(root / "masks" / "0.png", np.eye(33, 90, dtype=np.uint8) * 255)
    found = seen(root)
    assert found["smaller-than-window"] == ("info", {"images/0.png": "33x90"})
    assert found["sizes-vary"][0] == "info"


def test_nothing_to_read(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        seen(tmp_path / "gone")


@pytest.mark.parametrize("workers", [0, 2])
def test_images_of_more_pixels_than_allowed(root, workers):
    save(root / "images" / "3.png", smooth(3, 97, 80))
    severity, told = seen(root, max_pixels=96 * 80, workers=workers)["unreadable-image"]
    assert (severity, list(told)) == ("error", ["images/3.png"])
    assert "data.max_pixels=7680" in told["images/3.png"]
    assert "unreadable-image" not in seen(root, workers=workers)


def test_workers_change_nothing(root):
    (root / "images" / "3.png").write_bytes(b"x")
    assert seen(root, workers=2) == seen(root)
