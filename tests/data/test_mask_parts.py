"""Several mask files an image are united to one mask of classes."""

import numpy as np
import pytest
import tifffile
from image_files import noise, save

from hires.data import part_source
from hires.data.checks.survey import Shown, survey
from hires.data.mask_parts import MaskParts
from hires.interfaces import IGNORE, DataError, Window
from hires.settings import SettingError

CLASSES = {"crack": "*/crack_*.png", "pit": "*/pit_*.png"}


def spot(top, left, value=255):
    mask = np.zeros((20, 30), np.uint8)
    mask[top : top + 4, left : left + 4] = value
    return mask


@pytest.fixture
def parts(folder, tmp_path):
    """A: two cracks and a pit over the second; B: a crack; C: nothing."""
    for number, name in enumerate("ABC"):
        save(folder / name / f"IMG_{name}.png", noise(20, 30, seed=number))
    save(folder / "A/crack_01.png", spot(0, 0))
    save(folder / "A/crack_02.png", spot(10, 10))
    save(folder / "A/pit_01.png", spot(12, 12, 1))
    save(folder / "B/crack_01.png", np.repeat(spot(5, 5)[..., None], 3, axis=2))

    def make(**changes):
        usual = {"images": "*/*.png", "classes": CLASSES, "splits": {}, "cache_gib": 0}
        return MaskParts(root=str(folder), **(usual | {"cache_dir": str(tmp_path / "cache")} | changes))

    return make


def expected():
    mask = np.zeros((20, 30), np.uint8)
    mask[:4, :4] = mask[10:14, 10:14] = 1
    mask[12:16, 12:16] = 2
    return mask


def test_files_of_a_class_are_united_and_later_classes_cover_earlier_ones(parts):
    source = parts().source("train")
    assert source.classes == ("background", "crack", "pit")
    assert [source.name(index) for index in range(3)] == ["A/IMG_A.png", "B/IMG_B.png", "C/IMG_C.png"]
    image, target = source.read(0)
    np.testing.assert_array_equal(image, noise(20, 30, seed=0))
    np.testing.assert_array_equal(target["mask"], expected())
    np.testing.assert_array_equal(source.mask(1), spot(5, 5, 1))
    assert not source.mask(2).any()


def test_several_labels_a_pixel_and_no_background(parts):
    mask = parts(multilabel=True).source("train").mask(0)
    assert (mask[11, 11], mask[13, 13], mask[15, 15], mask[19, 0]) == (1, 3, 2, 0)
    mask = parts(background=None).source("train").mask(0)
    assert (mask[11, 11], mask[13, 13], mask[19, 0]) == (0, 1, IGNORE)


def test_the_cache_changes_nothing_but_notices_another_file(parts, folder):
    cached = parts(cache_gib=1).source("train")
    for window in (None, Window(9, 8, 8, 10)):
        for _ in range(2):
            whole = expected()
            wanted = whole if window is None else whole[9:17, 8:18]
            np.testing.assert_array_equal(cached.mask(0, window), wanted)
            np.testing.assert_array_equal(parts().source("train").mask(0, window), wanted)
    (folder / "A/pit_01.png").write_bytes((folder / "B/crack_01.png").read_bytes())
    assert cached.mask(0)[6, 6] == 2


def test_of_large_images_only_windows_are_decoded(folder, tmp_path, monkeypatch):
    mask = np.zeros((600, 400), np.uint8)
    mask[100:110, 300:310] = 255
    save(folder / "a/image.png", noise(600, 400))
    tifffile.imwrite(folder / "a/crack_1.tif", mask, tile=(64, 64))
    settings = MaskParts(
        root=str(folder),
        images="*/image.png",
        classes={"crack": "*/crack_*.tif"},
        splits={},
        cache_gib=1,
        cache_dir=str(tmp_path / "cache"),
    )
    source, read = settings.source("train"), []
    monkeypatch.setattr(part_source, "LARGE", 1000)
    bands = part_source.mask_bands
    monkeypatch.setattr(part_source, "mask_bands", lambda *given: (read.append(given[2]), bands(*given))[1])
    window = Window(90, 290, 30, 30)
    np.testing.assert_array_equal(source.mask(0, window), (mask[90:120, 290:320] > 0).astype(np.uint8))
    assert read == [window]


@pytest.mark.parametrize(
    ("images", "classes", "files"),
    [
        ("images/*.jpg", {"crack": "masks/*_crack*.png"}, ["masks/7_crack.png", "masks/7_crack_2.png"]),
        ("*.png", {"crack": "*_crack_?.png"}, ["7_crack_1.png"]),
        ("images/**/*.png", {"crack": ["cracks/**/*.png", "fine/*/*.png"]}, ["cracks/7.png", "fine/7/3.png"]),
        ("*/photo.png", {"crack": "*/crack/*.png"}, ["7/crack/1.png", "7/crack/2.png"]),
    ],
)
def test_files_find_their_image(folder, images, classes, files):
    names = {name: images.replace("**/*", "*").replace("*", name) for name in "78"}
    for name in names.values():
        save(folder / name, noise(20, 30))
    for file in files:
        save(folder / file, spot(0, 0))
    source = MaskParts(root=str(folder), images=images, classes=classes, splits={}, cache_gib=0).source("train")
    assert {source.name(index): [part.path for part in source.parts(index)] for index in range(2)} == {
        names["7"]: files,
        names["8"]: [],
    }


