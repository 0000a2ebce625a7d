"""JSON of labels: what is no such file is refused by name, whatever is in it."""

import json

import numpy as np
import pytest
from box_files import write

from hires.data.label_json import name_of, point_array, read_json
from hires.interfaces import DataError


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings(tmp_path, encoding):
    assert read_json(write(tmp_path / "a.json", '{"größe":\r\n[1]}', encoding)) == {"größe": [1]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' stands twice"),
        ("1" * 5000, "is no JSON"),
        ('"\xff', "is no text"),
    ],
)
def test_what_is_no_json(tmp_path, text, problem):
    with pytest.raises(DataError, match=f"a.json: .*{problem}"):
        read_json(write(tmp_path / "a.json", text, "latin-1"))


@pytest.mark.parametrize(
    ("value", "name"),
    [("a b ", "a b"), (3, "3"), (3.0, "3"), (0.5, "0.5"), (True, None), (None, None), ("", None), ([], None)],
)
def test_names(value, name):
    assert name_of(value) == name
    assert name_of(json.loads('"\\ud800"')) is None
    assert name_of(float("nan")) is None


def test_points():
    np.testing.assert_array_equal(point_array([[1, 2.5], [3, 4, 100]]), [[1, 2.5], [3, 4]])
    assert point_array([]).shape == (0, 2)
    deep = json.loads("[" * 900 + "]" * 900)
    for wrong in (
        None,
        {},
        [1, 2],
        [[1]],
        [["1", "2"]],
        [[1, None]],
        [[1, float("nan")]],
        [[10**400, 1]],
        [[1, True]],
        deep,
    ):
        with pytest.raises(ValueError, match="has (no list of points|the point)"):
            point_array(wrong)
    with pytest.raises(ValueError, match="far outside of any image"):
        point_array([[1e8, 0]])
    assert point_array([[1e8, 0]], np.inf).tolist() == [[1e8, 0]]
