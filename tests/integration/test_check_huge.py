"""`hires check-data` reads an image of 20,000 x 20,000 pixels in little memory."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tifffile

GIB = 2**30


WATCH = """
import re, sys
sys.argv = ["hires", "check-data", *sys.argv[1:]]
from hires.cli import main
code = main()
status = open("/proc/self/status").read()
print("PEAK", int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) * 1024)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def huge(tmp_path_factory):
    root = tmp_path_factory.mktemp("huge")
    write_huge(root, 20_000)
    return root


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_an_image_of_20000_pixels_a_side_takes_less_than_a_gibibyte(huge, tmp_path, workers):
    arguments = [
        "data=mask_folder",
        f"data.root={huge}",
        "data.images=images/*.tif",
        "data.masks=masks/*.tif",
        "data.classes={a: 0, b: 1, c: 2}",
        "data.splits={val: images/1.tif}",
        f"data.workers={workers}",
        f"run_dir={tmp_path / 'run'}",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", WATCH, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    peaks = watched(process)
    output, error = process.communicate()
    assert process.returncode == 0, error
    own = int(output.split("PEAK")[1])
    assert own < GIB
    assert all(peak < GIB for peak in peaks.values())
    assert len(peaks) > workers
    outcome = json.loads((tmp_path / "run" / "data.json").read_text())
    assert outcome["images"]["sizes"]["largest"] == [20_000, 20_000]
    assert outcome["classes"][1]["counts"]["train"] == pytest.approx(20_000**2 / 3, rel=0.01)
    assert outcome["counts"]["error"] == 0


def watched(process: subprocess.Popen) -> dict[int, int]:
    """The peak of resident memory of a process and of each that it starts, bytes, until it ends."""
    peaks: dict[int, int] = {}
    while process.poll() is None:
        for path in Path("/proc").glob("[0-9]*/status"):
            try:
                text = path.read_text()
            except OSError:
                continue
            pid, parent = int(path.parent.name), int(re.search(r"PPid:\s+(\d+)", text)[1])
            peak = re.search(r"VmHWM:\s+(\d+) kB", text)
            if peak and process.pid in (pid, parent):
                peaks[pid] = max(peaks.get(pid, 0), int(peak[1]) * 1024)
        time.sleep(0.05)
    return peaks


def write_huge(root: Path, side: int) -> None:
    """A tiled image of stripes with its mask, and a small pair to evaluate."""
    for number, size in ((0, side), (1, 512)):
        for folder in ("images", "masks"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        for folder, weights in (("masks", (1,)), ("images", (100, 50, 60 + number))):
            bands = len(weights)
            tifffile.imwrite(
                root / folder / f"{number}.tif",
                tiles(size, np.array(weights, np.uint8)),
                shape=(size, size, bands) if bands > 1 else (size, size),
                dtype=np.uint8,
                tile=(512, 512),
                photometric="rgb" if bands > 1 else "minisblack",
                compression="zlib",
                compressionargs={"level": 1},
            )


def tiles(size: int, weights: np.ndarray) -> Iterator[np.ndarray]:
    """The tiles of an image with stripes of 97 rows: 0, 1 and 2 times the weights in turns."""
    across = -(-size // 512)
    for top in range(0, across * 512, 512):
        stripes = ((top + np.arange(512)) // 97 % 3).astype(np.uint8)[:, None, None] * weights
        tile = np.repeat(stripes, 512, axis=1)
        for _ in range(across):
            yield tile if len(weights) > 1 else tile[:, :, 0]
