"""statistics.json of a run: how the pixels of its training images are normalised, and so those of all others."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
from omegaconf import DictConfig

from hires.data.settings import Normalize
from hires.engine.files import write_json
from hires.interfaces import DataError, Normalization
from hires.settings import checked, describe

STATISTICS = "statistics.json"


def save_normalization(made: Normalization, run_dir: Path) -> None:
    """Writes statistics.json."""
    write_json(run_dir / STATISTICS, asdict(made))


def normalization_of_run(run_dir: Path, cfg: DictConfig, channels: int) -> Normalization | None:
    """How a run with this configuration normalises images of so many channels.

    None of a run of a version that took 8-bit images alone, whose configuration says nothing of it. Raises
    DataError where the file is missing or broken.
    """
    path = run_dir / STATISTICS
    if not path.exists():
        if "normalize" not in cfg.data:
            return None
        raise DataError(f"{path} is missing; copy the run again")
    made = load_normalization(run_dir)
    if len(made.low) != channels:
        raise DataError(
            f"{path}: is about {len(made.low)} channel(s), but the run's images have {channels}; "
            "copy the run again"
        )
    return made


def load_normalization(run_dir: Path) -> Normalization:
    """What statistics.json of a run says. Raises DataError when the file is broken."""
    path = run_dir / STATISTICS
    try:
        return _made(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not the statistics of a run ({error}); copy the run again") from error


def _made(content: Any) -> Normalization:
    if not isinstance(content, dict):
        raise ValueError("not a mapping of names to numbers")
    made = Normalization(**{name: _value(content, name, hint) for name, hint in _HINTS.items()})
    if made.method not in get_args(Normalize):
        raise ValueError(f"method is {made.method}, allowed: {', '.join(get_args(Normalize))}")
    if made.dtype not in _TYPES:
        raise ValueError(f"dtype is {made.dtype}, allowed: {', '.join(_TYPES)}")
    lengths = {name: len(getattr(made, name)) for name in ("low", "high", *_MOMENTS[made.method == "mean_std"])}
    if len(set(lengths.values())) > 1 or not made.low:
        raise ValueError("not one number a channel: " + ", ".join(f"{n} has {k}" for n, k in lengths.items()))
    if not (np.array(made.low) < made.high).all():
        raise ValueError("low is not below high")
    if not (np.array(made.std) > 0).all():
        raise ValueError("std is not above 0")
    return made


_HINTS = get_type_hints(Normalization)
_MOMENTS = ((), ("mean", "std"))  # without and with mean_std
_TYPES = ("uint8", "uint16", "int16", "float32")


def _value(content: dict[str, Any], name: str, hint: Any) -> Any:
    if name not in content:
        raise ValueError(f"{name} is missing")
    try:
        return checked(content[name], hint)
    except ValueError:
        given = json.dumps(content[name])
        shown = given if len(given) <= 40 else f"{given[:40]}..."
        raise ValueError(f"{name} is {shown}, allowed: {describe(hint)}") from None
