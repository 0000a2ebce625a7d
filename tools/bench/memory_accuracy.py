"""Predicted against measured memory of training steps on the CPU: `hires profile memory.measure=true`, 32 cases.

Eight backbones, segmentation and detection, float32 and bfloat16; networks, policies, sizes, batches and optimizer
differ from case to case. Nothing in the prediction is fitted to these cases: the workspace of kernels is measured
on steps at smaller sizes each time, and the rest follows from shapes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import torch  # noqa: F401  (its threads are noted)
from results import conditions, write


class Case(NamedTuple):
    model: str
    backbone: str
    precision: str
    height: int
    width: int
    batch: int  # of an optimizer step
    micro: int
    policy: str
    more: tuple[str, ...] = ()


SGD, EMA = ("optimizer=sgd",), ("trainer.ema_decay=0.99",)
SWIN, VIT = "swin_tiny_patch4_window7_224", "vit_small_patch16_224"
MIXED = "{stage1: full@stage, stage3: selective, loss: full}"
SEGMENTATION = [
    Case("unet", "resnet18", "32-true", 352, 352, 4, 2, "none"),
    Case("upernet", "resnet18", "bf16-mixed", 256, 416, 2, 2, "full", EMA),
    Case("fpn", "resnet50", "32-true", 288, 352, 2, 2, "selective", SGD),
    Case("unet", "resnet50", "bf16-mixed", 320, 320, 3, 3, MIXED),
    Case("fpn", "convnext_tiny", "32-true", 320, 320, 2, 1, "full@2"),
    Case("upernet", "convnext_tiny", "bf16-mixed", 288, 288, 2, 2, "none", SGD),
    Case("deeplabv3plus", "efficientnet_b0", "32-true", 384, 320, 2, 2, "full", EMA),
    Case("unet", "efficientnet_b0", "bf16-mixed", 416, 416, 2, 2, "selective"),
    Case("fpn", SWIN, "32-true", 224, 224, 2, 2, "none", EMA),
    Case("segformer", SWIN, "bf16-mixed", 448, 448, 1, 1, "full"),
    Case("segformer", VIT, "32-true", 256, 256, 2, 2, "selective", SGD),
    Case("fpn", VIT, "bf16-mixed", 384, 384, 2, 2, "full"),
    Case("unet", "mobilenetv3_large_100", "32-true", 384, 512, 2, 2, "full@stage"),
    Case("deeplabv3plus", "mobilenetv3_large_100", "bf16-mixed", 512, 512, 2, 2, "none"),
    Case("unet", "regnety_008", "32-true", 320, 320, 3, 3, "none", SGD),
    Case("fpn", "regnety_008", "bf16-mixed", 448, 320, 4, 2, "full", EMA),
]
DETECTION = [
    Case("fcos", "resnet18", "32-true", 384, 384, 2, 2, "none"),
    Case("faster_rcnn", "resnet18", "bf16-mixed", 320, 320, 2, 2, "none"),
    Case("retinanet", "resnet50", "32-true", 320, 320, 2, 2, "full", SGD),
    Case("fcos", "resnet50", "bf16-mixed", 320, 448, 2, 2, "selective", EMA),
    Case("fcos", "convnext_tiny", "32-true", 256, 384, 2, 2, "selective"),
    Case("retinanet", "convnext_tiny", "bf16-mixed", 320, 320, 2, 1, "none", SGD),
    Case("faster_rcnn", "efficientnet_b0", "32-true", 320, 320, 2, 2, "full"),
    Case("fcos", "efficientnet_b0", "bf16-mixed", 448, 448, 2, 2, "full@stage"),
    Case("retinanet", SWIN, "32-true", 224, 224, 2, 2, "full@2", EMA),
    Case("fcos", SWIN, "bf16-mixed", 320, 320, 2, 2, "none"),
    Case("fcos", VIT, "32-true", 320, 320, 1, 1, "none", SGD),
    Case("retinanet", VIT, "bf16-mixed", 256, 256, 2, 2, "full"),
    Case("retinanet", "mobilenetv3_large_100", "32-true", 448, 448, 2, 2, "none"),
    Case("fcos", "mobilenetv3_large_100", "bf16-mixed", 384, 384, 4, 2, "selective"),
    Case("fcos", "regnety_008", "32-true", 416, 320, 2, 2, "full", EMA),
    Case("retinanet", "regnety_008", "bf16-mixed", 384, 384, 2, 2, "none"),
]


def run(case: Case, folder: Path) -> dict[str, Any]:
    """What memory.json holds of a case."""
    overrides = [
        f"model={case.model}",
        "backbone=timm",
        f"backbone.name={case.backbone}",
        "backbone.pretrained=false",
        "model.num_classes=9",
        f"image_size=[{case.height},{case.width}]",
        f"batch_size={case.batch}",
        f"micro_batch_size={case.micro}",
        f"trainer.precision={case.precision}",
        "memory=fixed",
        f"memory.activation_checkpointing={case.policy}",
        "trainer.accelerator=cpu",
        "memory.measure=true",
        f"run_dir={folder}",
        *case.more,
    ]
    command = [sys.executable, "-m", "hires.cli", "profile", *overrides]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return json.loads((folder / "memory.json").read_text())


def errors(outcome: dict[str, Any]) -> dict[str, float]:
    """Predicted / measured - 1."""
    predicted, measured = outcome["peak_bytes"]["predicted"], outcome["peak_bytes"]
    return {
        "live": outcome["live"] / outcome["live_measured"] - 1,
        "allocated": predicted["allocated"] / measured["allocated"] - 1,
        "reserved": predicted["reserved"] / measured["reserved"] - 1,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Median and worst of the absolute errors, by kind and precision."""
    found = {}
    for kind in ("live", "allocated", "reserved"):
        for precision in ("32-true", "bf16-mixed"):
            some = [abs(row["error"][kind]) for row in rows if row["precision"] == precision]
            if some:
                found[f"{kind}, {precision}"] = {"median": statistics.median(some), "worst": max(some)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", type=int, help="numbers of cases; default: all 32")
    parser.add_argument("--out", type=Path, default=Path("docs/bench/memory_accuracy.json"))
    options = parser.parse_args()
    cases = list(enumerate([*SEGMENTATION, *DETECTION]))
    rows: list[dict[str, Any]] = []
    for number, case in cases if options.cases is None else [cases[i] for i in options.cases]:
        with tempfile.TemporaryDirectory() as folder:
            outcome = run(case, Path(folder) / "run")
        kinds = ("peak_bytes", "live", "live_measured", "peak_at", "seconds")
        rows.append({"case": number, **case._asdict(), **{k: outcome[k] for k in kinds}, "error": errors(outcome)})
        said = "  ".join(f"{kind} {error:+.2%}" for kind, error in rows[-1]["error"].items())
        print(
            f"{number:2} {case.model:13} {case.backbone:28} {case.precision:10} {case.policy:12.12} {said}",
            flush=True,
        )
        write(options.out, {**conditions(), "summary": summary(rows), "cases": rows})
    for name, values in summary(rows).items():
        print(f"{name:24} median {values['median']:.2%}  worst {values['worst']:.2%}")


if __name__ == "__main__":
    main()
