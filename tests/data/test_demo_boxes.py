"""The demo as boxes shows the same defects as the demo as masks."""

import numpy as np
import pytest

from hires.data.demo import DemoSettings
from hires.data.demo_source import DemoBoxes, DemoFolder
from hires.interfaces import Window

SPLITS = ("train", "val", "test")
CLASSES = {"background": 0, "scratch": 1, "pit": 2, "stain": 3}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    usual = {
        "root": str(tmp_path_factory.mktemp("demo") / "demo"),
        "generator": DemoSettings(size=256, train=2, val=1, test=1),
        "cache_gib": 0,
    }
    boxes = DemoBoxes(
        annotations={split: f"{split}/annotations.json" for split in SPLITS},
        images={split: split for split in SPLITS},
        instance_masks=True,
        **usual,
    )
    masks = DemoFolder(
        images="*/images/*.png",
        masks="*/masks/*.png",
        classes=CLASSES,
        splits={split: f"{split}/images/*" for split in SPLITS},
        **usual,
    )
    return boxes, masks


def test_splits_and_classes(sources):
    boxes, masks = sources
    for split in SPLITS:
        assert boxes.has_split(split)
        one, other = boxes.source(split), masks.source(split)
        assert [one.name(i) for i in range(len(one))] == [other.name(i) for i in range(len(other))]
        assert one.classes == ("scratch", "pit", "stain")
        assert one.category_ids == (1, 2, 3)


@pytest.mark.parametrize("window", [None, Window(37, 51, 120, 99)])
def test_instance_masks_make_up_the_mask(sources, window):
    boxes, masks = (settings.source("train") for settings in sources)
    for index in range(len(boxes)):
        target, expected = boxes.read(index, window)[1], masks.read(index, window)[1]["mask"]
        drawn = np.zeros_like(expected)
        for label, box, mask in zip(target["labels"], target["boxes"], target["masks"], strict=True):
            height, width = mask.mask.shape
            drawn[mask.y : mask.y + height, mask.x : mask.x + width][mask.mask] = label + 1
            if window is None:
                assert box.tolist() == [mask.x, mask.y, mask.x + width, mask.y + height]
        np.testing.assert_array_equal(drawn, expected)
