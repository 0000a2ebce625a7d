"""What every test gets: one thread a process, a cache of its own, small data sets made on the spot."""

import gc
import logging
import os
import pickle
import shutil
import signal
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from unittest import mock

import cv2
import numpy as np
import pytest
from hypothesis import settings

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that tests start, too: threads that wait for a core spin
settings.register_profile("hires", deadline=None, derandomize=True)  # a busy machine may take its time
settings.load_profile("hires")
REPOSITORY = Path(__file__).parents[1]
REAL_DATA = REPOSITORY.parent / "shared" / "data"


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    import torch

    import_module("hires.build")
    gc.collect()
    gc.freeze()  # every training collects garbage, and would go through all of torch
    torch.set_num_threads(1)
    cv2.setNumThreads(1)


@pytest.fixture(autouse=True, scope="session")
def _ended_by_signals():
    """A shell has what it starts in the background ignore SIGINT, and `nohup` SIGHUP."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    os.environ["HIRES_CACHE"] = str(tmp_path_factory.getbasetemp() / "cache")


@pytest.fixture(autouse=True, scope="session")
def _parsed_once():
    """Commands that begin anew read the same files of options; OmegaConf parses each text once."""
    from omegaconf import OmegaConf

    original, parsed = OmegaConf.load, {}

    def load(file):
        if not hasattr(file, "seek"):
            return original(file)
        begin, text = file.tell(), file.read()
        if text not in parsed:
            file.seek(begin)
            parsed[text] = pickle.dumps(original(file))
        return pickle.loads(parsed[text])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(OmegaConf, "load", staticmethod(load))
        yield


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """What commands set for their process does not last beyond a test."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig

    from hires.data.formats import image_file
    from hires.memory.kinds import KINDS

    monkeypatch.setattr(image_file, "_max_pixels", image_file._max_pixels)
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    monkeypatch.setattr(GlobalHydra.instance(), "hydra", None)
    handlers = list(logging.getLogger().handlers)  # Hydra adds some
    _reset_loggers()  # a fixture of a whole module may have run a command, too
    with mock.patch.dict(KINDS):  # the policies that a command line named
        yield
    logging.getLogger().handlers = handlers
    _reset_loggers()


def _reset_loggers():
    logging.getLogger().setLevel(logging.WARNING)
    own = logging.getLogger("hires")
    own.setLevel(logging.NOTSET)
    own.propagate, own.handlers = True, []


@pytest.fixture(scope="session")
def shapes(tmp_path_factory) -> Path:
    """Six images of odd sizes with bright discs and dark bars; masks 0, 100 (disc), 200 (bar), 255 (ignored)."""
    root = tmp_path_factory.mktemp("shapes")
    for index in range(6):
        image, mask = shape_image(np.random.default_rng(index), 150 + 7 * index, 201)
        for folder, array in (("images", image), ("masks", mask)):
            (root / folder).mkdir(exist_ok=True)
            cv2.imwrite(str(root / folder / f"{index}.png"), array)
    return root


def shape_image(rng: np.random.Generator, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    image = rng.normal(110, 12, (height, width, 3)).clip(0, 255).astype(np.uint8)
    mask = np.zeros((height, width), np.uint8)
    for _ in range(6):
        y, x = int(rng.integers(height)), int(rng.integers(width))
        cv2.circle(image, (x, y), 11, (230, 220, 200), -1)
        cv2.circle(mask, (x, y), 11, 100, -1)
        y, x = int(rng.integers(height)), int(rng.integers(width))
        cv2.rectangle(image, (x, y), (x + 30, y + 6), (20, 30, 40), -1)
        cv2.rectangle(mask, (x, y), (x + 30, y + 6), 200, -1)
    mask[:5] = 255
    return image, mask


@pytest.fixture
def shapes_overrides(shapes, tmp_path) -> list[str]:
    """A training of seconds on `shapes`: a tiny backbone, windows of 64 pixels."""
    return [
        "data=mask_folder",
        f"data.root={shapes}",
        "data.images=images/*.png",
        "data.masks=masks/*.png",
        "data.classes={background: 0, disc: 100, bar: 200}",
        "data.ignore_values=[255]",
        "data.splits={val: images/5.png}",
        "data.workers=0",
        "backbone.name=test_resnet",
        "backbone.pretrained=false",
        "model.decoder_channels=[32,16,16,8,8]",
        "image_size=64",
        "batch_size=4",
        "micro_batch_size=null",
        "memory=fixed",
        "trainer.max_steps=4",
        "trainer.log_every=2",
        "trainer.accelerator=cpu",
        "scheduler.warmup_steps=1",
        "evaluation.every=null",
        f"run_dir={tmp_path / 'run'}",
    ]


@pytest.fixture
def hires(monkeypatch, capfd):
    """Runs the command line in this process: hires("train", ...) -> (exit code, stdout, stderr)."""
    from hires.cli import main

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["hires", *arguments])
        capfd.readouterr()
        code = main()
        return code, *capfd.readouterr()

    return run


@pytest.fixture(scope="module")
def _kept(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def copied(_kept):
    """copied(run_dir, make): a run that the first test of a module makes there; the others get a copy of it."""

    def run(run_dir: Path, make: Callable[[], object]) -> Path:
        if (_kept / run_dir.name).exists():
            shutil.copytree(_kept / run_dir.name, run_dir)
        else:
            make()
            shutil.copytree(run_dir, _kept / run_dir.name)
        return run_dir

    return run


def pytest_collection_modifyitems(items):
    """Tests that fork come first: a process in which autograd has got threads cannot."""
    named = ("test_distributed", "test_kill")  # which fork by themselves
    items.sort(key=lambda item: not (_forks(item.module) or any(name in item.nodeid for name in named)))


@cache
def _forks(module: ModuleType) -> bool:
    sources = ("tests.forks", "tests.processes")
    return any(getattr(each, "__module__", None) in sources for each in vars(module).values())