def test_images_without_mask(parts, caplog):
    assert len(parts().source("train")) == 3
    assert "1 image(s) without any mask are taken for images that show no class: C/IMG_C.png" in caplog.text
    assert len(parts(missing_labels="skip").source("train")) == 2
    with pytest.raises(DataError, match=r"1 image\(s\) without any mask: C/IMG_C.png; .*missing_labels=negative"):
        parts(missing_labels="error").source("train")
    assert len(parts(missing_labels="error", exclude=["C/*"]).source("train")) == 2


def test_what_cannot_be_meant_so(parts, folder, caplog):
    with pytest.raises(DataError, match=r"no image file matches data.classes.pit='\*/pit\*.tif'"):
        parts(classes={"crack": "*/crack_*.png", "pit": "*/pit*.tif"}).source("train")
    with pytest.raises(SettingError, match="background"):
        parts(classes={"background": "*/crack_*.png"})
    with pytest.raises(SettingError, match="classes"):
        parts(classes={})
    save(folder / "D/crack_01.png", spot(0, 0))
    assert len(parts().source("train")) == 3
    assert "1 mask(s) without image are not used: D/crack_01.png" in caplog.text
    assert [pair.image for pair in parts(exclude=["A/*"]).parts().pairs] == ["B/IMG_B.png", "C/IMG_C.png"]
    with pytest.raises(DataError, match="data.exclude=.* leaves out all mask files"):
        parts(exclude=["*/crack_*", "*/pit_*"]).parts()
    save(folder / "A/IMG_0.png", noise(20, 30))
    with pytest.raises(DataError, match="A/IMG_0.png gives 'A/IMG_0', A/crack_01.png 'A/01'; the first wildcards"):
        parts().source("train")


def test_a_file_of_another_size_or_that_is_broken(parts, folder):
    save(folder / "A/pit_01.png", np.zeros((20, 31), np.uint8))
    with pytest.raises(DataError, match=r"A/pit_01.png: mask is 20x31 .*A/IMG_A.png 20x30"):
        parts().source("train").mask(0)
    (folder / "A/pit_01.png").write_bytes(b"no image")
    with pytest.raises(DataError, match="A/pit_01.png"):
        parts().source("train").mask(0, Window(0, 0, 5, 5))


def test_what_a_check_finds(parts, folder):
    def found(settings):
        return survey(settings, Shown((64, 64), "window", 1), lambda done, total: None)

    seen = found(parts(splits={"val": "B/*"}, workers=0))
    assert {one.name: one.counts for one in seen.classes} == {
        "background": {"train": 2 * 600 - 44, "val": 584},
        "crack": {"train": 28, "val": 16},
        "pit": {"train": 16, "val": 0},
    }
    codes = {one.code: one for one in seen.findings}
    assert codes["image-without-label"].severity == "info"
    assert codes["class-not-evaluated"].places == (("pit", "not in val"),)
    (folder / "A/pit_01.png").write_bytes(b"no image")
    codes = {
        one.code: one for one in found(parts(splits={"val": "B/*"}, workers=0, missing_labels="error")).findings
    }
    assert codes["image-without-label"].severity == "error"
    assert "A/pit_01.png" in codes["unreadable-mask"].places[0].detail


def test_a_check_finds_loops_and_files_of_another_size(parts, folder):
    def found(**changes):
        settings = parts(workers=0, images="**/*.png", splits={"val": "B/*"}, **changes)
        return survey(settings, Shown((64, 64), "window", 1), lambda done, total: None)

    (folder / "A/again").symlink_to("..")
    (folder / "round").symlink_to("round")
    looped = found(classes={"crack": "**/crack_*.png", "pit": "**/pit_*.png"})
    assert len(looped.pairs) == 3
    assert [one.places for one in looped.findings if one.code == "looping-link"] == [(("A/again", ""),)]
    (folder / "A/pit_01.png").unlink()
    save(folder / "A/pit_01.png", np.zeros((20, 31), np.uint8))
    (wrong,) = [one for one in found().findings if one.severity == "error"]
    assert (wrong.number, wrong.places[0].file) == (1, "A/IMG_A.png")
    assert "A/pit_01.png: mask is 20x31 (height x width)" in wrong.places[0].detail


def test_mask_files_with_endings_in_capitals_are_told_and_are_no_images(parts, folder, caplog):
    (folder / "A/pit_01.png").rename(folder / "A/pit_01.PNG")
    save(folder / "B/pit_01.png", spot(0, 0))
    findings = survey(parts(workers=0), Shown((64, 64), "window", 1), lambda done, total: None).findings
    told = [(one.places, one.advice) for one in findings if one.code == "other-case"]
    assert told == [((("A/pit_01.PNG", ""),), "data.classes.pit=*/pit_*.[pP][nN][gG] takes both")]
    assert len(parts(images="*/*").source("train")) == 3
    assert "such as A/pit_01.PNG" in caplog.text
