"""The demo data set: reproducible, consistent with its annotations, and worth its resolution."""

import hashlib
import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from hires.data import demo
from hires.data.demo import CLASSES, SPLITS, DemoSettings, ensure_demo, make_image
from hires.interfaces import DataError
from hires.settings import SettingError

SMALL = DemoSettings(size=256, train=2, val=1, test=1)


def tree_hash(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return ensure_demo(tmp_path_factory.mktemp("data") / "demo", SMALL)


@pytest.fixture(scope="module")
def big():
    """One image large enough for statistics, with its mask and defects."""
    return make_image(DemoSettings(size=1024), "train", 0)


@pytest.mark.parametrize("threads", [1, 2])
def test_same_seed_gives_the_same_bytes_for_any_thread_count(root, tmp_path, threads):
    before = cv2.getNumThreads()
    cv2.setNumThreads(threads)
    try:
        again = ensure_demo(tmp_path / "demo", SMALL)
    finally:
        cv2.setNumThreads(before)
    assert tree_hash(again) == tree_hash(root)


def test_a_large_image_does_not_depend_on_the_thread_count(big):
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        image, mask, _ = make_image(DemoSettings(size=1024), "train", 0)
    finally:
        cv2.setNumThreads(before)
    assert np.array_equal(image, big[0])
    assert np.array_equal(mask, big[1])


def test_seed_split_and_index_each_change_the_image():
    images = [
        make_image(settings, split, index)[0].tobytes()
        for settings, split, index in [
            (SMALL, "train", 0),
            (SMALL, "train", 1),
            (SMALL, "val", 0),
            (DemoSettings(size=256, seed=1), "train", 0),
        ]
    ]
    assert len(set(images)) == 4


def test_files_are_the_images_that_make_image_gives(root):
    image, mask, _ = make_image(SMALL, "train", 1)
    read = cv2.imread(str(root / "train/images/0001.png"), cv2.IMREAD_UNCHANGED)
    assert np.array_equal(cv2.cvtColor(read, cv2.COLOR_BGR2RGB), image)
    assert np.array_equal(cv2.imread(str(root / "train/masks/0001.png"), cv2.IMREAD_UNCHANGED), mask)


def test_masks_hold_every_class_and_nothing_else(root):
    for path in root.glob("*/masks/*.png"):
        mask = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        assert mask.dtype == np.uint8
        assert mask.shape == (256, 256)
        assert set(np.unique(mask)) == {0, 1, 2, 3}


@pytest.mark.parametrize("split", SPLITS)
def test_annotations_account_for_every_pixel_of_the_masks(root, split):
    content = json.loads((root / split / "annotations.json").read_text())
    assert [(c["id"], c["name"]) for c in content["categories"]] == list(enumerate(CLASSES))[1:]
    assert len(content["images"]) == getattr(SMALL, split)
    assert [a["id"] for a in content["annotations"]] == list(range(1, len(content["annotations"]) + 1))
    for entry in content["images"]:
        assert (entry["width"], entry["height"]) == (256, 256)
        mask = cv2.imread(str(root / split / "masks" / Path(entry["file_name"]).name), cv2.IMREAD_UNCHANGED)
        rebuilt = np.zeros_like(mask)
        for annotation in content["annotations"]:
            if annotation["image_id"] == entry["id"]:
                pixels = rasterize(annotation["segmentation"], mask.shape)
                assert list(cv2.boundingRect(pixels)) == annotation["bbox"]
                assert cv2.countNonZero(pixels) == annotation["area"]
                assert not annotation["iscrowd"]
                assert not rebuilt[pixels > 0].any()
                rebuilt[pixels > 0] = annotation["category_id"]
        assert np.array_equal(rebuilt, mask)


def rasterize(polygons: list[list[float]], shape: tuple[int, ...]) -> np.ndarray:
    """Pixels (H, W) whose centre lies in a COCO polygon, by sampling on a grid eight times as fine."""
    fine = np.zeros((shape[0] * 8, shape[1] * 8), np.uint8)
    for polygon in polygons:
        corners = np.round(np.array(polygon).reshape(-1, 1, 2) * 8 - 0.5).astype(np.int32)
        cv2.fillPoly(fine, [corners], 1)
    return np.ascontiguousarray(fine[4::8, 4::8])


def test_defects_are_of_the_promised_number_and_size(big):
    longest = {name: [] for name in CLASSES[1:]}
    for instance in big[2]:
        longest[CLASSES[instance.category]].append(max(instance.mask.shape))
    for name, (low, high) in {"scratch": (11, 60), "pit": (3, 16), "stain": (15, 60)}.items():
        assert 10 <= len(longest[name]) <= 20  # a quarter of the area of a full image
        assert low <= min(longest[name])
        assert max(longest[name]) <= high


def test_pits_and_scratches_stand_out_at_native_resolution_only(big):
    image, mask, instances = big
    gray = image.mean(2).astype(np.float32)
    shrunk = cv2.resize(gray, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA)
    for category in (1, 2):
        native, small = [], []
        for found in instances:
            if found.category == category:
                native.append(contrast(gray, found, 1))
                small.append(contrast(shrunk, found, 4))
        noise = gray[mask == 0].std()
        assert np.median(native) > 4 * noise
        assert np.median(small) < 0.5 * np.median(native)


def contrast(gray: np.ndarray, found: demo.Instance, scale: int) -> float:
    """Largest deviation (grey levels) within a defect's box from the median of what surrounds it."""
    y, x = found.y // scale, found.x // scale
    height, width = -(-found.mask.shape[0] // scale), -(-found.mask.shape[1] // scale)
    around = gray[max(y - 8, 0) : y + height + 8, max(x - 8, 0) : x + width + 8]
    return float(np.abs(gray[y : y + height, x : x + width] - np.median(around)).max())


def test_stains_differ_from_shadows_in_hue(big):
    image, mask, _ = big
    spread = np.ptp(cv2.GaussianBlur(image.astype(np.float32), (0, 0), 2), axis=2)
    assert np.median(spread[mask == 3]) > np.percentile(spread[mask == 0], 95)


def test_a_finished_folder_is_left_alone(root):
    stamps = {p: p.stat().st_mtime_ns for p in root.rglob("*")}
    assert ensure_demo(root, SMALL) == root
    assert {p: p.stat().st_mtime_ns for p in root.rglob("*")} == stamps


def test_other_settings_replace_the_folder(tmp_path):
    root = ensure_demo(tmp_path / "demo", DemoSettings(size=128, train=2, val=1, test=1))
    first = tree_hash(root)
    ensure_demo(root, DemoSettings(size=128, train=1, val=1, test=1, seed=5))
    assert tree_hash(root) != first
    assert [p.name for p in (root / "train/images").iterdir()] == ["0000.png"]
    assert [p.name for p in tmp_path.iterdir()] == ["demo"]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "demo").symlink_to(tmp_path / "disk" / "demo")
    for seed in (0, 1):
        settings = DemoSettings(size=128, train=1, val=1, test=1, seed=seed)
        assert ensure_demo(tmp_path / "demo", settings) == tmp_path / "demo"
        assert json.loads((tmp_path / "disk/demo/demo.json").read_text())["settings"]["seed"] == seed
    assert (tmp_path / "demo").is_symlink()
    assert len(list((tmp_path / "disk").iterdir())) == 1


def test_another_version_replaces_the_folder(tmp_path, monkeypatch):
    settings = DemoSettings(size=128, train=1, val=1, test=1)
    root = ensure_demo(tmp_path / "demo", settings)
    monkeypatch.setattr(demo, "VERSION", demo.VERSION + 1)
    ensure_demo(root, settings)
    assert json.loads((root / "demo.json").read_text())["version"] == demo.VERSION


@pytest.mark.parametrize(
    ("name", "content"), [("photo.jpg", "mine"), ("demo.json", "not ours"), ("demo.json", "{}")]
)
def test_a_foreign_folder_is_refused_and_kept(tmp_path, name, content):
    root = tmp_path / "demo"
    root.mkdir()
    (root / name).write_text(content)
    with pytest.raises(DataError, match="choose another data_dir or remove it"):
        ensure_demo(root, SMALL)
    assert (root / name).read_text() == content
    assert len(list(tmp_path.rglob("*"))) == 2


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "demo").write_text("mine")
    with pytest.raises(DataError, match="choose another data_dir"):
        ensure_demo(tmp_path / "demo", SMALL)
    with pytest.raises(DataError, match="choose another data_dir"):
        ensure_demo(tmp_path / "demo" / "inside", SMALL)


def test_a_generation_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(demo, "_image_entry", full)
    with pytest.raises(DataError, match="No space left"):
        ensure_demo(tmp_path / "demo", DemoSettings(size=128))
    assert not list(tmp_path.iterdir())


def test_the_slower_of_two_processes_discards_its_copy(tmp_path, monkeypatch):
    settings = DemoSettings(size=128, train=1, val=1, test=1)
    write_all = demo._write_all

    def overtaken(folder, wanted):
        write_all(folder, wanted)
        monkeypatch.setattr(demo, "_write_all", write_all)
        ensure_demo(tmp_path / "demo", settings)  # the faster process
        (tmp_path / "demo" / "witness").touch()

    monkeypatch.setattr(demo, "_write_all", overtaken)
    ensure_demo(tmp_path / "demo", settings)
    assert (tmp_path / "demo" / "witness").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["demo"]


def test_settings_are_checked():
    with pytest.raises(SettingError, match="size"):
        DemoSettings(size=64)
    with pytest.raises(SettingError, match="train"):
        DemoSettings(train=0)
