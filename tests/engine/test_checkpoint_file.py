"""The file of a checkpoint: those of strangers and of earlier versions."""

import io
import logging
import os
import pickle
import tarfile
import zipfile

import pytest
import torch
from torch import nn

from hires.engine.checkpoint_file import read, write
from hires.interfaces import DataError


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def _zip_of(records, compression=zipfile.ZIP_STORED):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    return content.getvalue()


def _bomb():
    """A real checkpoint whose one tensor is 64 MiB of zeros, packed into a few kilobytes."""
    content = io.BytesIO()
    torch.save({"task": torch.zeros(2**24), "format": 2}, content)
    with zipfile.ZipFile(content) as archive:
        records = {record.filename: archive.read(record) for record in archive.infolist()}
    return _zip_of(records, zipfile.ZIP_DEFLATED)


def _tar(name, data):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def _saved(value, **options):
    content = io.BytesIO()
    torch.save(value, content, **options)
    return content.getvalue()


STRANGERS = {
    "pickle in a zip": lambda evil: _saved({"task": evil, "format": 2}),
    "old pickle": lambda evil: _saved(evil, _use_new_zipfile_serialization=False),
    "bare pickle": lambda evil: pickle.dumps(evil),
    "tar": lambda evil: _tar("pickle", pickle.dumps(evil)),
    "bomb": lambda evil: _bomb(),
    "weights": lambda evil: _saved(nn.Linear(2, 2).state_dict()),
    "script": lambda evil: _scripted(),
    "text": lambda evil: b"epoch: 3\n",
    "nothing": lambda evil: b"",
    "zip of something": lambda evil: _zip_of({"letter.txt": b"hello"}),
    "format alone": lambda evil: _saved({"format": 2}),
}


def _scripted():
    content = io.BytesIO()
    torch.jit.save(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)), content)
    return content.getvalue()


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")
@pytest.mark.parametrize("kind", STRANGERS)
def test_files_of_strangers_are_refused_and_nothing_runs(tmp_path, kind):
    path = tmp_path / "last.pt"
    path.write_bytes(STRANGERS[kind](Evil(tmp_path / "broken_in")))
    with pytest.raises(DataError, match=r"last\.pt: not a") as refused:
        read(path)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "broken_in").exists()


def test_a_crafted_pickle_with_a_right_checksum_runs_nothing(tmp_path):
    write(tmp_path / "a.pt", {"task": Evil(tmp_path / "broken_in")})
    with pytest.raises(DataError, match="not a whole checkpoint of hires .UnpicklingError"):
        read(tmp_path / "a.pt")
    assert not (tmp_path / "broken_in").exists()


def test_folders_and_absent_files_are_told(tmp_path):
    with pytest.raises(DataError, match="a folder"):
        read(tmp_path)
    with pytest.raises(DataError, match="no such checkpoint"):
        read(tmp_path / "a.pt")


def test_files_of_earlier_versions_are_taken_unless_they_are_damaged(tmp_path, caplog):
    path = tmp_path / "last.pt"
    torch.save({"task": {"weight": torch.arange(64.0)}, "format": 1}, path)
    with caplog.at_level(logging.WARNING, "hires"):
        assert read(path)["task"]["weight"][63] == 63
    assert "no checksum" in caplog.text
    whole = path.read_bytes()
    at = whole.index(torch.arange(64.0).numpy().tobytes())
    path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
    with pytest.raises(DataError, match="is damaged"):
        read(path)
