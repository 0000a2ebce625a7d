"""Which images a source means, and that none of their outputs takes the place of another."""

import os

import pytest

from hires.interfaces import ConfigError, DataError
from hires.predictions.inputs import find_inputs, output_names, source_name


@pytest.fixture
def folder(tmp_path):
    for name in ("a.png", "sub/a.jpg", "sub/b.TIF", "notes.md", ".hidden.png", "out/masks/a.png"):
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path / "set"


def named(source, but="/nowhere"):
    return {item.output: item.name for item in find_inputs(source, but)}


def test_a_folder_is_all_images_below_it_but_our_own(folder):
    wanted = {"a": "a.png", "sub/a": "sub/a.jpg", "sub/b": "sub/b.TIF"}
    assert named(folder, folder / "out") == wanted
    assert "out/masks/a" in named(folder)


def test_a_file_is_itself_whatever_its_ending(folder):
    (item,) = find_inputs(str(folder / "notes.md"), "/nowhere")
    assert (item.path, item.output) == (folder / "notes.md", "notes")


def test_a_glob_is_named_from_where_it_starts(folder):
    assert named(f"{folder}/*/a.*") == {"sub/a": "sub/a.jpg"}
    assert named(f"{folder}/sub/*") == {"a": "a.jpg", "b": "b.TIF"}
    assert set(named(f"{folder}/**/*.*", folder / "out")) == {"a", "notes", "sub/a", "sub/b"}


def test_a_glob_in_the_working_directory(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert named("*.png") == {"a": "a.png"}


def test_a_glob_that_goes_up_again_writes_nowhere_else(folder, monkeypatch):
    (folder / "aside").symlink_to(folder / "sub" / "deep")
    (folder / "sub" / "deep").mkdir()
    assert named(f"{folder}/s*b/../*.png") == {"a": "a.png"}
    assert named(f"{folder}/s*b/../../set/sub/*") == {"a": "a.jpg", "b": "b.TIF"}
    assert named(f"{folder}/as*de/../*.jpg") == {"a": "a.jpg"}, "of where the link leads"
    monkeypatch.chdir(folder / "sub")
    assert named("d*/../../out/masks/*") == {"a": "a.png"}


def test_a_list_counts_from_its_folder(folder, tmp_path):
    listed = ["# what follows is listed", "set/sub/b.TIF", "", str(folder / "a.png"), "set/sub/../a.png"]
    (tmp_path / "these.txt").write_text("\r\n".join(listed))
    assert named(tmp_path / "these.txt") == {"sub/b": "sub/b.TIF", "a": "a.png"}
    assert named([folder / "sub" / "a.jpg", folder / "sub" / "b.TIF"]) == {"a": "a.jpg", "b": "b.TIF"}


@pytest.mark.parametrize("source", ["no/such.png", "{}/*.webp", "{}/sub/empty"])
def test_nothing_there(source, folder):
    (folder / "sub" / "empty").mkdir()
    with pytest.raises(DataError, match="no such file|no images"):
        find_inputs(source.format(folder), "/nowhere")


def test_an_empty_text(folder):
    with pytest.raises(ConfigError, match="source: got an empty text"):
        find_inputs(" ", "/nowhere")


def test_a_list_that_is_no_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(DataError, match=r"a\.txt: cannot be read as a list"):
        find_inputs(tmp_path / "a.txt", "/nowhere")


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["a.png", "b.png"], ["a", "b"]),
        (["a.png", "a.tif", "c.png"], ["a.png", "a.tif", "c"]),
        (["b.jpg", "b.tif", "b.jpg.png"], ["b.jpg", "b.tif", "b.jpg.png"]),
        (["x/a.png", "a.png"], ["x/a", "a"]),
    ],
)
def test_output_names_differ(names, wanted):
    assert output_names(names) == wanted


def test_the_name_of_a_source(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert source_name(folder) == "set"
    assert source_name(".") == "set"
    assert source_name(f"{folder}{os.sep}") == "set"
    assert source_name("sub/a.jpg") == "a"
    assert source_name("sub/*.jpg") is None
    assert source_name(["a.png"]) is None
