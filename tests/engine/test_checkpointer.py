"""Checkpoints: whole or refused, the last two kept, and a training that goes on where they cannot be written."""

import logging
import os
import random
import zipfile
from contextlib import suppress

import pytest
import torch
from torch import nn

from hires.engine.checkpoint_file import read, write
from hires.engine.checkpointer import Checkpointer, to_continue
from hires.engine.progress import Progress
from hires.engine.ranks import Alone
from hires.interfaces import DataError, TrainingError
from tests.files import files_up_to


def make(folder, value=0.0, width=30):
    """A checkpointer of a layer whose weights are all `value`, and of a progress."""
    layer = nn.Linear(width, width)
    nn.init.constant_(layer.weight, value)
    return Checkpointer(folder, {"task": layer, "progress": Progress()})


def advance(checkpointer, step, *names):
    """Saves a state in which everything says `step`."""
    checkpointer.parts["progress"].step = step
    nn.init.constant_(checkpointer.parts["task"].weight, step)
    checkpointer.save(*(names or ["last"]))


def step_in(path):
    """The step of a checkpoint, all of which has to be of it."""
    state = read(path)
    step = state["progress"]["step"]
    assert (state["task"]["weight"] == step).all()
    return step


def test_every_reader_of_torch_files_takes_it(tmp_path):
    advance(make(tmp_path), 3)
    path = tmp_path / "last.pt"
    for mmap in (False, True):
        assert torch.load(path, weights_only=True, mmap=mmap)["progress"]["step"] == 3
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.comment.startswith(b"hires sha256 ")


def damaged(whole: bytes, rng: random.Random) -> bytes:
    """The content of a file after one of the accidents that befall files."""
    at, content = rng.randrange(len(whole)), bytearray(whole)
    match rng.randrange(5):
        case 0:
            return whole[:at]
        case 1:
            content[at] ^= 1 << rng.randrange(8)
        case 2:
            length = min(512, len(whole) - at)
            content[at : at + length] = bytes(255 - byte for byte in content[at : at + length])
        case 3:
            return whole + rng.randbytes(rng.randrange(1, 100))
        case 4:
            content[-rng.randrange(1, 120)] ^= 1 << rng.randrange(8)  # the end, where the checksum is
    return bytes(content)


def test_two_hundred_damaged_files_are_never_loaded(tmp_path):
    checkpointer, rng = make(tmp_path), random.Random(0)
    advance(checkpointer, 1)
    advance(checkpointer, 2)
    path = tmp_path / "last.pt"
    whole = path.read_bytes()
    for number in range(200):
        path.write_bytes(damaged(whole, rng))
        with pytest.raises(DataError, match="not a whole checkpoint") as refused:
            read(path)
        assert "\n" not in str(refused.value), number
        assert step_in(to_continue(tmp_path)) == 1, number
    path.write_bytes(whole)
    assert to_continue(tmp_path) == path


def test_the_one_before_is_kept(tmp_path):
    checkpointer = make(tmp_path)
    for step in (1, 2, 3):
        advance(checkpointer, step, "last", *(["best"] if step == 2 else []))
    steps = {path.name: step_in(path) for path in tmp_path.iterdir()}
    assert steps == {"last.pt": 3, "last.previous.pt": 2, "best.pt": 2}


def test_fallback_says_so_and_keeps_the_whole_one(tmp_path, caplog):
    first = make(tmp_path)
    advance(first, 1)
    advance(first, 2)
    (tmp_path / "last.pt").write_bytes(b"PK\x03\x04")
    with caplog.at_level(logging.WARNING, "hires"):
        path = to_continue(tmp_path)
    (said,) = caplog.messages
    assert "last.pt: not a whole checkpoint" in said
    assert "going on from the one before, last.previous.pt" in said
    again = make(tmp_path)
    again.load(path)
    assert again.parts["progress"].step == 1
    with files_up_to(2000):
        advance(again, 2)
    with pytest.raises(TrainingError, match=r"last\.previous\.pt is still that of step 1"):
        again.raise_failed()
    advance(again, 2)
    assert step_in(tmp_path / "last.pt") == 2
    assert step_in(tmp_path / "last.previous.pt") == 1  # not the broken one


def test_a_missing_last_is_the_one_before(tmp_path):
    checkpointer = make(tmp_path)
    assert to_continue(tmp_path) is None
    advance(checkpointer, 1)
    (tmp_path / "last.pt").rename(tmp_path / "last.previous.pt")
    assert step_in(to_continue(tmp_path)) == 1


