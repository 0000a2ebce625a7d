"""What a survey finds in masks, and how it counts their classes and measures their structures."""

import cv2
import numpy as np
import pytest
from image_files import noise, save
from PIL import Image

from hires.data.checks.survey import Shown, survey
from hires.data.checks.widths import LIMITS, narrow_pixels, share_below
from hires.data.mask_folder import MaskFolder


@pytest.fixture
def root(tmp_path):
    """Four noisy images."""
    for number in range(4):
        save(tmp_path / "images" / f"{number}.png", noise(60, 80, seed=number))
    return tmp_path


def write(root, *masks, folder="masks"):
    for number, mask in enumerate(masks):
        save(root / folder / f"{number}.png", mask)


def mask(**shown):
    """(60, 80) of 0 with columns of other values: v255=(10, 20)."""
    array = np.zeros((60, 80), np.uint8)
    for name, (start, stop) in shown.items():
        array[:, start:stop] = int(name[1:])
    return array


def surveyed(root, shown=((64, 64), "window", 1), **changes):
    usual = {
        "root": str(root),
        "images": "images/*",
        "masks": "masks/**/*.png",
        "classes": {"background": 0, "thing": 255},
        "splits": {"val": "images/3.png"},
        "cache_gib": 0,
        "workers": 0,
    }
    return survey(MaskFolder(**{**usual, **changes}), Shown(*shown), lambda done, total: None)


def seen(root, **changes):
    return {one.code: one for one in surveyed(root, **changes).findings if one.code != "smaller-than-window"}


def test_sound_masks_have_nothing(root):
    write(root, *[mask(v255=(0, 40))] * 4)
    assert seen(root) == {}


def test_a_link_that_leads_back_is_named_and_nothing_is_counted_twice(root):
    write(root, *[mask(v255=(0, 40))] * 4)
    (root / "images" / "again").symlink_to(".")
    found = surveyed(root, images="images/**/*.png")
    assert len(found.pairs) == 4
    links = [one for one in found.findings if one.code == "looping-link"]
    assert [one.places for one in links] == [(("images/again", ""),)]


def test_of_masks_that_cannot_be_read_no_class_is_missed(root):
    for number in range(4):
        (root / "masks").mkdir(exist_ok=True)
        (root / "masks" / f"{number}.png").write_bytes(b"broken")
    assert set(seen(root)) == {"unreadable-mask"}
    write(root, *[mask(v255=(0, 40))] * 4)
    (root / "masks" / "3.png").write_bytes(b"broken")  # the only one of val
    assert set(seen(root)) == {"unreadable-mask"}
    assert "class-not-evaluated" not in seen(root, splits={"val": "images/9.png"})  # of which there is none


def test_of_images_without_mask_no_class_is_missed(root):
    write(root, *[mask(v255=(0, 40))] * 3)
    assert set(seen(root)) == {"image-without-label"}  # val is the one without
    left_out = surveyed(root, missing_labels="skip", splits={"val": "images/2.png"})
    assert [pair.image for pair in left_out.pairs] == ["images/0.png", "images/1.png", "images/2.png"]
    assert [(one.severity, one.number) for one in left_out.findings if one.code == "image-without-label"] == [
        ("info", 1)
    ]
    assert seen(root, exclude=["*/3.png"], splits={"val": "images/2.png"}) == {}


def test_globs_that_disagree(root):
    write(root, *[mask(v255=(0, 40))] * 4)
    found = seen(root, masks="[m]asks/*.png")
    assert found["image-without-label"].places[0] == ("images/0.png", "gives '0'")
    assert "images/0.png gives '0', but masks/0.png gives 'm/0'" in found["image-without-label"].advice
    assert found["label-without-image"].places[0] == ("masks/0.png", "gives 'm/0'")
    assert set(found) == {"image-without-label", "label-without-image"}


