"""Splits take what their rule says, and no image twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hires.data.pairs import Pair
from hires.data.split_lists import Missing
from hires.data.splits import check_splits, split_pairs
from hires.interfaces import DataError
from hires.settings import SettingError


def pairs(*names):
    return [Pair(name, f"{name}.jpg", f"{name}.png") for name in names]


MANY = pairs(*(f"{folder}/{n}" for folder in "ab" for n in range(150)))


def split(tmp_path, members, seed=0, **splits):
    check_splits(splits)
    chosen = split_pairs(tmp_path, members, splits, seed)
    return {name: [pair.image for pair in part] for name, part in chosen.items()}


def test_train_is_the_rest(tmp_path):
    found = split(tmp_path, pairs("a/1", "b/1", "b/2"), val="a/*", train=None)
    assert found == {"val": ["a/1.jpg"], "train": ["b/1.jpg", "b/2.jpg"]}
    assert split(tmp_path, pairs("a/1")) == {"train": ["a/1.jpg"]}


def test_lists_of_globs_and_double_stars(tmp_path):
    found = split(tmp_path, pairs("a/1", "b/c/1", "d/2"), val=["a/**", "b/**/*.jpg"])
    assert found["val"] == ["a/1.jpg", "b/c/1.jpg"]


def test_list_files_name_images_with_or_without_extension(tmp_path):
    (tmp_path / "val.txt").write_text("a/1.jpg\n\n./b/2\r\n")
    assert split(tmp_path, pairs("a/1", "b/1", "b/2"), val="val.txt")["val"] == ["a/1.jpg", "b/2.jpg"]


def test_entries_that_match_nothing_are_named(tmp_path):
    (tmp_path / "val.txt").write_text("a/1\naerial/x.jpg\n")
    with pytest.raises(DataError, match=r"val.txt: 1 of 2 entries.*aerial/x.jpg"):
        split(tmp_path, pairs("a/1"), val="val.txt")
    with pytest.raises(DataError) as error:
        split(tmp_path, pairs("a/1"), val="no.txt")
    assert str(error.value) == f"{tmp_path / 'no.txt'}: no such file; correct the list that data.splits.val names"


def test_a_glob_of_a_list_that_matches_nothing(tmp_path, caplog):
    with pytest.raises(DataError, match=r"'n/\*' in data.splits.val matches no image; .*such as a/1.jpg"):
        split(tmp_path, pairs("a/1", "b/1"), val=["a/*", "n/*"])
    assert split(tmp_path, pairs("a/1", "b/1"), val="n/*")["val"] == []  # which is told when val is asked for
    missing = Missing(skip=True)
    found = split_pairs(tmp_path, pairs("a/1", "b/1"), {"val": ["a/*", "n/*"]}, 0, missing=missing)
    assert [pair.key for pair in found["val"]] == ["a/1"]
    assert "'n/*' in data.splits.val matches no image and is skipped" in caplog.text


def test_fractions_are_about_right_and_disjoint(tmp_path):
    found = split(tmp_path, MANY, val=0.2, test=0.1)
    assert [len(found[name]) for name in ("val", "test", "train")] == pytest.approx([60, 30, 210], abs=25)
    assert sorted(sum(found.values(), [])) == sorted(pair.image for pair in MANY)


def test_fractions_apply_to_the_rest(tmp_path):
    found = split(tmp_path, MANY, train="a/*", val=0.5)
    assert len(found["train"]) == 150
    assert all(image.startswith("b/") for image in found["val"])


def test_another_seed_chooses_others(tmp_path):
    assert split(tmp_path, MANY, val=0.2)["val"] != split(tmp_path, MANY, seed=1, val=0.2)["val"]


@given(st.randoms(), st.integers(1, 300))
def test_fractions_depend_neither_on_order_nor_on_other_files(random, count):
    subset = random.sample(MANY, count)
    some, all_of_them = (split_pairs(None, members, {"val": 0.3}, 0) for members in (subset, MANY))
    expected = {p.key for p in all_of_them["val"]} & {p.key for p in subset}
    if expected:
        assert {p.key for p in some["val"]} == expected
    else:
        assert len(some["val"]) == (count > 1)


def test_no_fraction_of_a_few_images_is_empty(tmp_path):
    for count in range(2, 12):
        found = split(tmp_path, MANY[:count], val=0.01, test=0.01)
        assert len(found["val"]) == 1
        assert len(found["test"]) == 1 if count > 2 else True
        assert found["train"] or count == 2


def test_leaks_are_errors(tmp_path):
    with pytest.raises(DataError, match=r"leak: 1 image\(s\).*'train' and 'val': a/1.jpg"):
        split(tmp_path, pairs("a/1", "b/1"), train="*/*", val="a/*")
    with pytest.raises(DataError, match="leak.*'val' and 'test'"):
        split(tmp_path, pairs("a/1", "b/1"), val="*/*", test="a/*")


def test_val_and_test_may_be_the_same(tmp_path):
    found = split(tmp_path, pairs("a/1", "b/1"), val="a/*", test=["a/*"])
    assert found["val"] == found["test"] == ["a/1.jpg"]


@pytest.mark.parametrize("rule", [0.0, 1.0, 1.5, 3, True, [], "", [0.1], {"a": 1}])
def test_rules_that_make_no_sense(rule):
    with pytest.raises(SettingError, match="splits.val"):
        check_splits({"val": rule})


def test_fractions_beyond_one():
    with pytest.raises(SettingError, match="add up"):
        check_splits({"val": 0.6, "test": 0.5})
