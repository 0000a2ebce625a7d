"""What a source keeps of its labels lies in arrays, which worker processes share, whatever the format."""

import pickle

import numpy as np
import pytest
from box_files import annotation, coco, images, write
from fuzz_labels import FORMATS
from geo_files import feature, geojson, geotiff, polygon, square, tags
from image_files import save
from test_labelme import labelme, shape

from hires.data.coco import CocoFolder, CocoMasks
from hires.data.csv_boxes import CsvBoxes
from hires.data.geo_folder import GeoBoxes, GeoMasks
from hires.data.instance_folder import InstanceFolder
from hires.data.labelme import LabelmeFolder, LabelmeMasks
from hires.data.mask_source import MaskedImages

MANY = 100


@pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)
def test_sources_survive_the_way_to_a_worker(tmp_path, make):
    images(tmp_path, "a.png")
    source = make(tmp_path)[1]().source("train")
    copy = pickle.loads(pickle.dumps(source))
    for index in range(len(source)):
        mine, theirs = source.read(index)[1], copy.read(index)[1]
        assert mine.keys() == theirs.keys()
        for name in mine.keys() - {"masks"}:
            np.testing.assert_array_equal(mine[name], theirs[name])
        assert len(mine.get("masks", ())) == len(theirs.get("masks", ()))
    assert isinstance(source, MaskedImages) == ("mask" in source.read(0)[1])


def as_coco(root):
    given = [annotation(n, bbox=[n % 50, n // 50, 5, 5]) for n in range(MANY)]
    images(root, "7.png", "9.png")
    coco(root / "a.json", given)
    common = {"root": str(root), "annotations": "a.json", "splits": {}}
    return CocoFolder(**common, instance_masks=True), CocoMasks(**common)


def as_csv(root):
    write(root / "a.csv", "".join(f"a.png,{n % 50},{n // 50},{n % 50 + 5},9,x\n" for n in range(MANY)))
    return (CsvBoxes(root=str(root), annotations="a.csv"),)


def as_labelme(root):
    labelme(root / "a.json", *(shape("x", [[n % 50, n // 50], [55, 35]], "rectangle") for n in range(MANY)))
    paired = {"root": str(root), "images": "*.png", "annotations": "*.json"}
    return LabelmeFolder(**paired, instance_masks=True), LabelmeMasks(**paired)


def as_geojson(root):
    geotiff(root / "a.tif", tags((0.0, 0.0), 1.0))
    geojson(root / "a.geojson", *(feature(polygon(square(n % 50, -(n // 50), 5))) for n in range(MANY)))
    common = {"root": str(root), "images": "*.tif", "annotations": "a.geojson", "classes": ["x"]}
    return GeoBoxes(**common, instance_masks=True), GeoMasks(**common)


def as_instances(root):
    save(root / "masks/a.png", np.arange(40 * 60, dtype=np.uint16).reshape(40, 60) % (MANY + 1))
    common = {"images": "*.png", "masks": "masks/*", "classes": ["x"], "instance_masks": True, "cache_gib": 0}
    return (InstanceFolder(root=str(root), **common),)


def lists_of(value, depth=0):
    """What holds a Python object for every one of the labels."""
    if isinstance(value, (list, dict, tuple, set)):
        if len(value) >= MANY // 2:
            yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from lists_of(part, depth)
    if depth < 4 and hasattr(value, "__dict__"):
        for part in vars(value).values():
            yield from lists_of(part, depth + 1)
    if isinstance(value, np.ndarray) and value.dtype == object:
        yield value


@pytest.mark.parametrize("make", [as_coco, as_csv, as_labelme, as_geojson, as_instances])
def test_there_is_no_python_object_for_each_label(tmp_path, make):
    images(tmp_path, "a.png")
    for settings in make(tmp_path):
        source = settings.source("train")
        assert isinstance(source, MaskedImages) or len(source.objects(0)["boxes"]) == MANY
        assert not list(lists_of(source))
