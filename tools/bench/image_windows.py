"""Time and memory of windows of a large TIFF, which is made for it in a temporary folder and removed.

For each layout: the first window, the median and the largest of those after it, and by how much the process grew.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import tifffile
from results import conditions, write

from hires.data.images import image_info, read_image
from hires.interfaces import Window

TILE = 256
LAYOUTS: dict[str, dict[str, Any]] = {
    "deflate, tiles of 256": {"compression": "zlib", "predictor": True, "tile": (TILE, TILE)},
    "JPEG, tiles of 256": {"compression": "jpeg", "photometric": "ycbcr", "tile": (TILE, TILE)},
    "uncompressed, strips of 8 rows": {"rowsperstrip": 8},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--side", type=int, default=20_000, help="of the image, pixels")
    parser.add_argument("--window", type=int, default=512, help="side of a window, pixels")
    parser.add_argument("--windows", type=int, default=200)
    parser.add_argument("--measure", type=Path, help="an image that is there: print its figures only")
    parser.add_argument("--out", type=Path, default=Path("docs/bench/image_windows.json"))
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(figures(options.measure, options.window, options.windows)))
        return
    report = {"side": options.side, "window": options.window, "windows": options.windows, **versions()}
    report["layouts"] = {name: measured(name, options) for name in LAYOUTS}
    write(options.out, report)
    medians = (f"{name}: {found['median_ms']:.1f} ms" for name, found in report["layouts"].items())
    print(f"a window of {options.window}, median:", ", ".join(medians))


def versions() -> dict[str, str]:
    libraries = {"tifffile": tifffile.__version__, "imagecodecs": imagecodecs.__version__, "numpy": np.__version__}
    return {**conditions(), **libraries}


def measured(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Figures of one layout, from a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.tif"
        draw(path, options.side, LAYOUTS[name])
        more = ["--window", str(options.window), "--windows", str(options.windows)]
        command = [sys.executable, __file__, "--measure", str(path), *more]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return {"file_bytes": path.stat().st_size, **json.loads(told)}


def draw(path: Path, side: int, layout: dict[str, Any]) -> None:
    """An RGB image of slow waves with noise."""
    shape = (side, side, 3)
    pieces = tiles(side) if "tile" in layout else strips(side, layout["rowsperstrip"])
    options = {"photometric": "rgb", "bigtiff": True, "metadata": None, **layout}
    tifffile.imwrite(path, pieces, shape=shape, dtype=np.uint8, **options)


def tiles(side: int) -> Iterator[np.ndarray]:
    texture, count = waves(2 * TILE, 2 * TILE), -(-side // TILE)
    for index in range(count * count):
        y, x = (index * 37) % TILE, (index * 101) % TILE
        yield texture[y : y + TILE, x : x + TILE]


def strips(side: int, rows: int) -> Iterator[np.ndarray]:
    texture = waves(256 + rows, side)
    for top in range(0, side, rows):
        y = (top * 37) % 256
        yield texture[y : y + min(rows, side - top)]


def waves(height: int, width: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    gray = 128 + 60 * np.sin(y / 31) * np.cos(x / 17) + rng.normal(0, 6, (height, width))
    return np.stack([gray, gray * 0.9, gray * 0.8], axis=-1).clip(0, 255).astype(np.uint8)


def figures(path: Path, side: int, count: int) -> dict[str, float]:
    """Milliseconds and bytes of reading windows at random places."""
    rng, before, times = np.random.default_rng(0), memory("VmRSS"), []
    height, width = image_info(path).size
    for _ in range(count + 1):
        y, x = int(rng.integers(height - side + 1)), int(rng.integers(width - side + 1))
        start = time.perf_counter()
        read_image(path, Window(y, x, side, side))
        times.append(1000 * (time.perf_counter() - start))
    later = times[1:]
    found = {"first_ms": times[0], "median_ms": statistics.median(later), "largest_ms": max(later)}
    return {**{name: round(value, 2) for name, value in found.items()}, "growth_bytes": memory("VmHWM") - before}


def memory(name: str) -> int:
    """Bytes of this process by a name of /proc: VmRSS now, VmHWM at most (what a parent had does not count)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) * 1024


if __name__ == "__main__":
    main()