def test_two_broken_ones_are_both_named(tmp_path):
    for name in ("last", "last.previous"):
        (tmp_path / f"{name}.pt").write_bytes(b"")
    with pytest.raises(DataError, match=r"last\.pt: not a whole .*last\.previous\.pt: not a whole"):
        to_continue(tmp_path)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("links", [True, False], ids=["links", "no_links"])
def test_a_whole_one_is_there_at_every_moment(tmp_path, monkeypatch, links):
    """Ends at each call of the system in turn; nothing is tidied up then, as in a process that is killed."""
    for stop in range(1, 99):
        folder = tmp_path / str(stop)
        checkpointer = make(folder)
        advance(checkpointer, 1, "last", "best")
        advance(checkpointer, 2)
        with monkeypatch.context() as patched:
            calls = _killed_at(stop, patched, links)
            with suppress(Killed):
                advance(checkpointer, 3, "last", "best")
        last, best = step_in(to_continue(folder)), step_in(folder / "best.pt")
        assert last in (2, 3)
        assert last == 2 or best == 3  # of a best one that is told in `last`
        again = make(folder)  # tidies up
        again.load(to_continue(folder))
        advance(again, 4)
        assert {path.name for path in folder.iterdir()} == {"last.pt", "last.previous.pt", "best.pt"}
        assert step_in(folder / "last.previous.pt") in (last, 2)
        if calls[0] < stop:
            assert (last, best) == (3, 3)
            assert stop > 6
            return
    raise AssertionError("it never came to its end")


def _killed_at(stop, patched, links):
    calls = [0]

    def counted(name):
        real = getattr(os, name)

        def call(*arguments, **options):
            if calls[0] >= stop:
                raise Killed
            calls[0] += 1
            if calls[0] == stop:
                raise Killed
            if name == "link" and not links:
                raise PermissionError(1, "Operation not permitted")
            return real(*arguments, **options)

        patched.setattr(os, name, call)

    for name in ("replace", "fsync", "link", "unlink"):
        counted(name)
    return calls


def test_a_full_disk_leaves_the_old_one_and_is_told(tmp_path, caplog):
    checkpointer = make(tmp_path)
    advance(checkpointer, 1)
    with files_up_to(2000), caplog.at_level(logging.ERROR, "hires"):
        advance(checkpointer, 2, "last", "best")
        advance(checkpointer, 3)
    assert len(caplog.messages) == 2
    assert "last.pt" in caplog.messages[1]
    assert "File too large" in caplog.messages[1]
    assert "2 steps are not on disk" in caplog.messages[1]
    assert {path.name: step_in(path) for path in tmp_path.iterdir()} == {"last.pt": 1}
    with pytest.raises(TrainingError, match=r"step 3 are not on disk; .*last\.pt is still that of step 1"):
        checkpointer.raise_failed()
    advance(checkpointer, 4, "last", "best")
    checkpointer.raise_failed()
    assert {path.name: step_in(path) for path in tmp_path.iterdir()} == {
        "last.pt": 4,
        "last.previous.pt": 1,
        "best.pt": 4,
    }


def test_a_best_one_that_is_not_on_disk_is_told_at_the_end(tmp_path):
    checkpointer = make(tmp_path)
    with files_up_to(2000):
        advance(checkpointer, 2, "last", "best")
    advance(checkpointer, 3)
    with pytest.raises(TrainingError, match=r"best\.pt: cannot be written .*step 2 are not on disk"):
        checkpointer.raise_failed()


def test_a_folder_in_the_way_is_told(tmp_path, caplog):
    (tmp_path / "last.pt").mkdir()
    checkpointer = make(tmp_path)
    advance(checkpointer, 1)
    assert "Is a directory" in checkpointer.failed["last"]
    assert [path.name for path in tmp_path.iterdir()] == ["last.pt"]


@pytest.mark.parametrize("state", [{"task": 3}, {"task": {}, "progress": "a", "random": {}}])
def test_a_state_of_another_shape_is_refused(tmp_path, state):
    write(tmp_path / "a.pt", state)
    with pytest.raises(DataError, match=r"a\.pt: (lacks|its task does not fit)"):
        make(tmp_path).load(tmp_path / "a.pt")


class Part:
    def __init__(self, collective):
        self.collective, self.asked = collective, 0

    def state_dict(self):
        self.asked += 1
        return {}

    load_state_dict = state_dict


class Second(Alone):
    rank, size, main = 1, 2, False

    def gather(self, value):
        return [value, value]


def test_parts_that_gather_are_asked_on_all_processes(tmp_path):
    parts = {"a": Part(False), "b": Part(True)}
    Checkpointer(tmp_path, parts, ranks=Second()).save("last")
    assert [part.asked for part in parts.values()] == [0, 1]
    assert not list(tmp_path.iterdir())
