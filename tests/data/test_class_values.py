"""Soft masks by a threshold, classes by folder, several labels a pixel."""

import logging

import numpy as np
import pytest
from image_files import noise, save

from hires.data.class_table import ClassTable
from hires.interfaces import IGNORE, DataError
from hires.settings import SettingError


def mapped(table, *values, kind=np.uint8, folder=""):
    return table.map(np.array([values], kind), "a.png", folder)[0].tolist()


class TestThreshold:
    def test_values_above_it_are_255(self):
        table = ClassTable({"sound": 0, "defect": 255}, (), "error", threshold=127)
        assert mapped(table, 0, 1, 127, 128, 255) == [0, 0, 0, 1, 1]
        assert mapped(table, 0, 128, 40_000, kind=np.uint16) == [0, 1, 1]
        assert mapped(table, -5, 128, 2**31 - 1, kind=np.int32) == [0, 1, 1]

    def test_zero_and_fractions(self):
        assert mapped(ClassTable({"a": 0, "b": 255}, (), "error", threshold=0), 0, 1) == [0, 1]
        assert mapped(ClassTable({"a": 0, "b": 255}, (), "error", threshold=1.5), 1, 2) == [0, 1]

    def test_the_cache_knows_it(self, small_set, settings):
        save(small_set / "masks" / "0.png", noise(60, 80, 1))
        shares = [
            settings(threshold=threshold, cache_gib=1).source("train").mask(0).mean() for threshold in (50, 200)
        ]
        assert shares == pytest.approx([205 / 256, 55 / 256], abs=0.03)

    @pytest.mark.parametrize("threshold", [-1, 65535, "high", float("nan")])
    def test_what_it_cannot_be(self, settings, threshold):
        with pytest.raises(SettingError, match="threshold"):
            settings(threshold=threshold)


class TestFolders:
    CLASSES = {"sound": 0, "hole": "MT_Hole/255", "crack": ["MT_Crack/255", 7], "any": 255}

    def test_a_value_means_the_class_of_its_folder(self):
        table = ClassTable(self.CLASSES, (), "error")
        assert mapped(table, 0, 7, 255, folder="MT_Hole") == [0, 2, 1]
        assert mapped(table, 0, 7, 255, folder="MT_Crack") == [0, 2, 2]
        assert mapped(table, 0, 7, 255) == [0, 2, 3]

    def test_elsewhere_it_is_unlisted(self):
        table = ClassTable({"sound": 0, "hole": "MT_Hole/255"}, (), "error")
        with pytest.raises(DataError, match=r"a.png: mask value\(s\) 255 \(2 px\) are in no class"):
            mapped(table, 0, 255, 255)
        tolerant = ClassTable({"sound": 0, "hole": "MT_Hole/255"}, (), "ignore")
        assert mapped(tolerant, 0, 255) == [0, IGNORE]

    def test_folders_are_parts_of_the_path(self):
        table = ClassTable(self.CLASSES, (), "error")
        assert table.folder_of("a/MT_Hole/Imgs/1.png") == "MT_Hole"
        assert table.folder_of("MT_Holes/1.png") == table.folder_of("x/MT_Hole") == ""
        with pytest.raises(DataError, match="MT_Hole/MT_Crack/1.png: lies below MT_Crack and MT_Hole"):
            table.folder_of("MT_Hole/MT_Crack/1.png")

    def test_ignored_in_one_folder_only(self):
        table = ClassTable({"sound": 0, "defect": 255}, ("MT_Uneven/0",), "error")
        assert table.folder_of("MT_Uneven/1.png") == "MT_Uneven"
        assert table.classes_of("MT_Uneven") == table.classes_of("") == []
        assert mapped(table, 0, 255, folder="MT_Uneven") == [IGNORE, 1]
        assert mapped(table, 0, 255) == [0, 1]

    def test_colours_too(self, tmp_path):
        path = save(tmp_path / "a.png", np.zeros((2, 3, 3), np.uint8))
        table = ClassTable({"black": "#000000", "hole": "H/#000000"}, (), "error")
        assert (table.read(path) == 0).all()
        assert (table.read(path, "H") == 1).all()
        assert (table.read(path) == 0).all()

    @pytest.mark.parametrize(
        "classes", [{"a": "H/1", "b": "H/1"}, {"a": "H/70000"}, {"a": "/1"}, {"a": "H/"}, {"a": "H/x"}, {"a": "1"}]
    )
    def test_tables_that_cannot_be_meant(self, classes):
        with pytest.raises(SettingError, match="classes"):
            ClassTable(classes, (), "error")

    @pytest.fixture
    def tiles(self, folder):
        for name in ("hole", "crack", "free"):
            for number in range(2):
                mask = np.zeros((20, 30), np.uint8)
                mask[3:5, 4:6] = 255 if name != "free" and (name, number) != ("crack", 1) else 0
                save(folder / name / "images" / f"{number}.png", noise(20, 30))
                save(folder / name / "masks" / f"{number}.png", mask)
        return folder

    @pytest.fixture
    def made(self, settings):
        def make(**changes):
            classes = {"sound": 0, "hole": "hole/255", "crack": "crack/255"}
            globs = {"images": "*/images/*", "masks": "*/masks/*"}
            return settings(**{"classes": classes, **globs, **changes})

        return make

    @pytest.mark.parametrize("cache_gib", [0, 1])
    def test_a_set_of_folders(self, tiles, made, cache_gib, caplog):
        source = made(cache_gib=cache_gib).source("train")
        found = {source.name(i): int(source.mask(i).max()) for i in range(len(source))}
        assert found["hole/images/0.png"] == 1
        assert found["crack/images/0.png"] == 2
        assert found["free/images/0.png"] == found["crack/images/1.png"] == 0

    def test_empty_masks_are_told_once(self, tiles, made, caplog):
        with caplog.at_level(logging.WARNING):
            made().source("train")
        assert len(caplog.records) == 1
        assert "1 mask(s) hold no pixel of the class of their folder: crack/masks/1.png" in caplog.text

    def test_nothing_is_told_where_nothing_is_missing(self, tiles, made, caplog):
        with caplog.at_level(logging.WARNING):
            made(splits={"train": "hole/**"}).source("train")
            made(classes={"sound": 0, "defect": 255}).source("train")
        assert not caplog.records

    def test_broken_masks_wait_until_they_are_read(self, tiles, made):
        (tiles / "hole/masks/0.png").write_bytes(b"")
        source = made().source("train")
        index = [source.name(i) for i in range(len(source))].index("hole/images/0.png")
        with pytest.raises(DataError, match="hole/masks/0.png"):
            source.read(index)

    def test_the_cache_knows_the_folder(self, tiles, made):
        """The same file, seen from a root within its folder, lies below no folder of the table."""
        first = made(cache_gib=1, unlisted="ignore").source("train")
        index = [first.name(i) for i in range(len(first))].index("hole/images/0.png")
        assert first.mask(index).max() == 1
        globs = {"images": "images/*", "masks": "masks/*"}
        inner = made(cache_gib=1, root=str(tiles / "hole"), unlisted="ignore", **globs).source("train")
        assert inner.mask(0).max() == IGNORE


