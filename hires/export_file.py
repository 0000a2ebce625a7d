"""Writes an exported model and compares it with ours: a file is kept only when both do the same."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from hires.engine.exporting import Format, NotExportable, Shape, opened, opset_of, trace, write
from hires.interfaces import DataError
from hires.ops.agreement import NONE
from hires.tasks.graphs import LIMIT, Exportable

Size = tuple[int, int]
_UNMATCHED = 0.01  # share of detections that rounding may decide about
_WITH = {"onnx": "ONNX Runtime", "torch_export": "torch.export"}

Images = Callable[[int, Size], Tensor]
"""Images (B, C, H, W) of the type of the files, for a number of them and a size."""


class Job(NamedTuple):
    """What is to be written, and how."""

    kind: Format
    opset: int | None
    dynamic: Literal["auto"] | bool
    input_type: Literal["float32", "uint8"]
    size: Size  # (height, width) of the images, the only ones where these are fixed; pixels
    described: dict[str, Any]


def written(job: Job, path: Path, exportable: Exportable, images: Images) -> dict[str, Any]:
    """Writes the file, whole or not at all, and says what it is. Raises NotExportable.

    With `dynamic` auto the sides of images, and at last the batch too, are fixed where they cannot be free.
    """
    attempts, notes = _attempts(job.dynamic, exportable.batches), list[str]()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            dynamic = attempts.pop(0)
            try:
                with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
                    found = _attempt(job, Path(folder) / path.name, dynamic, exportable, images)
                    _move(Path(folder), path)
                return {**found, "notes": notes}
            except NotExportable as error:
                if not attempts:
                    raise
                notes.append(f"Fixed: {', '.join(name for name in dynamic if name not in attempts[0])} ({error})")
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror or error})") from error


def _attempts(dynamic: Literal["auto"] | bool, batches: bool) -> list[tuple[str, ...]]:
    """Which of batch, height and width are to be free, best first."""
    batch = ("batch",) if batches else ()
    free, fixed = (*batch, "height", "width"), batch
    if dynamic != "auto":
        return [free if dynamic else fixed]
    return [free, fixed, ()] if batches else [free, fixed]


def _attempt(
    job: Job, path: Path, dynamic: tuple[str, ...], exportable: Exportable, images: Images
) -> dict[str, Any]:
    begin = time.perf_counter()
    described = job.described
    shape = Shape(1, *job.size, dynamic, described["stride"], exportable.coarsest)
    takes = {
        "batch": None if "batch" in dynamic else 1,
        **{n: None if n in dynamic else side for n, side in zip(("height", "width"), job.size, strict=True)},
    }
    described = {**described, "takes": {**takes, "least": shape.least if "height" in dynamic else None}}
    kind = torch.uint8 if job.input_type == "uint8" else torch.float32
    program = trace(exportable.graph, shape, described["input"]["channels"], kind)
    write(program, path, job.kind, outputs=list(exportable.outputs), metadata=described, opset=job.opset)
    files = sorted(path.parent.iterdir())
    return {
        "format": job.kind,
        "opset": opset_of(path) if job.kind == "onnx" else None,
        "bytes": sum(file.stat().st_size for file in files),
        "external_data": [file.name for file in files if file != path],
        "model": described,
        "checked": _checked(job, path, shape, exportable, images),
        "seconds": time.perf_counter() - begin,
    }


def _checked(job: Job, path: Path, shape: Shape, exportable: Exportable, images: Images) -> dict[str, Any]:
    """Compares at three sizes, or three times where the size is fixed. Raises NotExportable for a difference."""
    run, total, rows = opened(path, job.kind), NONE, []
    for number, size in enumerate(check_sizes(shape, shape.least)):
        count = 1 + number % 2 if "batch" in shape.dynamic else 1
        shown = images(count, size)
        got = run(exportable.fed(shown).to(torch.uint8 if job.input_type == "uint8" else torch.float32))
        found = exportable.judge(shown, got)
        total += found
        rows.append({"shape": list(shown.shape), **found._asdict()})
    said = {"with": _WITH[job.kind], "limit": LIMIT, **total._asdict(), "sizes": rows}
    if not total.difference <= LIMIT or total.unmatched > _UNMATCHED * total.compared:
        extra = (
            f", {total.unmatched} of {total.compared} detections without counterpart" if total.unmatched else ""
        )
        raise NotExportable(
            f"what was written differs by {total.difference:.1e} from the run's model ({_WITH[job.kind]}{extra}; "
            f"allowed: {LIMIT:.0e}), so it was removed"
        )
    return said


def check_sizes(shape: Shape, least: int) -> list[Size]:
    """Three sizes (height, width) of images: that of the job, a smaller and an oblong one."""
    sides = shape.height, shape.width
    if not {"height", "width"} <= {*shape.dynamic}:
        return [sides] * 3
    stride = shape.stride
    height, width = (max(least, side) for side in sides)
    half = [max(least, side // 2 // stride * stride) for side in sides]
    return [(height, width), (half[0], half[1]), (height + stride, half[1])]


def _move(folder: Path, path: Path) -> None:
    """Brings the file and what belongs to it to its place, itself last."""
    path.with_name(f"{path.name}.data").unlink(missing_ok=True)  # weights of a larger one that was there before
    for file in sorted(folder.iterdir(), key=lambda file: file.name == path.name):
        with open(file, "rb") as content:
            os.fsync(content.fileno())
        os.replace(file, path.parent / file.name)
