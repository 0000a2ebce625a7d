"""What a folder holds beside the images to predict."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from hires.data.mask_parts import MaskParts
from hires.predictions.inputs import find_inputs
from hires.predictions.truth import without_truth


@pytest.fixture
def data(tmp_path):
    """Scans and their annotations in one folder each."""
    for name in ("Site 01/scan.tif", "Site 01/scan_labels.tif", "Site 01/scan_labels.jpg", "Site 02/scan.tif"):
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return SimpleNamespace(root_path=lambda: tmp_path / "set", images="*/scan.tif", masks="*/scan_labels.*")


def left(source, data):
    items, truth = without_truth(find_inputs(source, Path("/nowhere")), source, data)
    return {item.output for item in items}, list(truth.values())


def test_masks_are_told_by_the_glob_of_the_run_wherever_the_source_begins(data, tmp_path):
    root = tmp_path / "set"
    assert left(root, data) == ({"Site 01/scan", "Site 02/scan"}, [2])
    assert left(root / "Site 01", data) == ({"scan"}, [2])
    assert left(tmp_path, data) == ({"set/Site 01/scan", "set/Site 02/scan"}, [2])
    (tmp_path / "link").symlink_to(root)
    assert left(tmp_path / "link", data) == ({"Site 01/scan", "Site 02/scan"}, [2])
    data.masks = "*/scan*"
    assert left(root, data) == ({"Site 01/scan", "Site 02/scan"}, [2])


def test_what_is_named_itself_is_predicted(data, tmp_path):
    root = tmp_path / "set"
    assert left(root / "Site 01" / "scan_labels.tif", data) == ({"scan_labels"}, [])
    assert len(left(f"{root}/*/scan_*", data)[0]) == 2
    del data.masks
    assert len(left(root, data)[0]) == 4


def test_elsewhere_all_images_are_predicted(data, tmp_path):
    data.root_path = lambda: tmp_path / "other"
    assert len(left(tmp_path / "set", data)[0]) == 4


def test_what_lies_elsewhere_is_no_truth_whatever_the_globs(data, tmp_path):
    data.root_path = lambda: tmp_path / "other"
    data.images, data.masks = "**/*.nothing", "**/*"
    assert len(left(tmp_path / "set", data)[0]) == 4


def test_files_that_show_parts_of_an_image_are_truth_although_images_match_them(data, tmp_path):
    root = tmp_path / "set"
    parts = MaskParts(root=str(root), images="*/*", classes={"crack": "*/scan_*"}, splits={})
    assert left(root, parts) == ({"Site 01/scan", "Site 02/scan"}, [2])
