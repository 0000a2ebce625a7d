"""What a task exports: its model from pixels to outputs in one graph, and the judge of what a file makes of it."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hires.interfaces import Batch, ConfigError
from hires.losses.chunks import upsample
from hires.models.detection.graphs import AnchorGraph, DenseGraph, RegionGraph
from hires.models.detection.network import DenseNetwork
from hires.models.pooling import write_out_pools
from hires.ops import agreement
from hires.ops.agreement import Agreement
from hires.settings import Settings

LIMIT = 1e-3
"""How far an exported model may be from ours."""


@dataclass(frozen=True, kw_only=True)
class GraphSettings(Settings):
    """What is inside an exported graph."""

    normalize: bool = True  # its input is pixels as they are in files; else what `task.normalize` makes of them
    postprocess: bool = True  # of detectors: the choice of detections, with non-maximum suppression
    output: Literal["probabilities", "logits", "classes"] | None = None  # of segmentation; null: probabilities


@dataclass(frozen=True)
class Exportable:
    """A model as a graph. `graph` takes pixels (B, C, H, W) float32 and gives a tensor for each of `outputs`.

    `judge` compares what the file makes of images (B, C, H, W) of the files' type with what our model does.
    """

    graph: nn.Module
    outputs: dict[str, str]  # what each is, for people
    batches: bool  # whether it takes more than one image
    judge: Callable[[Tensor, Sequence[Tensor]], Agreement]
    fed: Callable[[Tensor], Tensor]  # what the graph gets for images of the files' type
    coarsest: int  # stride of the smallest maps in it


class Graph(nn.Module):
    """Normalisation, a network and what follows it."""

    def __init__(self, normalize: nn.Module, network: nn.Module, finish: nn.Module):
        super().__init__()
        self.normalize, self.network, self.finish = normalize, network, finish

    def forward(self, images: Tensor) -> Any:
        return self.finish(self.network(self.normalize(images)), images.shape[-2], images.shape[-1])


class ExportedNormalize(nn.Module):
    """The normalisation of a task for pixels of a file type that come as any type, floats among them."""

    low: Tensor | None
    high: Tensor | None
    shift: Tensor
    scale: Tensor

    def __init__(self, normalize: Any, dtype: str):
        super().__init__()
        kind = getattr(torch, dtype)
        most = 1 if kind.is_floating_point else torch.iinfo(kind).max
        known = normalize.shift is not None
        self.register_buffer("shift", normalize.shift if known else normalize.mean * most)
        self.register_buffer("scale", normalize.scale if known else normalize.std * most)
        self.register_buffer("low", normalize.low)
        self.register_buffer("high", normalize.high)

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.float()
        if self.low is not None and self.high is not None:
            pixels = torch.minimum(torch.maximum(pixels, self.low), self.high)
        return (pixels - self.shift) / self.scale

    def described(self) -> dict[str, list[float] | None]:
        """What is done to each channel: clipped to low and high, minus shift, divided by scale."""
        named = {"low": self.low, "high": self.high, "shift": self.shift, "scale": self.scale}
        return {key: None if value is None else value.flatten().tolist() for key, value in named.items()}


class FullResolution(nn.Module):
    """Logits at the resolution of the images, or what follows from them."""

    def __init__(self, output: str, multilabel: bool):
        super().__init__()
        self.output, self.multilabel = output, multilabel

    def forward(self, logits: Tensor, height: int, width: int) -> Tensor:
        logits = upsample(logits.float(), (height, width))
        if self.output == "logits":
            return logits
        if self.output == "probabilities":
            return logits.sigmoid() if self.multilabel else logits.softmax(1)
        if not self.multilabel:
            return logits.argmax(1).byte()
        places = 2 ** torch.arange(logits.shape[1], device=logits.device)
        return ((logits >= 0) * places[:, None, None]).sum(1).byte()


class AsItIs(nn.Module):
    def forward(self, outputs: Any, height: int, width: int) -> Any:
        return outputs


_SEGMENTATION = {
    "probabilities": "(B, classes, H, W) float32, 0 to 1, at the resolution of the images",
    "logits": "(B, classes, H, W) float32, at the resolution of the images",
    "classes": "(B, H, W) uint8, the index of the most probable class",
}
_BITS = "(B, H, W) uint8, bit c is set where class c has probability 0.5 and more"
_ANCHORS = {
    "boxes": "(B, A, 4) float32, x1 y1 x2 y2 in pixels, of all anchors, before non-maximum suppression",
    "scores": "(B, A, classes) float32, 0 to 1",
}
_DETECTIONS = {
    "boxes": "(N, 4) float32, x1 y1 x2 y2 in pixels, best first",
    "scores": "(N,) float32, 0 to 1",
    "labels": "(N,) int64, class indices",
}
_MASKS = {"masks": "(N, 28, 28) float32, probabilities on a grid over the box; the object is where they reach 0.5"}


def segmentation_graph(task: Any, settings: GraphSettings, dtype: str) -> Exportable:
    """That of a segmentation task on files of a pixel type."""
    _refuse_output(settings, normal=True)
    network = copy.deepcopy(task.network)
    write_out_pools(network)
    output, multilabel = settings.output or "probabilities", task.labels.multilabel
    finish = FullResolution(output, multilabel)

    def judge(images: Tensor, got: Sequence[Tensor]) -> Agreement:
        if output == "logits":
            logits = task.network(task.normalize(images))
            return agreement.numbers(upsample(logits.float(), images.shape[-2:]), got[0])
        probabilities = task.predict(Batch(images, []))
        if output == "probabilities":
            return agreement.numbers(probabilities, got[0])
        ours = torch.stack([task.labels.decide(each) for each in probabilities])
        return (agreement.bits if multilabel else agreement.classes)(probabilities, ours, got[0])

    what = _BITS if multilabel and output == "classes" else _SEGMENTATION[output]
    graph = Graph(_normalization(task, settings, dtype), network, finish)
    return Exportable(
        graph, {output: what}, batches=True, judge=judge, fed=_fed(task, settings), coarsest=task.network.stride
    )


def detection_graph(task: Any, settings: GraphSettings, dtype: str) -> Exportable:
    """That of a detection task on files of a pixel type. Raises ConfigError for what the network cannot."""
    _refuse_output(settings, normal=False)
    normalize, dense = _normalization(task, settings, dtype), isinstance(task.network, DenseNetwork)
    if not settings.postprocess:
        if not dense:
            raise ConfigError(
                "postprocess: got false, allowed: true; the proposals of this detector are themselves chosen by "
                "non-maximum suppression"
            )
        return Exportable(
            Graph(normalize, AnchorGraph(task.network), AsItIs()),
            _ANCHORS,
            batches=True,
            judge=lambda images, got: _judged_anchors(task, images, got),
            fed=_fed(task, settings),
            coarsest=task.network.neck.strides[-1],
        )
    kind = DenseGraph if dense else RegionGraph
    outputs = {**_DETECTIONS, **(_MASKS if task.settings.instance_masks else {})}

    def judge(images: Tensor, got: Sequence[Tensor]) -> Agreement:
        found = task.predict(Batch(images, []))[0]
        ours = (found.boxes, found.scores, found.labels, *([] if found.masks is None else [found.masks]))
        return agreement.detections(ours, tuple(got), LIMIT)

    graph = Graph(normalize, kind(task.network, task.settings.choice()), AsItIs())
    return Exportable(
        graph,
        outputs,
        batches=False,
        judge=judge,
        fed=_fed(task, settings),
        coarsest=task.network.neck.strides[-1],
    )


def _judged_anchors(task: Any, images: Tensor, got: Sequence[Tensor]) -> Agreement:
    network, (height, width) = task.network, images.shape[-2:]
    outputs = network(task.normalize(images))
    anchors = torch.cat(outputs.anchors)
    boxes = torch.stack([network.decode(deltas.float(), anchors) for deltas in outputs.deltas])
    limits = torch.tensor([width, height] * 2)
    ours = torch.minimum(boxes.clamp(min=0), limits), network.scores(outputs)
    return agreement.numbers(ours[0], got[0]) + agreement.numbers(ours[1], got[1])


def _normalization(task: Any, settings: GraphSettings, dtype: str) -> nn.Module:
    return ExportedNormalize(task.normalize, dtype) if settings.normalize else nn.Identity()


def _fed(task: Any, settings: GraphSettings) -> Callable[[Tensor], Tensor]:
    return (lambda images: images) if settings.normalize else task.normalize


def _refuse_output(settings: GraphSettings, normal: bool) -> None:
    if normal and not settings.postprocess:
        raise ConfigError(
            "postprocess: got false, allowed: true; it is for detectors, see output for segmentation"
        )
    if not normal and settings.output:
        raise ConfigError(f"output: got {settings.output}, allowed: null; it is for segmentation")
