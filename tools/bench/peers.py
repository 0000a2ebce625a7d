"""Finders of the largest batch under one hard limit: Lightning's, Accelerate's, and `hires autobatch`.

A U-Net with ResNet-18, cross-entropy, AdamW, float32, random images, on the CPU. Each search, and each training
with what it found, is a process of its own which may take so many bytes more than it has after its imports.
Lightning and Accelerate live in an environment that this makes, with the same torch (`--env`; made once).
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import venv
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from results import ROOT, conditions, read, write

PACKAGES = ("lightning", "accelerate", "segmentation-models-pytorch", "psutil")
PEERS = {
    "Lightning, power": "power",
    "Lightning, binsearch": "binsearch",
    "Accelerate": "accelerate",
}
OURS = {"hires, all kept": "none", "hires, auto": "auto"}
ORDER = [*PEERS, *OURS]  # of rows
SIZE, CLASSES = 256, 19  # pixels a side
TRIAL_STEPS = 3  # of a peer's search; Lightning's own default
HUGE = 256  # samples of our optimizer step: more than any micro-batch that fits


def environment(threads: int) -> dict[str, str]:
    """Of every process: threads, an allocator that gives back what is freed, and where the code is."""
    count = str(threads)
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "NO_ALBUMENTATIONS_UPDATE": "1",
    }


def peers_python(folder: Path) -> Path:
    """The interpreter of the peers' environment, which is made if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        pinned = [f"{name}=={version(name).partition('+')[0]}" for name in ("torch", "torchvision")]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *pinned, *PACKAGES], check=True)
    return python


class Seconds(NamedTuple):
    """Of a process with all that it began; those of the processor depend less on what else runs."""

    wall: float
    processor: float


def processor_seconds() -> float:
    """Of all processes that were begun here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Bench:
    """Runs the finders under a budget, bytes, and then so many steps with what they found."""

    def __init__(self, python: Path, budget: int, steps: int, threads: int):
        self.python, self.budget, self.steps = python, budget, steps
        self.environment = environment(threads)

    def run(self, command: list[Any]) -> tuple[list[dict[str, Any]], Seconds, str | None]:
        """The JSON lines that a command printed, its seconds, and the end of its errors if it failed."""
        begin, before = time.perf_counter(), processor_seconds()
        done = subprocess.run(
            list(map(str, command)), env=self.environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        last = (done.stderr.strip().splitlines() or [""])[-1][:300]
        failed = f"exit code {done.returncode}: {last}" if done.returncode else None
        return lines, Seconds(time.perf_counter() - begin, processor_seconds() - before), failed

    def peer(self, name: str, **order: Any) -> tuple[list[dict[str, Any]], Seconds, str | None]:
        whole = {"peer": PEERS[name], "size": SIZE, "classes": CLASSES, "budget": self.budget, **order}
        return self.run([self.python, Path(__file__).with_name("peers_run.py"), json.dumps(whole)])

    def of_peer(self, name: str, told: bool = False) -> list[dict[str, Any]]:
        """What a peer's finder did; if it ended in an error, again with errors in the words that it knows."""
        lines, taken, failed = self.peer(name, batch=None, steps=TRIAL_STEPS, told=told)
        trials = [line for line in lines if line["event"] == "trial"]
        found = next((line for line in lines if line["event"] == "found"), {"batch": None, "seconds": None})
        row = {
            "finder": name + (" told what is out of memory" if told else ""),
            "batch": found["batch"],
            "trials": len(trials),
            "out_of_memory": sum(trial["out_of_memory"] for trial in trials),
            "seconds": {"search": found["seconds"], **taken._asdict()},
            "failed": failed,
            "search": [{key: value for key, value in trial.items() if key != "event"} for trial in trials],
            "then": self.then_of_peer(name, found["batch"]) if found["batch"] else None,
        }
        return [row] if not failed or told else [row, *self.of_peer(name, told=True)]

    def then_of_peer(self, name: str, batch: int) -> dict[str, Any]:
        """A training with the batch; where it did not get through, also what it takes without a limit."""
        lines, _, failed = self.peer(name, batch=batch, steps=self.steps, told=False)
        said = {line["event"]: line for line in lines}
        trained = said.get("trained", {})
        then = self.then(trained, batch, said.get("short", {}).get("error") or failed)
        if not then["survived"]:
            lines, *_ = self.peer(name, batch=batch, steps=TRIAL_STEPS, told=False, budget=None)
            then["needs"] = lines[-1]["reserved"] if lines else None
        return then

    def then(self, trained: dict[str, Any], images: int, error: str | None) -> dict[str, Any]:
        """How the steps went, of so many images each."""
        steps, reserved = trained.get("steps", 0), trained.get("reserved")
        return {
            "steps": steps,
            "survived": steps == self.steps,
            "reserved": reserved,
            "share": reserved and reserved / self.budget,
            "processor_seconds_per_image": trained["seconds"] / steps / images if steps else None,
            "error": error,
        }

    def of_ours(self, name: str) -> dict[str, Any]:
        """What `hires autobatch` did with some policies; `trials` are its probes, `simulated` needs no memory."""
        overrides = [
            "model=unet",
            "backbone=resnet18",
            "backbone.pretrained=false",
            f"model.num_classes={CLASSES}",
            f"image_size={SIZE}",
            f"batch_size={HUGE}",
            "task.loss.dice=0",
            "trainer.accelerator=cpu",
            "memory.maximize=batch",
            f"memory.budget={self.budget // 2**20}MiB",
            f"memory.activation_checkpointing={OURS[name]}",
        ]
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            _, taken, failed = self.run(
                [sys.executable, "-m", "hires.cli", "autobatch", *overrides, f"run_dir={run}"]
            )
            if failed:
                return {"finder": name, "batch": None, "failed": failed, "then": None}
            found = json.loads((run / "search.json").read_text())
            helper = Path(__file__).with_name("peers_ours.py")
            lines, _, failed = self.run([sys.executable, helper, run / "plan.yaml", self.steps, *overrides])
        batch, trained = found["plan"]["micro_batch_size"], lines[-1] if lines else {}
        return {
            "finder": name,
            "batch": batch,
            "trials": len(found["probes"]),
            "out_of_memory": sum(not probe["fits"] for probe in found["probes"]),
            "simulated": len(found["tried"]),
            "seconds": {
                "search": found["seconds"],
                "probes and imports": taken.wall - found["seconds"],
                **taken._asdict(),
            },
            "failed": None,
            "policies": found["plan"]["policies"],
            "search": [
                {"batch": probe["micro_batch_size"], "predicted": probe["reserved"], **probe["measured"]}
                for probe in found["probes"]
            ],
            "then": self.then(trained, 2 * batch, trained.get("error") or failed),
        }


