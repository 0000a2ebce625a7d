"""Memory and step time of the demo under several settings, by `hires compare`, as README shows it."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch  # noqa: F401  (its threads are noted)
from results import conditions, write

SETTINGS = {
    "none": "[]",
    "selective": "[memory.activation_checkpointing=selective]",
    "full": "[memory.activation_checkpointing=full]",
    "bf16": "[trainer.precision=bf16-mixed]",
}
KINDS = ("gradient", "parameter", "buffer")


def compared(steps: int, folder: Path) -> dict[str, Any]:
    """What compare.json says of each setting."""
    said = ", ".join(f"{name}: {overrides}" for name, overrides in SETTINGS.items())
    more = [
        "experiment=demo",
        f"steps={steps}",
        "trainer.accelerator=cpu",
        f"settings={{{said}}}",
        f"run_dir={folder}",
    ]
    subprocess.run([sys.executable, "-m", "hires.cli", "compare", *more], check=True)
    return json.loads((folder / "compare.json").read_text())["settings"]


def row(found: dict[str, Any]) -> dict[str, Any]:
    differences = found["largest_difference"]
    return {
        **{key: found[key] for key in ("allocated", "reserved", "seconds_per_step", "ratio")},
        "largest_difference": {kind: differences[kind] and differences[kind]["value"] for kind in KINDS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("docs/bench/settings_compared.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = {name: row(found) for name, found in compared(options.steps, Path(folder) / "run").items()}
    write(options.out, {**conditions(), "steps": options.steps, "settings": rows})
    print("reserved, MiB:", ", ".join(f"{name} {found['reserved'] / 2**20:.0f}" for name, found in rows.items()))


if __name__ == "__main__":
    main()
