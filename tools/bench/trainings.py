"""Whole trainings, whose scores README shows: each by `hires train`, then `hires evaluate` where it says so.

Hours on a CPU. Runs are kept in runs/bench/NAME; rows that the JSON has are not made again, unless named. Real
images are those of `--data`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from results import ROOT, conditions, read, write

RESIZED = ("data.fit=resize", "image_size=512", "batch_size=2")
REAL = ("backbone.pretrained=false",)


class Training(NamedTuple):
    """Overrides of a training and, where the score is not that of its last evaluation, of the one afterwards."""

    overrides: tuple[str, ...]
    evaluate: tuple[str, ...] = ()
    of: str = ""  # another one, whose run is evaluated instead


CASES = {
    "demo": Training(("experiment=demo",)),
    "demo, resized": Training(("experiment=demo", *RESIZED)),
    "demo_detection": Training(("experiment=demo_detection",)),
    "demo_detection, resized": Training(("experiment=demo_detection", *RESIZED)),
    "hrf_vessels": Training(("experiment=hrf_vessels", *REAL), ("split=test",)),
    "hrf_vessels, no branch": Training(
        ("experiment=hrf_vessels", *REAL, "model.full_resolution_skip=false"), ("split=test",)
    ),
    "hrf_vessels, BatchNorm": Training(("experiment=hrf_vessels", *REAL, "model.norm=batch"), ("split=test",)),
    "dubai_aerial": Training(("experiment=dubai_aerial", *REAL)),
    "magnetic_tile": Training(("experiment=magnetic_tile", *REAL)),
    "bccd_cells": Training(("experiment=bccd_cells", *REAL), ("split=test",)),
    "deeppcb": Training(("experiment=deeppcb", *REAL)),
    "aerial_cars": Training(("experiment=aerial_cars", *REAL)),
    "aerial_cars, resized": Training((), ("evaluation.fit=resize", "evaluation.image_size=640"), of="aerial_cars"),
}


def folder_of(name: str) -> Path:
    return ROOT / "runs" / "bench" / name.replace(", ", "_").replace(" ", "_")


def timed(*words: str) -> float:
    """Minutes of a command."""
    begin = time.monotonic()
    subprocess.run([sys.executable, "-m", "hires.cli", *words], check=True)
    return (time.monotonic() - begin) / 60


def trained(name: str, data: Path) -> dict[str, Any]:
    """The row of a case, the run of which is made if it is not there."""
    case, run, found = CASES[name], folder_of(CASES[name].of or name), conditions()
    if not (run / "result.json").exists():
        overrides = CASES[case.of or name].overrides
        found["minutes"] = timed(
            "train", *overrides, f"data_dir={data}", f"run_dir={run}", "trainer.accelerator=cpu"
        )
    result = run / "result.json"
    if case.evaluate:
        found["evaluation_minutes"] = timed("evaluate", f"run={run}", *case.evaluate)
        result = max(run.glob("evaluate/*/result.json"), key=lambda path: path.stat().st_mtime)
    threads = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
    said = {"threads": threads, "overrides": case.overrides, "evaluate": case.evaluate}
    return {**found, **said, "metrics": json.loads(result.read_text())["metrics"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=CASES, default=[], help="these, again")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--out", type=Path, default=Path("docs/bench/trainings.json"), help="rows there stay")
    options = parser.parse_args()
    rows: dict[str, Any] = read(options.out, {"runs": {}})["runs"]
    for name in options.only or [name for name in CASES if name not in rows]:
        demo = name.startswith("demo")
        if not demo and not options.data.exists():
            print(f"{name}: not run: no {options.data}")
            continue
        rows[name] = trained(name, ROOT / "data" if demo else options.data)
        write(options.out, {"runs": {key: rows[key] for key in CASES if key in rows}})
        scores = {key: round(value, 3) for key, value in rows[name]["metrics"].items() if key in ("mIoU", "AP50")}
        print(f"{name}: {scores} in {rows[name].get('minutes', 0):.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