def shown(row: dict[str, Any]) -> str:
    """A row of the table."""
    if row["batch"] is None:
        return f"{row['finder']:44} {row['failed']}"
    then, seconds = row["then"], row["seconds"]
    share, speed = then["share"] or 0.0, then["processor_seconds_per_image"] or 0.0
    return (
        f"{row['finder']:44} batch {row['batch']:3}  "
        f"trials {row['trials']:2}, {row['out_of_memory']:2} out of memory  "
        f"{seconds['wall']:4.0f} s, processor {seconds['processor']:4.0f} s  "
        f"then {then['steps']} steps, {share:.0%} of the budget, {speed:.2f} s an image"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument(
        "--env", type=Path, default=Path(tempfile.gettempdir()) / "hires_peers", help="of the peers"
    )
    parser.add_argument("--gib", type=float, nargs="*", default=[1.0], help="budgets")
    parser.add_argument("--steps", type=int, default=20, help="of the training with what was found")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--finders", nargs="*", choices=ORDER, default=ORDER)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/bench/peers.json", help="rows there stay")
    options = parser.parse_args()
    python = peers_python(options.env)
    content = read(options.out, {"budgets": {}})
    for gib in options.gib:
        bench = Bench(python, int(gib * 2**30), options.steps, options.threads)
        content |= about(bench, options)
        rows = content["budgets"].setdefault(f"{gib:g}GiB", [])
        for name in options.finders:
            rows[:] = [row for row in rows if not row["finder"].startswith(name)]
            new = bench.of_peer(name) if name in PEERS else [bench.of_ours(name)]
            rows[:] = sorted([*rows, *new], key=lambda row: ORDER.index(row["finder"].partition(" told")[0]))
            write(options.out, content)
            print(*map(shown, new), sep="\n", flush=True)


def about(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """What the figures were made with, and which errors the finders take for a lack of memory."""
    said, _, failed = bench.run([bench.python, Path(__file__).with_name("peers_run.py"), "about"])
    if failed:
        raise RuntimeError(failed)
    ours = {name: version(name) for name in ("torch", "timm", "segmentation-models-pytorch", "numpy")}
    return {
        "versions": {"peers": said[0]["versions"], "ours": ours, "python": platform.python_version()},
        "told_by_finders": said[0]["told"],
        **conditions(),
        "threads": options.threads,
        "steps": options.steps,
        "image_size": SIZE,
        "classes": CLASSES,
    }


if __name__ == "__main__":
    main()
