"""How much the prediction of a trained run depends on where its windows lie.

Predicts whole images of a run with two tilings and prints the share of pixels whose class differs.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results import ROOT, conditions, write

from hires import runs
from hires.engine.checkpointer import read, weights
from hires.engine.evaluate import Settle, as_it_is, predict
from hires.engine.fabric import Place, make_fabric
from hires.engine.views import Views
from hires.learner import make_task, move
from hires.models.statistics import image_statistics
from hires.recipe import read_recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", default=ROOT / "runs/bench/hrf_vessels", help="trained")
    parser.add_argument("--split", default="test")
    parser.add_argument("--images", type=int, default=2, help="how many of the split")
    parser.add_argument("--window", type=int, nargs=2, default=(512, 512), help="side of each tiling, pixels")
    parser.add_argument("--overlap", type=float, nargs=2, default=(0.25, 0.4), help="of each tiling")
    parser.add_argument("--statistics", choices=("window", "image"), default="image", help="of GroupNorm")
    parser.add_argument("--out", type=Path, default=Path("docs/bench/tilings.json"))
    options = parser.parse_args()
    if not options.run.exists():
        print(f"not run: no {options.run}, which trainings.py makes")
        return
    recipe = read_recipe(runs.load_config(options.run))
    source = recipe.data.source(options.split)
    fabric = make_fabric(recipe.trainer.accelerator, recipe.trainer.precision)
    task = make_task(recipe, source.classes, training=None, load_pretrained=False)
    task.load_state_dict(weights(read(runs.checkpoint_path(options.run, "best"))))
    move(task, recipe, fabric)
    task.eval()
    place = Place(fabric.device, recipe.trainer.channels_last)
    tilings = [
        Views("window", (side, side), overlap)
        for side, overlap in zip(options.window, options.overlap, strict=True)
    ]
    settle = image_statistics if options.statistics == "image" else as_it_is
    shares = {}
    for index in range(min(options.images, len(source))):
        image, _ = source.read(index)
        first, second = (labels(task, image, views, place, fabric.autocast, settle) for views in tilings)
        shares[source.name(index)] = float((first != second).mean())
        print(f"{source.name(index)}: {100 * shares[source.name(index)]:.3f} % of the pixels differ")
    report = {
        "share_of_pixels": shares,
        "mean": sum(shares.values()) / len(shares),
        "statistics": options.statistics,
        "tilings": [{"window": views.size, "overlap": views.overlap} for views in tilings],
        **conditions(),
    }
    write(options.out, report)


@torch.inference_mode()
def labels(task: Any, image: np.ndarray, views: Views, place: Any, autocast: Any, settle: Settle) -> np.ndarray:
    """Classes of a whole image (H, W) under a tiling."""
    parts = predict(task, image, views, place=place, autocast=autocast, settle=settle)
    return np.concatenate([part.labels for part in parts])


if __name__ == "__main__":
    main()
