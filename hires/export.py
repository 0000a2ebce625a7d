"""The command `export`: a run's model as ONNX or torch.export, compared with ours before it is kept."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from omegaconf import DictConfig

from hires import __version__
from hires.config_values import settings_of
from hires.engine.display import Terminal, log_to
from hires.engine.exporting import SUFFIXES, check_format
from hires.engine.files import write_json
from hires.export_file import Job, written
from hires.export_images import images_of, source_of
from hires.interfaces import ConfigError, Normalization
from hires.recipe import Recipe, as_size, check_multiple
from hires.run_classes import classes_of_run
from hires.settings import Bounds, Settings
from hires.tasks.graphs import Exportable, ExportedNormalize, GraphSettings
from hires.trained import open_run

log = logging.getLogger(__name__)

RESULT = "export.json"
Side = Annotated[int, Bounds(1)]


@dataclass(frozen=True, kw_only=True)
class ExportSettings(Settings):
    """What is written, and where."""

    format: Literal["onnx", "torch_export"] = "onnx"
    dynamic: Literal["auto"] | bool = "auto"
    image_size: Side | tuple[Side, Side] | None = None
    input_type: Literal["float32", "uint8"] = "float32"
    opset: Annotated[int, Bounds(18)] | None = None
    out: str | None = None


def export(cfg: DictConfig) -> dict[str, Any]:
    """Exports a run's model; returns what it writes to export.json.

    Raises NotExportable for a model that cannot be written so, or whose file does not do what the model does.
    """
    log_to(Terminal(), None)
    settings, inside = settings_of(ExportSettings, cfg), settings_of(GraphSettings, cfg)
    check_format(settings.format)
    run = open_run(cfg, accelerator="cpu")
    run_dir, checkpoint, recipe, normalization = run
    path = _path(settings, run_dir, checkpoint)
    _check_input(settings, inside, normalization)
    source = source_of(recipe.data)
    classes = classes_of_run(run_dir, recipe.data).names
    task = run.task(classes)
    size = as_size(settings.image_size) if settings.image_size else recipe.window
    check_multiple("image_size", size, task.network.stride)
    exportable = task.eval().graph(inside, normalization.dtype)
    described = {
        "hires": __version__,
        "run": run_dir.resolve().name,
        "checkpoint": checkpoint.name,
        "classes": list(classes),
        **described_input(recipe, settings, inside, normalization, task),
        **described_output(recipe, inside, exportable),
    }
    job = Job(settings.format, settings.opset, settings.dynamic, settings.input_type, size, described)
    with torch.no_grad():
        made = written(job, path, exportable, images_of(source, normalization))
    outcome: dict[str, Any] = {"command": "export", "run_dir": str(run_dir), "file": str(path), **made}
    if not outcome["checked"]["compared"]:
        outcome["notes"].append(
            "Neither model found anything in the images of the check; give data.root or a lower "
            "evaluation.score_threshold to compare more than that"
        )
    for note in outcome["notes"]:
        log.info("%s", note)
    write_json(path.with_name(RESULT), outcome)
    checked = outcome["checked"]
    log.info("Largest difference from the run's model: %.1e (%s)", checked["difference"], checked["with"])
    log.info("Done: %s", path)
    return outcome


def _path(settings: ExportSettings, run_dir: Path, checkpoint: Path) -> Path:
    """The file to write. Raises ConfigError for a name that ends otherwise than the format's."""
    suffix = SUFFIXES[settings.format]
    if settings.out is None:
        return run_dir / "export" / f"{settings.format}-{checkpoint.stem}" / f"model{suffix}"
    path = Path(settings.out).expanduser()
    if path.suffix != suffix or path.is_dir():
        raise ConfigError(f"out: got {settings.out}, allowed: a file that ends in {suffix}, as model{suffix}")
    return path


def _check_input(settings: ExportSettings, inside: GraphSettings, normalization: Normalization) -> None:
    if settings.input_type == "uint8" and not (inside.normalize and normalization.dtype == "uint8"):
        why = f"the run's images are {normalization.dtype}" if inside.normalize else "normalize is false"
        raise ConfigError(f"input_type: got uint8, allowed: float32, since {why}")


def described_input(
    recipe: Recipe, settings: ExportSettings, inside: GraphSettings, normalization: Normalization, task: Any
) -> dict[str, Any]:
    """What the file takes, for people and programs that have nothing but it."""
    data = recipe.data
    colours = {1: "gray", 3: "RGB"}.get(data.channels, "bands of the file")
    values = f"pixels as in the files ({normalization.dtype})" if inside.normalize else "normalised pixels"
    return {
        "input": {
            "name": "images",
            "type": settings.input_type,
            "layout": "NCHW",
            "channels": data.shown_channels,
            "colours": f"bands {list(data.bands)}" if data.bands else colours,
            "values": values,
            "padding": "mirrored" if recipe.task.padding is None else str(recipe.task.padding),
        },
        "stride": task.network.stride,
        "normalization": {
            "inside": inside.normalize,
            "dtype": normalization.dtype,
            **ExportedNormalize(task.normalize, normalization.dtype).described(),
        },
    }


def described_output(recipe: Recipe, inside: GraphSettings, exportable: Exportable) -> dict[str, Any]:
    """What the file gives."""
    choice = getattr(recipe.task, "choice", None)
    chosen = choice()._asdict() if choice and inside.postprocess else None
    return {
        "outputs": exportable.outputs,
        "detection": chosen,
        "multilabel": getattr(recipe.task, "multilabel", None),
    }
