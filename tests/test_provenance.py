"""environment.json: with what a run was trained, and on what; what has changed at a resumption is told."""

import json
import logging
import shutil
import subprocess

import numpy as np
import pytest

from hires import provenance
from hires.checkout import git_state
from hires.data.fingerprint import fingerprint
from hires.provenance import ENVIRONMENT, Start, note_start

TEXT = (str, None)
SPLIT = {"images": int, "files": int, "bytes": int, "sha256": str}
START = {
    "kind": str,
    "time": str,
    "step": int,
    "command": [str],
    "overrides": [str],
    "seed": int,
    "processes": int,
    "hires": {
        "version": str,
        "code_sha256": str,
        "git": ({"commit": TEXT, "dirty": (bool, None), "diff_sha256": TEXT}, None),
    },
    "versions": {"python": str, **dict.fromkeys(provenance._PACKAGES, TEXT)},
    "machine": {
        "system": str,
        "cpu": str,
        "cores": int,
        "instructions": str,
        "memory_bytes": int,
        "cuda": TEXT,
        "cudnn": (int, None),
        "gpus": [{"name": str, "memory_bytes": int}],
    },
    "settings": {
        "threads": int,
        "interop_threads": int,
        "deterministic_algorithms": bool,
        "cudnn_benchmark": bool,
        "cudnn_deterministic": bool,
        "float32_matmul_precision": str,
        "variables": dict,
    },
    "data": {"train": SPLIT, "val": SPLIT},
}


def fits(value, schema, path=""):
    """Asserts that a value has just the keys and kinds of a schema; a tuple lists what is allowed."""
    if isinstance(schema, tuple):
        schema = next((one for one in schema if one is not None and value is not None), None)
    if schema is None:
        assert value is None, path
    elif isinstance(schema, dict):
        assert list(value) == list(schema), path
        for key, inner in schema.items():
            fits(value[key], inner, f"{path}.{key}")
    elif isinstance(schema, list):
        for index, inner in enumerate(value):
            fits(inner, schema[0], f"{path}[{index}]")
    else:
        assert type(value) is schema, path


class Images:
    """Files below a root, with masks and an array of labels."""

    def __init__(self, root, names=("a.png", "b.png"), labels=(1, 2)):
        self.root, self.names, self.labels = root, names, np.array(labels)

    def __len__(self):
        return len(self.names)

    def name(self, index):
        return self.names[index]

    def labels_read(self):
        return ["m.png"], [self.labels]


@pytest.fixture
def images(tmp_path):
    root = tmp_path / "data"
    root.mkdir()
    for name, size in (("a.png", 3), ("b.png", 5), ("m.png", 7)):
        (root / name).write_bytes(bytes(size))
    return Images(root)


def note(run_dir, images, step=0):
    note_start(run_dir, Start(step, resumed=step > 0, seed=1, processes=1), images)


def starts(run_dir):
    return json.loads((run_dir / ENVIRONMENT).read_text())["starts"]


def test_a_training_writes_it_and_each_resumption_adds_to_it(hires, shapes_overrides, tmp_path):
    line = ("trainer.max_steps=1", "seed=7")
    code, _, error = hires("train", *shapes_overrides, *line)
    assert code == 0, error
    code, out, error = hires("train", f"resume={tmp_path / 'run'}", "trainer.max_steps=2")
    assert code == 0, error
    assert "of the last start" not in out
    first, second = starts(tmp_path / "run")
    for start in (first, second):
        fits(start, START)
    assert (first["kind"], first["step"], first["seed"]) == ("started", 0, 7)
    assert (second["kind"], second["step"], second["seed"]) == ("resumed", 1, 7)
    assert first["overrides"][-2:] == list(line)
    assert first["command"] == ["train", *shapes_overrides, *line]
    assert first["data"] == second["data"]
    assert (first["data"]["train"]["images"], first["data"]["val"]["images"]) == (5, 1)
    code, _, error = hires("train", f"resume={tmp_path / 'run'}")  # is over: nothing is trained
    assert len(starts(tmp_path / "run")) == 2


