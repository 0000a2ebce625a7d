"""What does not fit together in COCO files is named."""

from functools import partial

import pytest
from box_files import CROWD, annotation, coco, coco_folder, images, write

from hires.interfaces import ConfigError, DataError
from hires.settings import SettingError


@pytest.fixture
def settings(folder):
    images(folder, "img/7.png", "img/9.png")
    return partial(coco_folder, folder)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"annotations": {"train": "t.json"}, "fold": 0}, "fold: got"),
        ({"annotations": {"train": "t.json"}, "images": {"val": "img"}}, "images: got"),
        ({"images": {"val": "img"}}, "images: got"),
        ({"annotations": 3}, "annotations: got"),
        ({"annotations": {"train": "t.json", "vol": "v.json"}}, "annotations: got 'vol', .*did you mean val"),
    ],
)
def test_settings_that_make_no_sense(settings, changes, field):
    with pytest.raises(SettingError, match=f"^{field}"):
        settings(**changes)


@pytest.mark.parametrize(
    ("given", "changes", "problem"),
    [
        ([annotation(5, 99)], {}, "annotation 5 is of image 99, which is not listed"),
        ([annotation(5, 70, 4)], {}, "annotation 5 is of category 4, not listed"),
        ([annotation(5), annotation(5)], {}, "annotation id 5 stands there twice"),
        (
            [annotation(5, bbox=[1, 2, 3])],
            {},
            r"annotation 5 has bbox \[1, 2, 3\], expected \[x, y, width, height\]",
        ),
        ([annotation(5, bbox=[1, 2, float("nan"), 4])], {}, r"annotation 5 has bbox \[1, 2, nan, 4\], expected"),
        ([annotation(5, bbox=[1, 2, 10**400, 4])], {}, "annotation 5 has bbox .*four finite numbers"),
        ([annotation(5, bbox="1234")], {}, "annotation 5 has bbox '1234', expected"),
        ([annotation(5, category="cat")], {}, "annotation 5 has category_id 'cat', which is no whole number"),
        ([annotation(5, category=3.7)], {}, "annotation 5 has category_id 3.7, which is no whole number"),
        ([annotation(5, image=None)], {}, "annotation 5 has image_id None, which is no whole number"),
        ([annotation(10**30)], {}, "annotation 10{30} has id 10{30}, which does not fit into 64 bits"),
        ([annotation(5, area=-5)], {}, "annotation 5 has area -5, expected a number of pixels from 0"),
        ([annotation(5, area=float("nan"))], {}, "annotation 5 has area nan"),
        ([annotation(5, area="big")], {}, "annotation 5 has area 'big'"),
        ([annotation(5, iscrowd="no")], {}, "annotation 5 has iscrowd 'no', expected 0 or 1"),
        ([{"id": 5}], {}, "annotation 5 has no 'image_id'"),
        ([annotation(5), None], {}, "entry 2 of annotations is None, expected keys with values"),
        ([], {"categories": []}, "no categories"),
        ([], {"categories": [{"id": 1}]}, "entry 1 of categories has no 'name'"),
        ([], {"categories": [{"id": 2**63, "name": "a"}]}, "entry 1 of categories has id 9.*64 bits"),
        ([], {"categories": [{"id": 1, "name": None}]}, "entry 1 of categories has name None, which is no text"),
        (
            [],
            {"categories": [{"id": 4, "name": "a"}, {"id": 4, "name": "b"}]},
            "category id 4 stands there twice",
        ),
        ([], {"images": []}, "lists no image; name another file in data.annotations"),
        (
            [],
            {"images": [{"id": 10**30, "file_name": "a"}]},
            "entry 1 of images has id 10{30}, which does not fit",
        ),
        ([], {"images": [{"id": 1, "file_name": 3.5, "height": [1], "width": 1}]}, r"images has height \[1\]"),
        ([], {"images": {}}, "has no list 'images'"),
        (
            [],
            {"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}]},
            "image id 1 stands there twice",
        ),
        ([], {"images": [{"id": 1, "file_name": "../../x.png"}]}, "outside of the data set; set data.images"),
        ([], {"images": [{"id": 1, "file_name": "/x.png"}]}, "outside of the data set; set data.images"),
        ([], {"images": [{"id": 1, "file_name": "8.png"}]}, "1 of 1 images are not there: img/8.png"),
        ([annotation(5, segmentation=[])], {}, "annotation 5 has no segmentation; .*model=faster_rcnn"),
        ([annotation(5, segmentation=[[1, 2, [3], 4, 5, 6]])], {}, "annotation 5 has a polygon that is no list"),
        ([annotation(5, segmentation=CROWD | {"counts": ["x"]})], {}, "annotation 5 has run lengths that do not"),
        ([annotation(5, segmentation=CROWD | {"size": 7})], {}, "annotation 5 has a mask of 7"),
        ([annotation(5, segmentation=CROWD | {"size": [60, 40]})], {}, r"annotation 5 has a mask of \[60, 40\]"),
    ],
)
def test_broken_files_are_named(folder, settings, given, changes, problem):
    coco(folder / "all.json", given, **changes)
    with pytest.raises(DataError, match=f"all.json: .*{problem}"):
        settings(instance_masks=True).source("train")


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000])
def test_what_is_no_coco_file(folder, settings, text):
    write(folder / "all.json", text)
    with pytest.raises(DataError, match="all.json: "):
        settings().source("train")


def test_a_split_without_json_names_the_key(folder, settings):
    coco(folder / "v.json", [])
    with pytest.raises(
        ConfigError, match="^data.annotations: has no JSON for 'train', only for val; add train: FILE"
    ):
        settings(annotations={"val": "v.json"}).source("train")


def test_files_with_a_key_twice_or_numbers_beyond_any_image(folder, settings):
    write(folder / "all.json", '{"images": [], "annotations": [], "categories": [], "images": []}')
    with pytest.raises(DataError, match="all.json: is no JSON .*'images' stands twice"):
        settings().source("train")
    coco(folder / "all.json", [annotation(5, bbox=[0, 0, 1e9, 2])])
    with pytest.raises(DataError, match=r"annotation 5 has bbox \[0, 0, 1000000000.0, 2\], which is far outside"):
        settings().source("train")
    coco(folder / "all.json", [annotation(5, segmentation=[[0, 0, 1e30, 2, 5, 5]])])
    with pytest.raises(DataError, match="annotation 5 has a polygon that reaches far outside"):
        settings(instance_masks=True).source("train")
