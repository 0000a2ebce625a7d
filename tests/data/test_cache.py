"""The cache gives what decoding gives, whatever happens to its folder."""

import logging
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from image_files import noise, save

from hires.data import cache as module
from hires.data.cache import DecodedCache, NoCache, open_cache
from hires.data.images import read_image
from hires.interfaces import DataError
from tests.many_bands import pixels


class Counting:
    """Decodes and counts how often."""

    calls = 0

    def __call__(self, path: Path) -> np.ndarray:
        self.calls += 1
        return read_image(path)


@pytest.fixture
def image(tmp_path):
    return save(tmp_path / "a.png", noise(40, 60))


@pytest.fixture
def cache(tmp_path):
    return DecodedCache(tmp_path / "cache", 1)


def test_a_hit_equals_decoding_and_is_mapped(image, cache):
    decode = Counting()
    for _ in range(3):
        kept = cache.load(image, decode)
        assert isinstance(kept, np.memmap)
        assert not kept.flags.writeable
        np.testing.assert_array_equal(kept, read_image(image))
    assert decode.calls == 1


def test_a_changed_file_and_another_variant_are_decoded_anew(image, cache):
    decode = Counting()
    cache.load(image, decode)
    cache.load(image, decode, variant="other")
    assert decode.calls == 2
    save(image, noise(40, 60, seed=1))
    os.utime(image, ns=(1, 1))
    np.testing.assert_array_equal(cache.load(image, decode), noise(40, 60, seed=1))
    assert decode.calls == 3


def test_a_full_cache_keeps_no_more_and_says_so_once(tmp_path, caplog):
    paths = [save(tmp_path / f"{n}.png", noise(40, 60, seed=n)) for n in range(4)]
    cache, decode = DecodedCache(tmp_path / "cache", 2 * 40 * 60 * 3.1 / 2**30), Counting()
    with caplog.at_level(logging.INFO):
        for path in paths * 2:
            np.testing.assert_array_equal(cache.load(path, decode), read_image(path))
    assert decode.calls == 2 + 2 * 2
    assert len(list((tmp_path / "cache").iterdir())) == 2
    assert [record.message.count("data.cache_gib") for record in caplog.records] == [1]


def test_caches_of_one_folder_say_once_that_it_is_full_and_how_large_it_may_be(tmp_path, caplog):
    path = save(tmp_path / "0.png", noise(40, 60))
    with caplog.at_level(logging.INFO):
        for _ in ("train", "val"):
            DecodedCache(tmp_path / "cache", 1e-4 / 97).load(path, Counting())
    (record,) = caplog.records
    assert "(1.03e-06 GiB)" in record.message


def test_what_does_not_fit_leaves_room_for_what_does(tmp_path, caplog):
    sizes = [(30, 40), (100, 100), (20, 40), (90, 100), (10, 40), (100, 110)]
    paths = [save(tmp_path / f"{n}.png", noise(*size, seed=n)) for n, size in enumerate(sizes)]
    cache, decode = DecodedCache(tmp_path / "cache", 20_000 / 2**30), Counting()
    with caplog.at_level(logging.INFO):
        for path in paths * 2:
            np.testing.assert_array_equal(cache.load(path, decode), read_image(path))
    assert decode.calls == 3 + 2 * 3
    assert [record.message.count("data.cache_gib") for record in caplog.records] == [1]
    assert cache.takes(paths[4], 1200)
    assert not cache.takes(paths[5], 33_000)


def test_a_full_disk_is_survived_with_one_warning(image, cache, caplog, monkeypatch):
    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", no_space)
    for _ in range(2):
        np.testing.assert_array_equal(cache.load(image, read_image), read_image(image))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "No space left" in caplog.text
    assert list(cache.folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_survived(image, tmp_path):
    (tmp_path / "file").touch()
    cache = DecodedCache(tmp_path / "file" / "cache", 1)
    np.testing.assert_array_equal(cache.load(image, read_image), read_image(image))


@pytest.mark.parametrize("damage", [b"", b"rubbish", None])
def test_damaged_entries_are_replaced(image, cache, damage):
    cache.load(image, read_image)
    (entry,) = cache.folder.iterdir()
    entry.write_bytes(entry.read_bytes()[:500] if damage is None else damage)
    np.testing.assert_array_equal(cache.load(image, read_image), read_image(image))
    assert isinstance(cache.load(image, read_image), np.memmap)


def _write_slowly(folder, path):
    """Ends when its process is killed in the middle of a write."""

    def stop(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    module.os.fsync = stop
    DecodedCache(folder, 1).load(path, read_image)


def test_a_writer_that_is_killed_leaves_nothing_that_is_read(image, cache):
    writer = multiprocessing.get_context("fork").Process(target=_write_slowly, args=(cache.folder, image))
    writer.start()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    (left,) = cache.folder.iterdir()
    assert left.suffix == ".tmp"
    assert left.stat().st_size > 0
    decode = Counting()
    for _ in range(2):
        np.testing.assert_array_equal(cache.load(image, decode), read_image(image))
    assert decode.calls == 1


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.999])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
def test_an_entry_that_was_cut_is_replaced(image, cache, dtype, share):
    array = pixels(dtype, 5)
    cache.load(image, lambda _: array)
    (entry,) = cache.folder.iterdir()
    content = entry.read_bytes()
    entry.write_bytes(content[: int(len(content) * share)])
    for _ in range(2):
        kept = cache.load(image, lambda _: array)
        assert isinstance(kept, np.memmap)
        np.testing.assert_array_equal(kept, array)
    assert entry.read_bytes() == content


def test_whether_a_file_would_be_kept(image, tmp_path):
    cache = DecodedCache(tmp_path / "cache", 10_000 / 2**30)
    assert cache.takes(image, 9_000)
    assert not cache.takes(image, 11_000)
    cache.load(image, read_image)  # 7,200 bytes
    assert cache.takes(image, 11_000)
    other = save(tmp_path / "b.png", noise(40, 60, seed=1))
    assert not cache.takes(other, 7_200)
    assert not NoCache().takes(image, 1)


def test_leftovers_of_killed_processes_are_removed(image, cache):
    cache.folder.mkdir()
    old, fresh = cache.folder / "old.tmp", cache.folder / "fresh.tmp"
    old.touch()
    fresh.touch()
    os.utime(old, (0, 0))
    cache.load(image, read_image)
    assert not old.exists()
    assert fresh.exists()


def test_errors_of_decoding_pass_through(tmp_path, cache):
    with pytest.raises(DataError, match=r"no.png.*no such file"):
        cache.load(tmp_path / "no.png", read_image)


def test_no_budget_keeps_nothing(image, tmp_path):
    cache = open_cache(tmp_path / "cache", 0)
    assert type(cache) is NoCache
    np.testing.assert_array_equal(cache.load(image, read_image), read_image(image))
    assert not (tmp_path / "cache").exists()


def _load_all(folder, paths):
    cache = DecodedCache(folder, 1)
    return [int(cache.load(path, read_image).sum()) for path in paths]


def test_concurrent_writers_agree(tmp_path):
    paths = [save(tmp_path / f"{n}.png", noise(40, 60, seed=n)) for n in range(8)]
    with ProcessPoolExecutor(3) as pool:
        results = list(pool.map(_load_all, [tmp_path / "cache"] * 3, [paths] * 3))
    assert results == [[int(read_image(path).sum()) for path in paths]] * 3
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [".npy"] * 8