def test_what_has_changed_is_told_and_not_refused(images, tmp_path, caplog, monkeypatch):
    note(tmp_path, {"train": images, "val": images})
    monkeypatch.setattr(provenance, "versions", lambda: {"python": "4.0", "torch": "9"})
    (images.root / "b.png").write_bytes(bytes(6))
    more = Images(images.root, ("a.png",))
    with caplog.at_level(logging.WARNING, "hires"):
        note(tmp_path, {"train": images, "val": more}, step=3)
    versions, train, val = caplog.messages
    assert versions.startswith("Not the versions of the last start")
    assert ", now 4.0; torch " in versions
    assert train.endswith("names, sizes or labels of its 2 images have changed")
    assert val == "The val data is not that of the last start: 2 images, now 1"
    caplog.clear()
    note(tmp_path, {"train": images, "val": more}, step=4)
    assert not caplog.messages
    assert [start["step"] for start in starts(tmp_path)] == [0, 3, 4]


def test_other_code_is_told(images, tmp_path, caplog, monkeypatch):
    note(tmp_path, {"train": images})
    monkeypatch.setattr(provenance, "code", lambda: "other")
    note(tmp_path, {"train": images})
    assert caplog.messages[-1].endswith("the code of hires is another")


@pytest.mark.parametrize("content", ["{", "[]", '{"starts": 1}', '{"starts": [1]}'])
def test_a_file_that_is_broken_begins_anew(images, tmp_path, caplog, content):
    (tmp_path / ENVIRONMENT).write_text(content)
    note(tmp_path, {"train": images})
    assert len(starts(tmp_path)) == 1
    assert "cannot be read" in caplog.messages[0]


def test_a_copy_has_the_same_fingerprint(images, tmp_path):
    shutil.copytree(images.root, tmp_path / "copy")
    found = fingerprint(images)
    assert found == fingerprint(Images(tmp_path / "copy"))
    assert (found.images, found.files, found.bytes) == (2, 3, 15)


@pytest.mark.parametrize("change", ["size", "mask", "missing", "name", "order", "labels"])
def test_a_fingerprint_tells_changes(images, change):
    before, root = fingerprint(images).sha256, images.root
    if change == "size":
        (root / "a.png").write_bytes(bytes(4))
    elif change == "mask":
        (root / "m.png").write_bytes(bytes(4))
    elif change == "missing":
        (root / "b.png").unlink()
    elif change == "name":
        (root / "b.png").rename(root / "c.png")
        images = Images(root, ("a.png", "c.png"))
    elif change == "order":
        images = Images(root, ("b.png", "a.png"))
    else:
        images = Images(root, labels=(1, 3))
    assert fingerprint(images).sha256 != before


def test_sources_of_other_makers_have_names_at_least(tmp_path):
    class Named:
        def __len__(self):
            return 2

        def name(self, index):
            return str(index)

    found = fingerprint(Named())
    assert (found.images, found.files) == (2, 0)


@pytest.fixture
def checkout(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "a.py").write_text("1")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for line in (("init", "-q"), ("add", "a.py"), (*who, "commit", "-q", "-m", "x")):
        subprocess.run(["git", *line], cwd=root, check=True)
    return root


def test_git_state_of_a_checkout(checkout):
    clean = git_state(checkout)
    assert len(clean["commit"]) == 40
    assert (clean["dirty"], clean["diff_sha256"]) == (False, None)
    (checkout / "a.py").write_text("2")
    dirty = git_state(checkout)
    assert (dirty["commit"], dirty["dirty"]) == (clean["commit"], True)
    assert len(dirty["diff_sha256"]) == 64


@pytest.mark.parametrize("how", ["branch", "packed", "detached", "worktree"])
def test_git_state_without_git(checkout, tmp_path, monkeypatch, how):
    commit, root = git_state(checkout)["commit"], checkout
    lines = {
        "packed": ("pack-refs", "--all"),
        "detached": ("checkout", "-q", "--detach"),
        "worktree": ("worktree", "add", "-q", "../tree"),
    }
    if how in lines:
        subprocess.run(["git", *lines[how]], cwd=checkout, check=True, capture_output=True)
    if how == "worktree":
        root = tmp_path / "tree"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(root) == {"commit": commit, "dirty": None, "diff_sha256": None}
    assert git_state(tmp_path) is None
