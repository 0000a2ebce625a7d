"""Times what one waits for: help, completion, and the first step of a training, each in new processes.

The first step ends with the first update of a resnet10t U-Net on windows of 64 pixels of a small folder of masks.
Opening the data (listing files, reading headers, statistics of the pixels) is measured and left out. Every
command runs once before it counts, so that its files are in the system's cache. Since other programs may run on
the machine, `import torch` is measured in turn with the rest, and CPU seconds stand beside those of the clock.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from results import conditions, write

ROOT = Path(__file__).resolve().parents[2]
TRAINING = [
    *("data=mask_folder", "data.images=images/*.png", "data.masks=masks/*.png", "data.workers=0"),
    *("backbone.name=resnet10t", "backbone.pretrained=false", "image_size=64", "batch_size=2"),
    *("micro_batch_size=null", "memory=fixed"),  # without a search
    *("trainer.max_steps=2", "trainer.accelerator=cpu"),
]
HIRES = "import sys; from hires.cli import main; sys.exit(main())"


def draw(root: Path) -> None:
    """Six images of noise with a rectangle, and their masks."""
    import cv2
    import numpy as np

    rng = np.random.default_rng(0)
    for index in range(6):
        image, mask = rng.integers(0, 256, (200, 150 + index, 3), np.uint8), np.zeros((200, 150 + index), np.uint8)
        mask[40:120, 30:90] = 100
        for folder, array in (("images", image), ("masks", mask)):
            (root / folder).mkdir(exist_ok=True)
            cv2.imwrite(str(root / folder / f"{index}.png"), array)


def first_step(begun: float, overrides: list[str]) -> None:
    """Trains in this process, which started at `begun` (time.monotonic), and prints what its first step took."""
    from hires.cli import job, main

    seconds = {"opening_data": 0.0}

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.monotonic()
            try:
                return function(*args, **kwargs)
            finally:
                seconds["opening_data"] += time.monotonic() - start

        return call

    def ended(*_: Any) -> None:
        seconds.update(wall=time.monotonic() - begun, cpu=time.process_time())
        print(json.dumps(seconds), flush=True)
        os._exit(0)

    def imported(name: str) -> Any:
        """Imports as the command does, and only then looks at what it imported."""
        module = import_module(name)
        if name == "hires.build":
            from torch.optim.optimizer import register_optimizer_step_post_hook

            register_optimizer_step_post_hook(ended)
            module.check_images, module.normalization_of = map(
                timed, (module.check_images, module.normalization_of)
            )
            settings = import_module("hires.data.settings").DataSettings
            settings.source = timed(settings.source)
        return module

    job.import_module = imported
    sys.argv = ["hires", "train", *overrides]
    sys.exit(main())


def measured(command: list[str], folder: Path, **environment: str) -> dict[str, float]:
    """Seconds of a process, by the clock and of a CPU, and what it prints of them itself."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NO_ALBUMENTATIONS_UPDATE": "1", **environment}
    used, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    words = [str(begin) if word == "BEGUN" else word for word in command]
    done = subprocess.run(
        [sys.executable, *words], env=env, cwd=folder, check=True, capture_output=True, text=True
    )
    wall, now = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if "BEGUN" in command else {"wall": wall, "cpu": cpu}


def main() -> None:
    if sys.argv[1:2] == ["first-step"]:
        first_step(float(sys.argv[2]), sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/bench/startup.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder))
        own = [f"data.root={folder}", "data.classes={background: 0, box: 100}", "data.splits={val: images/5.png}"]
        step = [str(Path(__file__).resolve()), "first-step", "BEGUN", *TRAINING, *own]
        commands = {
            "import torch": (["-c", "import torch"], {}),
            "hires --help": (["-c", HIRES, "--help"], {}),
            "hires train --help": (["-c", HIRES, "train", "--help"], {}),
            "completion": (["-c", HIRES, "-sc", "query=bash"], {"COMP_LINE": "hires train model=u"}),
            "first step": (step, {}),
        }
        load = os.getloadavg()[0]
        turns = []
        for _ in range(options.times + 1):
            turns.append({name: measured(c, Path(folder), **env) for name, (c, env) in commands.items()})
    every = {name: [turn[name] for turn in turns[1:]] for name in commands}
    report(every, [load, os.getloadavg()[0]], options.out)


def report(every: dict[str, list[dict[str, float]]], load: list[float], out: Path) -> None:
    """Prints and writes the medians."""
    for turn in every["first step"]:
        turn["without_data"] = turn["wall"] - turn["opening_data"]
    medians = {
        name: {key: statistics.median(turn[key] for turn in turns) for key in turns[0]}
        for name, turns in every.items()
    }
    pairs = zip(every["first step"], every["import torch"], strict=True)
    content = {
        "median_seconds": medians,
        "first_step_to_import_torch": statistics.median(a["without_data"] / b["wall"] for a, b in pairs),
        "seconds": every,
        **conditions(),
        "load_average": load,
    }
    write(out, content)
    for name, values in medians.items():
        print(f"{name:20}", "  ".join(f"{key} {value:.2f} s" for key, value in values.items()))
    print(f"first step / import torch: {content['first_step_to_import_torch']:.2f}; load {load}")


if __name__ == "__main__":
    main()