class TestMultilabel:
    REGIONS = {"whole": [1, 2, 3], "core": [2, 3], "enhancing": 3}

    def test_a_value_sets_the_bits_of_its_classes(self):
        table = ClassTable(self.REGIONS, (9,), "error", multilabel=True)
        assert mapped(table, 0, 1, 2, 3, 9) == [0, 0b001, 0b011, 0b111, IGNORE]
        with pytest.raises(DataError, match=r"4 \(1 px\)"):
            mapped(table, 4)
        assert mapped(ClassTable(self.REGIONS, (), "ignore", multilabel=True), 4, 0) == [IGNORE, 0]

    def test_background_is_what_is_said(self):
        table = ClassTable(self.REGIONS, (0,), "error", background=(4, 5), multilabel=True)
        assert mapped(table, 0, 4, 5, 1) == [IGNORE, 0, 0, 1]
        assert mapped(ClassTable({"a": 0}, (), "error", multilabel=True), 0) == [1]

    def test_colours(self, tmp_path):
        mask = np.array([[[0, 0, 0], [255, 0, 0], [0, 0, 255]]], np.uint8)
        path = save(tmp_path / "a.png", mask)
        classes = {"both": ["#FF0000", "#0000FF"], "blue": "#0000FF"}
        assert ClassTable(classes, (), "error", multilabel=True).read(path).tolist() == [[0, 1, 3]]
        red = ClassTable({"b": "#0000FF"}, ("#000000",), "error", background=("#FF0000",), multilabel=True)
        assert red.read(path).tolist() == [[IGNORE, 0, 1]]

    def test_a_folder_adds_to_what_holds_everywhere(self):
        table = ClassTable({"defect": 255, "hole": "H/255"}, (), "error", multilabel=True)
        assert mapped(table, 0, 255) == [0, 1]
        assert mapped(table, 0, 255, folder="H") == [0, 3]

    def test_seven_classes_at_most(self):
        seven = {str(n): [n + 1, 99] for n in range(7)}
        assert mapped(ClassTable(seven, (), "error", multilabel=True), 7, 99) == [64, 127]
        with pytest.raises(SettingError, match="8 classes.*1 to 7 classes with multilabel"):
            ClassTable({**seven, "eighth": 8}, (), "error", multilabel=True)

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"classes": {"a": [1, 1]}}, "classes.a"),
            ({"classes": {"a": 1}, "ignore_values": [1]}, "classes.a"),
            ({"classes": {"a": 1}, "background_values": [1]}, "classes.a"),
            ({"classes": {"a": 1}, "background_values": [3], "ignore_values": [3]}, "background_values"),
            ({"classes": {"a": 1}, "background_values": ["#000000"]}, "background_values"),
            ({"classes": {"a": 1}, "background_values": [2], "multilabel": False}, "background_values"),
            ({"classes": {"a": 1, "b": 1}, "multilabel": False}, "classes.b"),
        ],
    )
    def test_tables_that_cannot_be_meant(self, settings, changes, field):
        with pytest.raises(SettingError) as caught:
            settings(**{"multilabel": True, **changes})
        assert caught.value.field == field

    def test_sources_say_what_they_are(self, small_set, settings):
        source = settings(multilabel=True, classes={"thing": 255, "same": 255}, cache_gib=1).source("train")
        assert source.multilabel
        assert set(np.unique(source.mask(0))) == {0, 3}
        plain = settings(cache_gib=1).source("train")
        assert not plain.multilabel
        assert set(np.unique(plain.mask(0))) == {0, 1}
