"""Writes a module as ONNX or as a torch.export program, and runs such a file. Private PyTorch API is not used."""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from hires.interfaces import ConfigError, HiresError
from hires.ops.out_of_memory import is_out_of_memory

Format = Literal["onnx", "torch_export"]
Run = Callable[[Tensor], list[Tensor]]
SUFFIXES = {"onnx": ".onnx", "torch_export": ".pt2"}
INPUT, METADATA = "images", "hires.json"
_ONNX = ("onnx", "onnxruntime", "onnxscript")
_TRACED = (3, 4)  # height and width of the smallest maps when dynamic graphs are traced: none is 1


class NotExportable(HiresError):
    """What a model does cannot be written in this format (exit code 1)."""


class Shape(NamedTuple):
    """The images that a graph takes: (batch, height, width), and which of them may be others."""

    batch: int
    height: int
    width: int
    dynamic: tuple[str, ...]  # of batch, height, width
    stride: int  # of which sides are multiples
    coarsest: int  # stride of the smallest maps

    @property
    def least(self) -> int:
        """The smallest side that is free: torch.export takes no map to be 1 high or wide."""
        return self.coarsest + self.stride


def check_format(kind: Format) -> None:
    """Raises ConfigError where the packages for a format are not installed."""
    missing = [name for name in _ONNX if find_spec(name) is None]
    if kind == "onnx" and missing:
        raise ConfigError(
            f"format: got onnx, which needs {', '.join(missing)}; pip install 'hires[onnx]', or use torch_export"
        )


def trace(graph: nn.Module, shape: Shape, channels: int, dtype: torch.dtype) -> ExportedProgram:
    """The program of a graph of images (B, C, H, W).

    Raises NotExportable with the reason of torch.
    """
    sides = dict(zip(("height", "width"), (side * shape.coarsest for side in _TRACED), strict=True))
    height, width = (sides[n] if n in shape.dynamic else getattr(shape, n) for n in ("height", "width"))
    batch = 2 if "batch" in shape.dynamic else shape.batch
    dims: dict[int, Any] = {}
    if "batch" in shape.dynamic:
        dims[0] = Dim("batch", min=1)
    for axis, name in ((2, "height"), (3, "width")):
        if name in shape.dynamic:
            dims[axis] = shape.stride * Dim(f"{name}_in_strides", min=shape.least // shape.stride)
    example = torch.zeros(batch, channels, height, width, dtype=dtype)
    with _explained("torch.export"), torch.no_grad():
        return torch.export.export(graph.eval(), (example,), dynamic_shapes=(dims,))


def write(
    program: ExportedProgram,
    path: Path,
    kind: Format,
    *,
    outputs: Sequence[str],
    metadata: dict[str, Any],
    opset: int | None,
) -> None:
    """Writes a program with its metadata. ONNX keeps weights of more than 2 GiB in a second file beside it."""
    text = json.dumps(metadata)
    if kind == "torch_export":
        with _explained("torch.export"):
            torch.export.save(program, path, extra_files={METADATA: text})
        return
    with _explained("torch.onnx"):
        made = torch.onnx.export(
            program,
            input_names=[INPUT],
            output_names=list(outputs),
            opset_version=opset,
            dynamo=True,
            verbose=False,
        )
        assert made is not None
        made.model.metadata_props["hires"] = text
        made.save(path)


def opened(path: Path, kind: Format) -> Run:
    """The file as a function of images (B, C, H, W) on the CPU, run by what would run it elsewhere."""
    if kind == "torch_export":
        return _program(path)
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong is raised too
    options.intra_op_num_threads = torch.get_num_threads()
    with _explained("ONNX Runtime"):
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(images: Tensor) -> list[Tensor]:
        with _explained("ONNX Runtime"):
            return [torch.from_numpy(part.copy()) for part in session.run(None, {INPUT: images.numpy()})]

    return run


def opset_of(path: Path) -> int:
    """The version of the operators in an ONNX file."""
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    return next(int(entry.version) for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def _program(path: Path) -> Run:
    with _explained("torch.export"):
        module = torch.export.load(path).module()

    def run(images: Tensor) -> list[Tensor]:
        with _explained("torch.export"), torch.no_grad():
            result = module(images)
        return [result] if isinstance(result, Tensor) else list(result)

    return run


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """The first line of whatever goes wrong, which has many types without a common base; no warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise NotExportable(f"{what}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """The innermost cause that says something; exporters wrap it in pages of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = next((line for line in lines if not line.startswith(("#", "I'm", "Failed to"))), type(error).__name__)
    return said if len(said) <= 300 else f"{said[:300]}..."
