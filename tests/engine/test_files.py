"""A file is whole or absent, whatever happens while it is written."""

import json

import pytest

from hires.engine.files import whole_file, write_json


def write_half(path):
    with whole_file(path) as file:
        file.write(b"new and longer")
        raise OSError("disk full")


def test_error_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "a" / "file.bin"
    with whole_file(path) as file:
        file.write(b"old")
    with pytest.raises(OSError, match="full"):
        write_half(path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in path.parent.iterdir()] == ["file.bin"]


def test_json_has_no_nan(tmp_path):
    write_json(tmp_path / "a.json", {"x": float("nan"), "y": [1.5, float("inf")], "z": {"w": (1, None)}})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": None, "y": [1.5, None], "z": {"w": [1, None]}}
