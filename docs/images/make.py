"""Makes the pictures of README.md: python docs/images/make.py RUN, of a finished run of experiment=demo.

The demo's images are looked for in data/demo, where that run has made them.
They are generated: no licence applies.
"""

import json
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np
from PIL import Image

from hires.visualize.memory_chart import Place, areas
from hires.visualize.svg import COLOURS
from hires.visualize.text import size

HERE = Path(__file__).parent
BUDGET = "400MiB"
WIDTH, HEIGHT, GAP = 760, 250, 34  # of the larger chart, and what is above each
INKS = ("#2f6fd0", "#c8641b", "#2b8a57", "#9a4bb0", "#a8820f", "#c23b50")
INKS += ("#12a5b8", "#39435c", "#8fae1b", "#5b46c9", "#e48fbe")
STYLE = """text { fill: #1c2026; font: 12px system-ui, sans-serif; } .label { font-weight: 600; }
.faint { fill: #626a75; } .grid { stroke: #d9dde3; } .over { stroke: #fff; stroke-opacity: 0.4; }
.area { shape-rendering: crispEdges; } .hover { fill: transparent; }
.mark { stroke: #1c2026; stroke-dasharray: 3 3; }
.dot { fill: #1c2026; stroke: #fff; }"""
SIDE, TITLE, MARGIN = 340, 26, 8  # pixels
CLASSES = {"scratch": (32, 110, 240), "pit": (240, 80, 20), "stain": (43, 150, 87)}  # RGB
GRAYS = 100  # colours of the image itself; those of the classes follow, then white and black
WHITE, BLACK = GRAYS + len(CLASSES), GRAYS + len(CLASSES) + 1


def hires(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "hires.cli", *arguments], check=True, stdout=subprocess.DEVNULL)


def profile(folder: Path, *overrides: str) -> dict:
    hires("profile", "experiment=demo", f"memory.budget={BUDGET}", f"run_dir={folder}", *overrides)
    return json.loads((folder / "memory.json").read_text())


def chart(
    outcome: dict, title: str, top: float, height: float, colours: dict[str, int]
) -> tuple[list[str], float]:
    """A drawing of a step below its title, and where it ends."""
    layers = {name: outcome["timeline"]["bytes"][name] for name in colours}
    places = [Place(**place) for place in outcome["timeline"]["places"]]
    most = max(map(sum, zip(*layers.values(), strict=True)))
    peak = f"peak {size(most)}, {Place(0, **outcome['peak_at'])}"
    drawn = areas(layers, places, list(colours.values()), peak=peak, width=WIDTH, height=round(height))
    tall = float(drawn.split('viewBox="0 0 ', 1)[1].split('"')[0].split()[1])
    placed = drawn.replace("<svg ", f'<svg x="0" y="{top + GAP:.0f}" width="{WIDTH}" height="{tall:.0f}" ', 1)
    return [f'<text x="0" y="{top + 18:.0f}" class="label">{escape(title)}</text>', placed], top + GAP + tall


def plan_picture(path: Path) -> None:
    """A step with everything kept, and one with the cheapest policies within the budget, on one scale."""
    with TemporaryDirectory() as folder:
        kept = profile(Path(folder, "kept"))
        fitted = profile(Path(folder, "fitted"), kept["fitting"]["override"].strip("'"))
    names = [name for name, values in kept["timeline"]["bytes"].items() if any(values)]
    colours = {name: index % COLOURS for index, name in enumerate(names)}
    again = f"{100 * kept['fitting']['cost']:.0f} % of the step is computed again (estimated)"
    share = fitted["live"] / kept["live"]
    parts, end = chart(kept, "Everything kept", 0, HEIGHT, colours)
    more, end = chart(
        fitted,
        f"Within {size(kept['fitting']['budget'])} reserved: {again}",
        end + 14,
        28 + share * (HEIGHT - 28),
        colours,
    )
    keys, x, y = [], 0, end + 26
    for name, colour in colours.items():
        if x + 24 + 7 * len(name) > WIDTH:
            x, y = 0, y + 20
        keys.append(f'<rect x="{x}" y="{y - 10}" width="11" height="11" rx="2" class="c{colour}"/>')
        keys.append(f'<text x="{x + 16}" y="{y}">{escape(name)}</text>')
        x += 34 + 7 * len(name)
    inks = " ".join(f".c{index} {{ fill: {ink}; }}" for index, ink in enumerate(INKS))
    frame = f'viewBox="-14 -8 {WIDTH + 28} {y + 22:.0f}"'
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>\n<style>{STYLE} {inks}</style>\n'
        f'<rect x="-14" y="-8" width="100%" height="100%" fill="#fff"/>\n'
        + "\n".join([*parts, *more, *keys])
        + "\n</svg>\n"
    )


def prediction_picture(run: Path, path: Path) -> None:
    """Where most classes and pixels of the truth are: image, truth, prediction."""
    images = Path("data/demo/val/images")
    with TemporaryDirectory() as folder:
        hires("predict", f"run={run}", f"source={images}", f"out={folder}", "overlays=false")
        found = {file.name: np.array(Image.open(file)) for file in sorted(Path(folder, "masks").glob("*.png"))}
    truths = {name: np.array(Image.open(images.parent / "masks" / name)) for name in found}
    name, top, left = max(
        ((name, y, x) for name in truths for y in range(0, 2048 - SIDE, 64) for x in range(0, 2048 - SIDE, 64)),
        key=lambda place: interest(truths[place[0]][place[1] : place[1] + SIDE, place[2] : place[2] + SIDE]),
    )
    part = np.s_[top : top + SIDE, left : left + SIDE]
    image = Image.open(images / name).convert("RGB").crop((left, top, left + SIDE, top + SIDE))
    gray = image.quantize(GRAYS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    part = np.s_[top : top + SIDE, left : left + SIDE]
    panels = [
        painted(np.array(gray), mask)
        for mask in (np.zeros((SIDE, SIDE), int), truths[name][part], found[name][part])
    ]
    canvas = np.full((SIDE + TITLE, 3 * SIDE + 2 * MARGIN), WHITE, np.uint8)
    for index, (panel, text) in enumerate(zip(panels, ("image", "truth", "prediction"), strict=True)):
        x = index * (SIDE + MARGIN)
        canvas[TITLE:, x : x + SIDE] = panel
        cv2.putText(canvas, text, (x, 17), cv2.FONT_HERSHEY_SIMPLEX, 0.5, BLACK, 1)
    picture = Image.fromarray(canvas, "P")
    picture.putpalette([*gray.getpalette()[: 3 * GRAYS], *sum(CLASSES.values(), ()), 255, 255, 255, 28, 32, 38])
    picture.save(path, optimize=True)


def interest(mask: np.ndarray) -> float:
    """More classes first, then things of each in like measure."""
    counts = np.bincount(mask.ravel(), minlength=4)[1:4]
    return float((counts > 60).sum() + np.minimum(counts, 1500).sum() / 1e4)


def painted(indices: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Indices of the palette: classes in their colours over the image."""
    return np.where(mask > 0, GRAYS - 1 + mask, indices).astype(np.uint8)


if __name__ == "__main__":
    plan_picture(HERE / "plan.svg")
    if len(sys.argv) > 1:
        prediction_picture(Path(sys.argv[1]), HERE / "prediction.png")
