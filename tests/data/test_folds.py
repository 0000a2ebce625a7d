"""Groups stay together, and folds share them out evenly."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_files import noise, save

from hires.data.folds import Folds, group_names
from hires.data.pairs import Pair
from hires.data.splits import split_pairs
from hires.interfaces import DataError
from hires.settings import SettingError

OBJECT = r"obj\d+"


def pairs(*names):
    return [Pair(name, f"{name}.jpg", f"{name}.png") for name in names]


def exposures(folders="abc", objects=10, views=3):
    return pairs(*(f"{f}/obj{n}_{view}" for f in folders for n in range(objects) for view in range(views)))


def split(root, members, seed=0, groups=None, fold=None, folds=5, **splits):
    chosen = split_pairs(
        root, members, splits, seed, groups=groups, folds=None if fold is None else Folds(fold, folds)
    )
    return {name: [pair.key for pair in part] for name, part in chosen.items()}


def of_folder(name):
    return name.partition("_")[0]


class TestGroups:
    def test_the_whole_match_or_the_captures(self, tmp_path):
        members = pairs("a/exp1_num_7", "b/exp2_num_8")
        assert list(group_names(tmp_path, members, r"num_\d+").values()) == ["num_7", "num_8"]
        assert list(group_names(tmp_path, members, r"^(\w)/.*num_(\d+)").values()) == ["a/7", "b/8"]
        assert list(group_names(tmp_path, members, r"exp1_(num)|num_(\d)").values()) == ["num", "8"]
        assert list(group_names(tmp_path, members, None).values()) == ["a/exp1_num_7", "b/exp2_num_8"]

    @pytest.mark.parametrize("pattern", [r"obj\d+", r"obj(\d*)", "x*"])
    def test_images_without_group_are_named(self, tmp_path, pattern):
        with pytest.raises(DataError, match=r"data.groups=.* matches nothing in .* image path\(s\): .*a/odd.jpg"):
            group_names(tmp_path, pairs("a/odd", "a/odd2"), pattern)

    def test_no_regular_expression(self, settings):
        with pytest.raises(SettingError, match=r"groups: got '\('"):
            settings(groups="(")

    def test_fractions_take_whole_groups(self, tmp_path):
        members = exposures(objects=60)
        found = split(tmp_path, members, groups=OBJECT, val=0.3, test=0.2)
        homes = {name: {of_folder(key.partition("/")[2]) for key in keys} for name, keys in found.items()}
        assert not homes["val"] & homes["train"]
        assert not homes["val"] & homes["test"]
        assert sum(map(len, found.values())) == len(members)
        assert len(homes["val"]) == pytest.approx(18, abs=9)

    @given(st.randoms(), st.integers(2, 90))
    def test_images_that_are_added_move_no_group(self, random, count):
        members = exposures()
        subset = random.sample(members, count)
        few, all_of_them = (
            {p.key for p in split_pairs(None, chosen, {"val": 0.4}, 0, groups=OBJECT)["val"]}
            for chosen in (subset, members)
        )
        expected = all_of_them & {p.key for p in subset}
        one_group = len({re.search(OBJECT, p.key).group() for p in subset}) == 1  # is not divided
        assert few == expected if expected or one_group else few

    def test_one_group_is_not_divided(self, tmp_path):
        assert split(tmp_path, exposures("a", 1), groups=OBJECT, val=0.01)["val"] == []

    def test_globs_that_tear_a_group_are_a_leak(self, tmp_path):
        with pytest.raises(DataError, match=r"leak: images of group 'obj0' are in both 'val' and 'train'"):
            split(tmp_path, exposures("ab", 2), groups=OBJECT, val="a/*", train="b/*")
        with pytest.raises(DataError, match="leak: images of group 'obj0'"):
            split(tmp_path, exposures("a", 2), groups=OBJECT, val="a/obj0_0*")
        with pytest.raises(DataError, match=r"leak: images of group 'obj\d' are in both 'test'"):
            split(tmp_path, exposures("a", 9), groups=OBJECT, test="*/*_0*", val=0.5)
        split(tmp_path, exposures("ab", 2), groups=r"\w/obj\d+", val="a/*", train="b/*")

    @pytest.mark.parametrize("order", [("val", "test"), ("test", "val")])
    def test_val_and_test_may_be_the_same(self, tmp_path, order):
        found = split(tmp_path, exposures("a", 3), groups=OBJECT, **dict.fromkeys(order, "a/obj1_*"))
        assert found["val"] == found["test"]
        assert len(found["train"]) == 6


class TestFolds:
    def test_every_image_is_in_one_fold(self, tmp_path):
        members = exposures()
        found = [split(tmp_path, members, groups=rf"\w/{OBJECT}", fold=fold) for fold in range(5)]
        assert sorted(sum((f["val"] for f in found), [])) == sorted(pair.key for pair in members)
        for part in found:
            assert sorted(part["val"] + part["train"]) == sorted(pair.key for pair in members)
            assert not {of_folder(key) for key in part["val"]} & {of_folder(key) for key in part["train"]}

    def test_folders_and_sizes_are_balanced(self, tmp_path):
        members = exposures("abc", 7, 2) + exposures("d", 13, 1) + pairs("d/obj99_0", "d/obj99_1", "d/obj99_2")
        folds = [split(tmp_path, members, groups=rf"\w/{OBJECT}", fold=f, folds=4)["val"] for f in range(4)]
        sizes = [len(fold) for fold in folds]
        assert max(sizes) - min(sizes) <= 2
        for folder in "abcd":
            counts = [sum(key.startswith(folder) for key in fold) for fold in folds]
            assert max(counts) - min(counts) <= 2

    def test_single_images_without_groups(self, tmp_path):
        folds = [split(tmp_path, exposures("a", 11, 1), fold=f)["val"] for f in range(5)]
        assert sorted(map(len, folds)) == [2, 2, 2, 2, 3]

    @given(st.lists(st.integers(1, 6), min_size=3, max_size=25), st.integers(2, 3), st.randoms())
    def test_folds_are_full_and_do_not_depend_on_the_order(self, sizes, count, random):
        members = pairs(*(f"{n % 3}/obj{n}_{view}" for n, size in enumerate(sizes) for view in range(size)))
        members.sort(key=lambda pair: pair.image)
        folds = [set(split(None, members, groups=OBJECT, fold=f, folds=count)["val"]) for f in range(count)]
        assert all(folds)
        assert Counter(key for fold in folds for key in fold) == Counter(pair.key for pair in members)
        random.shuffle(members)
        assert set(split(None, members, groups=OBJECT, fold=0, folds=count)["val"]) == folds[0]

    def test_another_seed_gives_other_folds(self, tmp_path):
        first, second = (
            split(tmp_path, exposures(), seed=seed, groups=rf"\w/{OBJECT}", fold=0) for seed in (0, 1)
        )
        assert first["val"] != second["val"]

    def test_test_images_are_taken_out_first(self, tmp_path):
        members = exposures("ab", 6, 2)
        rules = {"train": None, "val": 0.2, "test": "a/*"}
        found = [split(tmp_path, members, groups=rf"\w/{OBJECT}", fold=f, folds=3, **rules) for f in range(3)]
        assert all(len(part["test"]) == 12 for part in found)
        assert [len(part["val"]) for part in found] == [4, 4, 4]
        assert all(key.startswith("b/") for part in found for key in part["val"] + part["train"])

    def test_a_group_in_test_and_in_a_fold_is_a_leak(self, tmp_path):
        with pytest.raises(DataError, match="leak: images of group 'obj"):
            split(tmp_path, exposures("ab", 6, 2), groups=OBJECT, fold=0, folds=3, test="a/*")

    def test_fewer_groups_than_folds(self, tmp_path):
        with pytest.raises(DataError, match=r"data.folds=5 of only 4 group\(s\)"):
            split(tmp_path, exposures("a", 4), groups=OBJECT, fold=0)

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"fold": 5}, "fold"),
            ({"fold": 2, "folds": 2}, "fold"),
            ({"fold": -1}, "fold"),
            ({"folds": 1}, "folds"),
            ({"fold": 0, "splits": {"val": "images/a*"}}, "splits.val"),
            ({"fold": 0, "splits": {"val": ["images/a*"]}}, "splits.val"),
            ({"fold": 0, "splits": {"train": "images/*"}}, "splits.train"),
            ({"fold": 0, "splits": {"train": 0.5}}, "splits.train"),
        ],
    )
    def test_settings_that_cannot_be_meant(self, settings, changes, field):
        with pytest.raises(SettingError) as caught:
            settings(**changes)
        assert caught.value.field == field

    def test_sources_of_a_fold(self, folder, settings):
        for name in ("a1", "a2", "b1", "c1"):
            save(folder / "images" / f"{name}.png", noise(4, 4))
            save(folder / "masks" / f"{name}.png", noise(4, 4, 1) * 0)
        made = settings(fold=0, folds=3, groups=r"/(\w)\d", splits={"train": None, "val": 0.2, "test": None})
        assert made.has_split("val")
        assert made.has_split("train")
        assert not made.has_split("test")
        val, train = ([s.name(i) for i in range(len(s))] for s in (made.source("val"), made.source("train")))
        assert val == ["images/a1.png", "images/a2.png"]
        assert train == ["images/b1.png", "images/c1.png"]