def test_values_that_no_class_has(root):
    write(root, mask(v255=(0, 40), v7=(50, 52)), *[mask(v255=(0, 40))] * 3)
    found = seen(root)["unlisted-values"]
    assert (found.severity, found.places) == ("error", (("masks/0.png", "7: 120 px (2.5 % of it)"),))
    assert "data.unlisted=ignore" in found.advice
    assert seen(root, unlisted="ignore")["unlisted-values"].severity == "info"
    assert seen(root, ignore_values=[7]) == {}


def test_a_table_of_other_masks(root):
    write(root, *[mask(v3=(0, 80))] * 4)
    found = seen(root, classes={"background": 0, "thing": 1}, unlisted="ignore")
    assert (found["unlisted-values"].severity, found["unlisted-values"].number) == ("error", 4)
    assert "100 % of all pixels" in found["unlisted-values"].text
    assert "these hold 3" in found["unlisted-values"].advice
    assert found["class-unused"].places == (("background", ""), ("thing", ""))


def test_soft_edges(root):
    soft = mask(v255=(20, 60), **{f"v{20 * n}": (60 + n, 61 + n) for n in range(1, 9)})
    write(root, *[soft] * 4)
    assert "data.threshold=127" in seen(root)["unlisted-values"].advice
    found = seen(root, threshold=127)
    assert set(found) == {"soft-masks"}
    assert found["soft-masks"].places[0].detail.endswith("; 2520 of 2880 px above")
    assert "12 % of a mask's foreground" in found["soft-masks"].text


def test_folders_whose_masks_are_empty(root):
    for number in range(4):
        (root / "images" / "bad").mkdir(exist_ok=True)
        (root / "images" / f"{number}.png").rename(root / "images" / "bad" / f"{number}.png")
    write(root, mask(), *[mask(v255=(0, 40))] * 3, folder="masks/bad")
    table = {"sound": 0, "bad": "bad/255", "worse": "worse/255"}
    found = seen(root, images="images/**/*.png", classes=table, splits={"val": "images/bad/3.png"})
    assert found["empty-masks"].places == (("masks/bad/0.png", "no pixel of bad"),)
    assert found["folder-without-mask"].places == (("worse", ""),)
    assert found["class-unused"].places == (("worse", ""),)


def test_palettes(root):
    for number, colours in enumerate([(255, 0, 0, 0, 255, 0), (255, 0, 0, 0, 255, 0), (0, 255, 0, 255, 0, 0)]):
        image = Image.fromarray(mask(v1=(0, 40))).convert("P")
        image.putpalette(colours)
        (root / "masks").mkdir(exist_ok=True)
        image.save(root / "masks" / f"{number}.png")
    (root / "images" / "3.png").unlink()
    split = {"val": "images/2.png"}
    found = seen(root, classes={"a": 0, "b": 1}, splits=split)
    assert (found["palettes-differ"].severity, found["palettes-differ"].number) == ("error", 1)
    by_colour = seen(root, classes={"a": "#FF0000", "b": "#00FF00"}, splits=split)
    assert set(by_colour) == {"palette-masks"}
    assert "3 of 3 masks are palette files, with 2 palettes" in by_colour["palette-masks"].text


def test_a_file_of_other_colours(root):
    colours = np.zeros((60, 80, 3), np.uint8)
    colours[:, :40] = (255, 0, 0)
    write(root, *[colours] * 4)
    (root / "classes.json").write_text('{"x": "#123456", "y": "#654321"}')
    (root / "other.json").write_text('["#FF0000", "#000000"]')
    found = seen(root, classes={"a": "#FF0000", "b": "#000000"})
    assert found["classes-file"].places == (("classes.json", "its 2 colours are 0 % of the pixels"),)


