"""Runs the benches in order, sums up what came out, and brings the figures in README and docs up to date.

Those named, or all; what stands after -- goes to each of them. Minutes each, then hours. Cases that are in
docs/bench already are not run again by pixels_cpu, autobatch, timm_coverage and trainings.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ORDER = (
    *("train_step", "detection_step", "saving", "startup", "loader", "image_windows", "prediction_time"),
    *("published_memory", "planner_time", "pixels", "activation_checkpointing", "pixels_cpu", "memory_accuracy"),
    *("autobatch", "timm_coverage", "settings_compared", "trainings", "tilings", "peers"),
)
WIDTH = 110  # of what came out


class Outcome(NamedTuple):
    name: str
    seconds: float
    code: int
    came_out: str


def run(name: str, arguments: Sequence[str], folder: Path = HERE) -> Outcome:
    """Runs a bench and passes on what it prints, the last line of which says what came out."""
    begin, last = time.monotonic(), "nothing new"
    command = [sys.executable, "-u", str(folder / f"{name}.py"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return Outcome(name, time.monotonic() - begin, process.returncode, last)


def row(outcome: Outcome) -> str:
    said = f"failed with code {outcome.code}; " * bool(outcome.code) + outcome.came_out
    return f"{outcome.name:24} {outcome.seconds:8.1f} s  {said[:WIDTH]}"


def run_all(names: Sequence[str], arguments: Sequence[str], run: Callable[..., Outcome] = run) -> int:
    """Runs all, also after one that fails; 1 if one did."""
    outcomes = []
    for name in names:
        print(f"== {name}", flush=True)
        outcomes.append(run(name, arguments))
    outcomes.append(run("tables", ()))
    print("", *map(row, outcomes), sep="\n")
    return int(any(outcome.code for outcome in outcomes))


def main() -> None:
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    names = words[:at] or ORDER
    if unknown := [name for name in names if name not in ORDER]:
        sys.exit(f"no bench {', '.join(unknown)}; there are {', '.join(ORDER)}")
    sys.exit(run_all(names, words[at + 1 :]))


if __name__ == "__main__":
    main()
