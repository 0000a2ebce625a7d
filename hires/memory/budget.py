"""How much memory a training may take: a size, or a share of what is free."""

import re
from collections.abc import Iterator
from pathlib import Path

import torch

from hires.interfaces import ConfigError
from hires.settings import SettingError

UNITS = {"MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(MiB|GiB)")
_ALLOWED = "null, auto (what is free), a size with its unit (8GiB, 512MiB), or a fraction of what is free (0.9)"


class UnknownBudget(ConfigError):
    """What is free cannot be told on this system."""


def check_budget(said: str | float | None) -> None:
    """Raises SettingError unless it is a size with a unit, a fraction, `auto` or None."""
    if said is None or said == "auto":
        return
    right = 0 < said <= 1 if isinstance(said, float | int) else _SIZE.fullmatch(said)
    if not right or isinstance(said, bool):
        raise SettingError("budget", said, _ALLOWED)


def budget_bytes(said: str | float, device: str) -> int:
    """Bytes that may be reserved on a type of device. Raises ConfigError for a fraction of what is not there."""
    share = 1.0 if said == "auto" else said
    if isinstance(share, str):
        match = _SIZE.fullmatch(share)
        assert match is not None
        return int(float(match[1]) * UNITS[match[2]])
    if device == "cuda":
        if not torch.cuda.is_available():
            raise ConfigError(
                f"memory.budget: got {said}, but torch finds no CUDA device here; give a size (8GiB)"
            )
        return int(share * torch.cuda.mem_get_info()[0])
    return int(share * free_on_cpu())


def free_on_cpu(system: Path = Path("/")) -> int:
    """Bytes that this process may still take: of the machine, or of a control group (v2) if that has less.

    Pages of files that nobody has used lately count as free, as in the kernel's own estimate. `system` is where
    /proc and /sys are.
    """
    available = _number_in(system / "proc/meminfo", r"MemAvailable:\s+(\d+) kB", 1024)
    left = [available] if available is not None else []
    for group in _groups(system):
        limit, used = (_number_in(group / name, r"(\d+)") for name in ("memory.max", "memory.current"))
        if limit is not None and used is not None:
            idle = _number_in(group / "memory.stat", r"(?m)^inactive_file (\d+)") or 0
            left.append(max(0, limit - used + idle))
    if not left:
        raise UnknownBudget("memory.budget: how much memory is free cannot be told here; give a size (8GiB)")
    return min(left)


def _groups(system: Path) -> Iterator[Path]:
    """The control group of this process and those around it; in a container, the root is its own."""
    root = system / "sys/fs/cgroup"
    try:
        match = re.search(r"(?m)^0::/(.*)$", (system / "proc/self/cgroup").read_text())
    except OSError:
        match = None
    inner = root / match[1] if match else root
    return (group for group in (inner, *inner.parents) if group.is_relative_to(root))


def _number_in(path: Path, pattern: str, unit: int = 1) -> int | None:
    try:
        match = re.search(pattern, path.read_text())
    except OSError:
        return None
    return int(match[1]) * unit if match else None