def test_classes_in_splits(root):
    write(root, *[mask(v255=(0, 40), v9=(79, 80))] * 3, mask(v5=(0, 10), v255=(10, 40)))
    table = {"background": 0, "thing": 255, "rare": 9, "late": 5, "never": 4}
    result = surveyed(root, classes=table)
    found = {one.code: one for one in result.findings}
    assert found["class-unused"].places == (("never", ""),)
    assert found["class-untaught"].places == (("late", "only in val"),)
    assert found["class-not-evaluated"].places == (("rare", "not in val"),)
    assert found["classes-uneven"].places == (("rare", "180 pixels, 1.2 %"),)
    counts = {one.name: one.counts for one in result.classes}
    assert counts["thing"] == {"val": 30 * 60, "train": 3 * 40 * 60}
    assert counts["late"] == {"val": 600, "train": 0}
    assert {one.name: one.images["train"] for one in result.classes} == {
        **{"background": 3, "thing": 3, "rare": 3},
        **{"late": 0, "never": 0},
    }


def test_several_classes_a_pixel(root):
    write(root, *[mask(v1=(0, 40), v3=(40, 60))] * 4)
    table = {"disc": (1, 3), "cup": 3}
    result = surveyed(root, classes=table, multilabel=True)
    assert [one.counts["train"] for one in result.classes] == [3 * 60 * 60, 3 * 20 * 60]
    assert [one.code for one in result.findings if one.severity != "info"] == []


def test_what_is_lost_when_images_are_resized(root):
    big = np.zeros((600, 800), np.uint8)
    for x in range(0, 800, 100):
        big[:, x : x + 10] = 255
    big[:150, 300:] = 255
    for number in range(4):
        save(root / "images" / f"{number}.png", noise(600, 800, seed=number))
    write(root, *[big] * 4)
    found = {one.code: one for one in surveyed(root, shown=((96, 96), "resize", 1)).findings}
    severity, text, advice = found["too-small"].severity, found["too-small"].text, found["too-small"].advice
    assert (severity, advice) == ("warning", "train on windows: data.fit=window")
    assert "of its pixels are under 3 px at image_size 96" in text
    classes = surveyed(root).classes
    assert classes[1].below["8"] < 0.01
    assert 0.3 < classes[1].below_resized < 0.5
    assert "too-small" not in {one.code for one in surveyed(root).findings}
    assert "too-small" not in {one.code for one in surveyed(root, shown=((512, 512), "resize", 1)).findings}


@pytest.mark.parametrize("width", [1, 2, 3, 5, 7, 11, 20, 40])
@pytest.mark.parametrize("offset", [0, 3])
def test_bars_are_as_narrow_as_they_are(width, offset):
    shown = np.zeros((256, 256), np.uint8)
    shown[100 + offset : 100 + offset + width] = 1
    narrow = dict(zip(LIMITS, narrow_pixels(shown) / shown.sum(), strict=True))
    # 30 % off at most, where the mask was halved
    assert all(share < 0.01 for limit, share in narrow.items() if limit <= width * 0.7)
    assert all(share > 0.99 for limit, share in narrow.items() if limit > width * 1.4)


def test_narrow_parts_of_wide_things_are_told_apart():
    shown = np.zeros((512, 512), np.uint8)
    cv2.circle(shown, (150, 256), 120, 1, -1)
    area = int(shown.sum())
    cv2.line(shown, (270, 256), (511, 256), 1, 3)
    line = int(shown.sum()) - area
    narrow = narrow_pixels(shown)
    assert narrow[LIMITS.index(3)] < 5
    assert narrow[LIMITS.index(6)] == pytest.approx(line, rel=0.05)
    assert narrow[LIMITS.index(64)] < line + 0.05 * area
    total = float(shown.sum())
    assert 0 < share_below(4.5, narrow, total) < share_below(5.5, narrow, total) <= line / total * 1.05


def test_what_goes_on_beyond_the_border_is_not_narrow():
    assert narrow_pixels(np.pad(np.ones((256, 40), np.uint8), ((0, 0), (0, 216))))[LIMITS.index(64)] == 0
