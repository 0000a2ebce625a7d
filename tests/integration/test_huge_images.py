"""Images of 20,000 x 20,000 pixels are evaluated and predicted in a few GiB, whatever their number."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

GIB = 2**30
PREDICT = """
import sys
from pathlib import Path
import numpy as np, torch
from omegaconf import OmegaConf
from hires import runs
from hires.engine.checkpointer import read, weights
from hires.engine.evaluate import predict
from hires.engine.views import Views
from hires.recipe import read_recipe
from hires.learner import make_task

run, out = Path(sys.argv[1]), sys.argv[2]
recipe = read_recipe(runs.load_config(run))
source = recipe.data.source("test")
task = make_task(recipe, source.classes, training=None, load_pretrained=False).eval()
task.load_state_dict(weights(read(run / "checkpoints/last.pt")))
image, _ = source.read(0)
labels = np.lib.format.open_memmap(out, "w+", np.uint8, image.shape[:2])
views = Views("window", recipe.window, 0.0)
with torch.inference_mode():
    for part in predict(task, image, views, place=lambda b: b, autocast=torch.no_grad):
        labels[part.top : part.top + len(part.labels)] = part.labels
labels.flush()
"""


def write_pair(root: Path, name: str, side: int) -> None:
    """A striped image with its mask; both compress well, so that writing takes seconds."""
    rows = (np.arange(side) // 97 % 3).astype(np.uint8)
    mask = np.repeat(rows[:, None], side, axis=1)
    for folder in ("images", "masks"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(root / "masks" / f"{name}.png"), mask, [cv2.IMWRITE_PNG_COMPRESSION, 1])
    image = cv2.merge([mask * 100, mask * 50, 255 - mask * 60])
    cv2.imwrite(str(root / "images" / f"{name}.jpg"), image)


def peak_anonymous_bytes(*command: str) -> int:
    """The most anonymous memory that a command held, sampled; memory-mapped files do not count."""
    process = subprocess.Popen(command)
    peak = 0

    def watch() -> None:
        nonlocal peak
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            lines = [line for line in status.read_text().splitlines() if line.startswith("RssAnon")]
            peak = max([peak, *(int(line.split()[1]) * 1024 for line in lines)])
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    watcher.join()
    assert code == 0
    return peak


def train_on(root: Path, run_dir: Path, hires) -> None:
    """One step on the small images called train_*; those called test_* are the test split."""
    code, _, error = hires(
        "train",
        "data=mask_folder",
        f"data.root={root}",
        "data.images=images/*.jpg",
        "data.masks=masks/*.png",
        "data.classes={a: 0, b: 1, c: 2}",
        "data.splits={val: null, test: images/test_*}",
        "data.workers=0",
        "backbone.name=test_resnet",
        "backbone.pretrained=false",
        "model=segformer",
        "model.decoder_channels=16",
        "image_size=64",
        "batch_size=2",
        "trainer.max_steps=1",
        "trainer.accelerator=cpu",
        "evaluation.window=2048",
        f"run_dir={run_dir}",
    )
    assert code == 0, error


def evaluate(run_dir: Path) -> tuple[int, dict[str, float]]:
    arguments = ["evaluate", f"run={run_dir}", "split=test", "evaluation.overlap=0"]
    peak = peak_anonymous_bytes(sys.executable, "-m", "hires.cli", *arguments)
    result = json.loads((run_dir / "evaluate/test-last/result.json").read_text())
    return peak, result["metrics"]


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")


@pytest.mark.slow
@needs_proc
def test_20000_pixels_in_4_gib(tmp_path, hires):
    root = tmp_path / "set"
    write_pair(root, "train_0", 128)
    write_pair(root, "test_0", 20_000)
    train_on(root, tmp_path / "run", hires)
    peak, metrics = evaluate(tmp_path / "run")
    assert 0 <= metrics["accuracy"] <= 1
    assert peak < 4 * GIB, peak / GIB
    command = [sys.executable, "-c", PREDICT, str(tmp_path / "run"), str(tmp_path / "labels.npy")]
    peak = peak_anonymous_bytes(*command)
    assert peak < 4 * GIB, peak / GIB
    assert np.load(tmp_path / "labels.npy", mmap_mode="r").shape == (20_000, 20_000)


@pytest.mark.slow
@needs_proc
def test_memory_of_an_evaluation_does_not_grow_with_the_images(tmp_path, hires):
    peaks = []
    for count in (1, 12):
        root = tmp_path / f"set{count}"
        write_pair(root, "train_0", 128)
        for index in range(count):
            write_pair(root, f"test_{index}", 3000)
        train_on(root, tmp_path / f"run{count}", hires)
        peaks.append(evaluate(tmp_path / f"run{count}")[0])
    # eleven more images with their masks would be 0.37 GiB, a quarter of the whole
    assert peaks[1] < 1.18 * peaks[0], [peak / GIB for peak in peaks]
