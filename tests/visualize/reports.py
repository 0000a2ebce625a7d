"""What a report shows, made up."""

import numpy as np

from hires.visualize.pictures import data_uri

METRICS = {
    "mIoU": 0.5,
    "accuracy": 0.9,
    "IoU/road": 0.25,
    "IoU/<b>roof": 0.75,
    "Dice/road": 0.4,
    "Dice/<b>roof": None,
}
PICTURE = data_uri((np.indices((320, 320)).sum(0)[..., None] % 255).repeat(3, 2).astype(np.uint8))


def images(count=3):
    return [
        {
            "name": f"val/<img src=x>/{index}.png",
            "rank": rank,
            "score": 0.25 * index,
            "window": [10, 20, 320, 320],
            "pictures": {"truth": PICTURE, "prediction": PICTURE, "image": PICTURE},
        }
        for rank in ("worst", "median", "best")
        for index in range(count)
    ]


def evaluated(**changes):
    return {
        "split": "val",
        "step": 40,
        "note": "Of the best checkpoint, at step 40, on the validation images.",
        "metrics": METRICS,
        "classes": ["road", "<b>roof", "water"],
        "score": "mean IoU of its classes",
        "scores": {"images": 9, "lowest": 0.1, "median": 0.5, "highest": 0.75},
        "confidence": None,
        "confusion": [[900, 50, 50], [0, 0, 0], [10, 30, 160]],
        "curves": None,
        "boxes": False,
        "unpainted": "road",
        "images": images(),
        **changes,
    }


PLAN = {
    "micro_batch_size": 2,
    "accumulation_steps": 4,
    "image_size": [512, 640],
    "precision": "32-true",
    "budget": 2**31,
    "reasons": ["Because <u>it fits."],
    "rungs": [],
    "policies": {
        "stem": "none",
        "stage1.0": "full",
        "stage1.1": "full",
        "stage2.0": "none",
        "loss": "full",
    },
}
TIME = {
    "seconds": {
        "waiting": 30.0,
        "forward": 20.0,
        "backward": 40.0,
        "optimizer": 2.0,
        "exchange": 0.0,
        "saving": 8.0,
    },
    "steps": 70,
    "steps_sampled": 3,
}


def records():
    trained = [
        {
            "kind": "train",
            "step": 10 * n,
            "loss": 2 / (n + 1),
            "loss/dice": 1 / (n + 1),
            "loss/ce": 1 / (n + 1),
            "lr": 0.1,
        }
        for n in range(1, 8)
    ]
    return trained + [
        {"kind": "evaluate", "step": step, "mIoU": step / 100, "IoU/road": 0.2} for step in (20, 40, 60)
    ]


def content(**changes):
    return {
        "run": "2025-01-31_<i>",
        "verdict": "70 steps trained; best mIoU 0.5.",
        "result": {
            "best": {"metric": "mIoU", "value": 0.5, "step": 40},
            "steps": 70,
            "seconds_per_step": 0.25,
            "images_per_second": 16.0,
        },
        "records": records(),
        "evaluated": evaluated(),
        "peaks": {"predicted": {"allocated": 2**30, "reserved": None}, "allocated": None, "reserved": 3 * 2**29},
        "plan": PLAN,
        "time": TIME,
        "advice": [("data.workers=4", "30% of the time went into waiting.")],
        "choices": {"data": "mask_folder", "model": "unet"},
        "settings": [("optimizer.lr", "<script>alert(1)</script>", "0.001")],
        "environment": [("torch", "2.14.1"), ("absent", "")],
        **changes,
    }
