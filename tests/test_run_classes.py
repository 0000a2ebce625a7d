"""classes.json of a run."""

import pytest

from hires.interfaces import DataError
from hires.run_classes import Classes, classes_of_run, save_classes


class Source:
    classes = ("Straße", "b")


class Numbered(Source):
    category_ids = (7, 3)


class Data:
    def source(self, split):
        assert split == "train"
        return Numbered()


def test_classes_come_back(tmp_path):
    save_classes(Source(), tmp_path)
    assert classes_of_run(tmp_path, Data()) == Classes(("Straße", "b"), (1, 2))
    save_classes(Numbered(), tmp_path)
    assert classes_of_run(tmp_path, Data()) == Classes(("Straße", "b"), (7, 3))


def test_runs_of_older_versions_ask_their_data(tmp_path):
    assert classes_of_run(tmp_path, Data()) == Classes(("Straße", "b"), (7, 3))


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"classes": ["a"], "category_ids": []}', '{"classes": 1}'])
def test_broken_ones(content, tmp_path):
    (tmp_path / "classes.json").write_text(content)
    with pytest.raises(DataError, match="not the classes of a run"):
        classes_of_run(tmp_path, Data())
