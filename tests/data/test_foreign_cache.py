"""The cache in a folder that others write to: nothing of theirs is taken for an image."""

import os

import numpy as np
import pytest
from image_files import noise, save

from hires.data.cache import DecodedCache
from hires.data.images import read_image


@pytest.fixture
def image(tmp_path):
    return save(tmp_path / "a.png", noise(6, 7))


def entry(folder):
    (found,) = folder.glob("*.npy")
    return found


def test_an_entry_of_another_user_is_not_taken(tmp_path, image, monkeypatch):
    cache = DecodedCache(tmp_path / "cache", 1)
    cache.load(image, read_image)
    np.save(entry(tmp_path / "cache"), np.zeros((6, 7, 3), np.uint8))
    assert not cache.load(image, read_image).any()
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    np.testing.assert_array_equal(cache.load(image, read_image), noise(6, 7))


def test_a_file_system_that_gives_files_another_owner_is_told_once(tmp_path, image, monkeypatch, caplog):
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    other = save(tmp_path / "b.png", noise(8, 9))
    for cache in (DecodedCache(tmp_path / "mapped", 1), DecodedCache(tmp_path / "mapped", 1)):  # train and val
        for _ in range(2):
            np.testing.assert_array_equal(cache.load(image, read_image), noise(6, 7))
            np.testing.assert_array_equal(cache.load(other, read_image), noise(8, 9))
        assert not cache.takes(image, 126), "windows are read from the file itself"
    (told,) = [record.getMessage() for record in caplog.records]
    assert f"another owner (user {own}) than the one who writes them (user {own + 1})" in told
    assert "HIRES_CACHE" in told


def test_an_entry_that_would_call_something_is_replaced(tmp_path, image):
    class Evil:
        def __reduce__(self):
            return (tmp_path / "broken_in").mkdir, ()

    cache = DecodedCache(tmp_path / "cache", 1)
    cache.load(image, read_image)
    np.save(entry(tmp_path / "cache"), np.array([Evil()], dtype=object), allow_pickle=True)
    np.testing.assert_array_equal(cache.load(image, read_image), noise(6, 7))
    assert not (tmp_path / "broken_in").exists()


def test_entries_are_for_their_owner_alone(tmp_path, image):
    DecodedCache(tmp_path / "cache", 1).load(image, read_image)
    assert entry(tmp_path / "cache").stat().st_mode & 0o077 == 0
