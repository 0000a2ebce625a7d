"""environment.json of a run: all that its configuration does not say of what it was trained with, and on what."""

import json
import logging
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import torch

from hires import __version__, hydra_job
from hires.checkout import code, git_state
from hires.data.fingerprint import fingerprint
from hires.engine.files import write_json

log = logging.getLogger(__name__)

ENVIRONMENT = "environment.json"
_PACKAGES = (
    *(
        "torch",
        "torchvision",
        "timm",
        "segmentation-models-pytorch",
        "lightning-fabric",
        "albumentations",
        "numpy",
    ),
    *("opencv-python-headless", "opencv-python", "pillow", "tifffile", "imagecodecs", "faster-coco-eval"),
    *("hydra-core", "omegaconf", "scipy"),
)
_VARIABLES = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG"),
    *("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "NVIDIA_TF32_OVERRIDE", "MALLOC_MMAP_THRESHOLD_"),
)
"""Of the environment, those that decide about bits, speed or memory; others may hold what is nobody's business."""


class Start(NamedTuple):
    """Where a training starts or goes on."""

    step: int  # optimizer steps done before
    resumed: bool
    seed: int
    processes: int


def note_start(run_dir: Path, at: Start, sources: Mapping[str, Any]) -> None:
    """Adds this start or resumption of a training to the file, and tells what is not as at the last one."""
    path = run_dir / ENVIRONMENT
    before = _starts(path)
    start = {
        "kind": "resumed" if at.resumed else "started",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "step": at.step,
        "command": sys.argv[1:],
        "overrides": hydra_job.overrides(),
        "seed": at.seed,
        "processes": at.processes,
        "hires": {"version": __version__, "code_sha256": code(), "git": git_state()},
        "versions": versions(),
        "machine": machine(),
        "settings": settings(),
        "data": {split: asdict(fingerprint(source)) for split, source in sources.items()},
    }
    if before:
        for line in changes(before[-1], start):
            log.warning("%s", line)
    write_json(path, {"starts": [*before, start]})


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterable[str]:
    """What of a start may make a training go on in another way than at the one before, in lines."""
    old, new = _mapping(before, "versions"), now["versions"]
    changed = [f"{name} {old.get(name)}, now {new.get(name)}" for name in new if old.get(name) != new[name]]
    kept, own = _mapping(before, "hires"), now["hires"]
    if kept.get("version") != own["version"]:
        changed.insert(0, f"hires {kept.get('version')}, now {own['version']}")
    elif kept.get("code_sha256") != own["code_sha256"]:
        changed.insert(0, "the code of hires is another")
    if changed:
        yield f"Not the versions of the last start, so that bits may differ from here on: {'; '.join(changed)}"
    for split, there in now["data"].items():
        was = _mapping(_mapping(before, "data"), split)
        if was and was.get("sha256") != there["sha256"]:
            what = f"{was.get('images')} images, now {there['images']}"
            if was.get("images") == there["images"]:
                what = f"names, sizes or labels of its {there['images']} images have changed"
            yield f"The {split} data is not that of the last start: {what}"


def _mapping(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of a file that may say anything; nothing where it is no mapping."""
    found = content.get(name)
    return found if isinstance(found, Mapping) else {}


def _starts(path: Path) -> list[Any]:
    """Those in the file."""
    if not path.exists():
        return []
    try:
        starts = json.loads(path.read_text(encoding="utf-8"))["starts"]
        if isinstance(starts, list) and all(isinstance(start, dict) for start in starts):
            return starts
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    log.warning("%s: cannot be read, so it begins anew", path)
    return []


def versions() -> dict[str, str | None]:
    """Of Python and the packages that results depend on; None of those that are not installed."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """What it was trained on, without its name; GPUs where the training uses CUDA. Not run on CUDA."""
    used = torch.cuda.is_initialized()
    devices = [
        torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count() if used else 0)
    ]
    return {
        "system": platform.platform(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "gpus": [{"name": device.name, "memory_bytes": device.total_memory} for device in devices],
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def settings() -> dict[str, Any]:
    """What torch is told beside the configuration."""
    return {
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }
