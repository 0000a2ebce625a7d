"""Finished runs without a training: networks of random weights that say something, and what a run keeps."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from torch import nn

from hires.data.pixel_statistics import assumed
from hires.engine import checkpoint_file
from hires.engine.files import write_json
from hires.interfaces import Batch
from hires.learner import make_task
from hires.recipe import Recipe, read_recipe
from hires.request import config_dir
from hires.runs import LAST, save_config

CLASSES = ("background", "disc", "bar")
SPREAD = {"cls_logits": 1.0, "cls_score": 1.0, "bbox_reg": 0.5, "bbox_pred": 0.5, "bbox_ctrness": 1.0}
"""Deviation of what the last layers of detectors say: with less it is all the same, with more scores are all 1."""


def made_run(run_dir: Path, *overrides: str, classes: tuple[str, ...] = CLASSES):
    """Writes a run directory; gives its task, which sees 8-bit images."""
    common = ["backbone.name=test_resnet", "backbone.pretrained=false", "image_size=64", "trainer.accelerator=cpu"]
    common += ["memory=fixed", "micro_batch_size=null"]
    with initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        cfg = compose("train", overrides=[*common, *overrides, f"run_dir={run_dir}"])
    recipe = read_recipe(cfg)
    task = lively_task(recipe, classes)
    (run_dir / LAST).parent.mkdir(parents=True)
    save_config(cfg, run_dir)
    write_json(run_dir / "statistics.json", asdict(assumed(recipe.data, np.dtype(np.uint8))))
    write_json(run_dir / "classes.json", {"classes": list(classes), "category_ids": list(range(len(classes)))})
    checkpoint_file.write(run_dir / LAST, {"task": task.state_dict()})
    return task


def lively_task(recipe: Recipe, classes: tuple[str, ...]):
    """A task in evaluation: norms with statistics of images, detections whose scores differ."""
    torch.manual_seed(0)
    task = make_task(recipe, classes, training=None, load_pretrained=False)
    # logits of dense detectors begin at -4.6, and boxes of fcos, in strides, have to overlap
    further = {"fcos": {"bbox_reg": 6.0, "cls_logits": 2.0}, "retinanet": {"cls_logits": 2.0}}.get(
        recipe.task.kind, {}
    )
    noise = torch.randint(256, (2, 3, 96, 128), dtype=torch.uint8)
    pixels = torch.cat([images(2, (96, 128)), noise])
    for norm in (part for part in task.modules() if isinstance(part, nn.BatchNorm2d)):
        norm.momentum = None  # the mean of all passes
    with torch.no_grad():
        task.network.train()
        task.network(task.normalize(pixels))
        task.eval()
        for name, part in task.named_modules():
            wanted = {**SPREAD, **further}.get(name.rpartition(".")[2])
            if wanted:
                scaled = part.register_forward_hook(_scaling(wanted))
                task.predict(Batch(pixels, []))
                scaled.remove()
    return task


def suppressed(task, pixels: torch.Tensor) -> int:
    """How many detections of an image non-maximum suppression drops."""
    outputs = task.network(task.normalize(pixels))
    choice, extent = task.settings.choice(), tuple(pixels.shape[-2:])
    kept, every = (task.network.detect(outputs, extent, choice._replace(iou=iou)) for iou in (choice.iou, 1.0))
    return len(every[0].scores) - len(kept[0].scores)


def _scaling(wanted: float):
    seen = []

    def scale(layer: nn.Module, inputs: tuple, output: torch.Tensor) -> None:
        seen.append(layer)
        if len(seen) > 1:  # of the finest level alone
            return
        said = output if layer.bias is None else output - _shaped(layer.bias, output)
        layer.weight.mul_(wanted / said.std())

    return scale


def _shaped(bias: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A value a channel (or column) as a tensor that fits (B, C, H, W) or (B, C)."""
    return bias.view(1, -1, *[1] * (like.dim() - 2))


def images(count: int, size: tuple[int, int], seed: int = 0) -> torch.Tensor:
    """Smooth random images (B, 3, H, W) uint8 with edges."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, size[0] // 8, size[1] // 8, generator=generator)
    fine = torch.rand(count, 3, *size, generator=generator)
    smooth = nn.functional.interpolate(coarse, size=size, mode="nearest")
    return ((0.7 * smooth + 0.3 * fine) * 255).byte()
