"""How much memory a training may take: a size, or a share of what is free."""

import re
from pathlib import Path

import torch

from hires.interfaces import ConfigError
from hires.settings import SettingError

UNITS = {"MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(MiB|GiB)")
_ALLOWED = "null, auto (what is free), a size with its unit (8GiB, 512MiB), or a fraction of what is free (0.9)"


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


def free_on_cpu() -> int:
    """Bytes that this process may still take: of the machine, or of its control group if that has less."""
    available = _number_in("/proc/meminfo", r"MemAvailable:\s+(\d+) kB", 1024)
    limit = _number_in("/sys/fs/cgroup/memory.max", r"(\d+)", 1)
    used = _number_in("/sys/fs/cgroup/memory.current", r"(\d+)", 1)
    left = [available] if available is not None else []
    if limit is not None and used is not None:
        left.append(max(0, limit - used))
    if not left:
        raise ConfigError("memory.budget: how much memory is free cannot be told here; give a size (8GiB)")
    return min(left)


def _number_in(path: str, pattern: str, unit: int) -> int | None:
    try:
        match = re.search(pattern, Path(path).read_text())
    except OSError:
        return None
    return int(match[1]) * unit if match else None
