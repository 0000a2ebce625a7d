"""A worker process needs no more memory after many epochs than after a few."""

import multiprocessing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from image_files import noise, save

from hires.data.augment import Augment
from hires.data.box_objects import Images, made
from hires.data.box_source import BoxSource
from hires.data.cache import DecodedCache
from hires.data.pixels import PixelRules
from hires.data.settings import WindowSettings
from hires.data.windows import WindowDataset

IMAGES, OBJECTS, SAMPLES, EPOCHS = 20_000, 30, 250, 16
ROLLUP = Path("/proc/self/smaps_rollup")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ROLLUP.exists(), reason="this system does not say what belongs to a process alone"),
]


def own_bytes():
    """Of this process alone: pages that it shares with its parent do not count until one of them writes."""
    lines = dict(line.split(":") for line in ROLLUP.read_text().splitlines()[1:])
    return int(lines["Private_Dirty"].split()[0]) * 1024


def grown(run):
    """Bytes by which a forked process grows while `run` is called with the later epochs."""

    def work(results):
        for epoch in range(4):
            run(epoch)
        before = own_bytes()
        for epoch in range(4, EPOCHS):
            run(epoch)
        results.put(own_bytes() - before)

    context = multiprocessing.get_context("fork")
    results = context.Queue()
    worker = context.Process(target=work, args=(results,))
    worker.start()
    found = results.get(timeout=120)
    worker.join()
    return found


@pytest.fixture
def dataset(tmp_path):
    save(tmp_path / "a.png", noise(96, 96))
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 80, (IMAGES * OBJECTS, 2))
    objects = made(
        np.repeat(np.arange(IMAGES), OBJECTS),
        np.concatenate([corners, corners + rng.uniform(4, 16, corners.shape)], axis=1),
        rng.integers(0, 2, IMAGES * OBJECTS),
    )
    images = Images(["a.png"] * IMAGES, np.full((IMAGES, 2), 96), np.arange(IMAGES))
    classes = SimpleNamespace(names=("a", "b"), ids=(1, 2))
    source = BoxSource(tmp_path, images, objects, classes, PixelRules(), DecodedCache(tmp_path / "cache", 1))
    import albumentations

    return WindowDataset(source, (64, 64), WindowSettings(), Augment([albumentations.D4(p=1)]), 0, padding=0)


def test_annotations_are_not_copied_into_workers(dataset):
    def epoch(number):
        for index in range(SAMPLES):
            dataset[number, index]

    assert grown(epoch) < 3 * 2**20


def test_lists_would_be():
    """Counting references to their items writes into their pages: what the test above would see."""
    share = IMAGES * OBJECTS // 4 // EPOCHS
    lists = [[float(number), "name"] for number in range(share * EPOCHS)]

    def epoch(number):
        for item in lists[number * share : (number + 1) * share]:
            list(item)

    assert grown(epoch) > 3 * 2**20
