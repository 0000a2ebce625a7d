"""Value types, protocols and errors that every layer shares. Imports nothing of hires but errors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from hires.errors import CommonError as CommonError
from hires.errors import ConfigError as ConfigError
from hires.errors import DataError as DataError
from hires.errors import HiresError as HiresError
from hires.errors import Interrupted as Interrupted
from hires.errors import LostProcess as LostProcess
from hires.errors import TrainingError as TrainingError

IGNORE = 255
"""The mask value that no loss and no metric counts: padding, unlabelled pixels."""

Target = dict[str, Tensor]
"""The truth of one sample.

Segmentation: `mask`, (H, W) uint8: class indices, or bit c for class c where a pixel may have several; IGNORE
where nothing counts. Detection: `boxes` (N, 4) float32 x1 y1 x2 y2 in pixels, `labels` (N,) int64 class indices,
`ignored` (N,) bool where an object is neither to be found nor background, `size` (2,) int64 height and width, and
with instance masks `masks` (N, H, W) uint8."""


class Window(NamedTuple):
    """A crop at native resolution, in pixels of the decoded, orientation-corrected image."""

    y: int
    x: int
    height: int
    width: int


class View(NamedTuple):
    """What the network sees of an image: `window`, shown as `height` x `width` pixels.

    The tensor may be larger: everything below and to the right of the view is padding. It is flipped, with
    its padding, along the dimensions `flip` of (C, H, W). What the network says within `margin` pixels of a
    border of the window that is not one of the image is left to the neighbours, which see more around it. An
    `overview` is the whole image beside windows of it, for objects that no window shows whole.
    """

    window: Window
    height: int
    width: int
    flip: tuple[int, ...] = ()
    margin: int = 0
    overview: bool = False


class Sample(NamedTuple):
    """One training sample as a loader yields it."""

    image: Tensor  # (C, H, W), of the type of the file: uint8, uint16, int16 or float32
    target: Target
    name: str  # the file it comes from, for messages
    skipped: tuple[str, ...] = ()  # what is wrong with broken files whose place it takes


class Batch(NamedTuple):
    """Samples of one size, collated."""

    images: Tensor  # (B, C, H, W) of the type of the files
    targets: list[Target]

    def to(self, device: torch.device, memory_format: torch.memory_format = torch.preserve_format) -> "Batch":
        """The same batch on a device; the memory format is that of the images."""
        targets = [{key: value.to(device, non_blocking=True) for key, value in t.items()} for t in self.targets]
        return Batch(self.images.to(device, non_blocking=True, memory_format=memory_format), targets)


@dataclass(frozen=True)
class Normalization:
    """How pixels become numbers around zero; one value a channel, in the units of the image files.

    `low` becomes 0 and `high` 1, and then the mean and deviation of the backbone's pretraining count; pixels
    beyond are cut off where `method` is percentile or window. With mean_std, `mean` and `std` count instead, and
    with dtype the largest number of the type (1 of floats) becomes 1; `low` and `high` are then only what
    augmentation goes by.
    """

    method: str  # dtype, percentile, minmax, mean_std, window
    dtype: str  # of the pixels
    low: tuple[float, ...]
    high: tuple[float, ...]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @property
    def clips(self) -> bool:
        """Whether pixels below `low` and above `high` are cut off."""
        return self.method in ("percentile", "window")


@dataclass(frozen=True)
class DataLimits:
    """The worst that the data can bring: what an example batch must reach."""

    max_objects: int = 0  # in one sample
    max_shape: tuple[int, int] = (0, 0)  # (height, width) of the largest image, pixels
    dtype: str = "uint8"  # of the pixels


@dataclass(frozen=True)
class Peaks:
    """What a step occupies at most, bytes."""

    allocated: int
    reserved: int


@dataclass(frozen=True)
class MemoryPlan:
    """How one optimizer step is carried out within the memory at hand."""

    micro_batch_size: int  # samples in one forward and backward
    accumulation_steps: int  # forwards and backwards per optimizer step, of a process
    image_size: tuple[int, int]  # (height, width) that the network sees, pixels
    precision: str  # 32-true, bf16-mixed, 16-mixed
    policies: dict[str, str] = field(default_factory=dict)  # of every unit
    budget: int | None = None  # bytes that may be reserved
    margin: int | None = None  # bytes of the budget that are left free on purpose
    predicted: Peaks | None = None
    measured: Peaks | None = None
    evaluation_batch_size: int | None = None  # views in one forward of an evaluation
    evaluation: Peaks | None = None  # predicted of such a forward, with all that a training has there
    reasons: tuple[str, ...] = ()  # why this plan, in sentences
    rungs: tuple["MemoryPlan", ...] = ()  # what to fall back to when memory runs out, in order


class ImageSource(Protocol):
    """The images of one split with their truth, whatever the files look like."""

    classes: tuple[str, ...]

    def __len__(self) -> int: ...

    def name(self, index: int) -> str:
        """Path of the image relative to the data set's root."""

    def size(self, index: int) -> tuple[int, int]:
        """(height, width) in pixels after orientation, without decoding the image."""

    def read(self, index: int, window: Window | None = None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Image (H, W, C) and its target, both of the window or whole. Raises DataError."""


class Task(Protocol):
    """A model with its loss and post-processing; an `nn.Module` in practice."""

    def normalizers(self, targets: list[Target]) -> dict[str, Tensor]:
        """What the losses of these targets are divided by; adds up over disjoint lists."""

    def __call__(self, batch: Batch, normalizers: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Losses by name: sums over the batch divided by the normalizers of the whole optimizer batch."""

    def predict(self, batch: Batch) -> Iterable[Any]:
        """One raw prediction for each image of the batch."""

    def stitch(self, size: tuple[int, int], predictions: Iterable[tuple[View, Any]]) -> Iterator[Any]:
        """Merges the predictions of an image's views, in row order, into parts for an evaluator."""

    def example_batch(self, size: int, image_size: tuple[int, int], limits: DataLimits) -> Batch:
        """The most demanding batch of `size` samples that data within the limits can bring."""

    def stages(self) -> dict[str, tuple[str, ...]]:
        """Module names by stage: stem, stage1..stage4, neck, decoder, head, loss."""


class Evaluator(Protocol):
    """Accumulates one data set's score; keeps no images and no masks of whole images.

    Several processes may each count a share of the images: the first has every n-th of them from the first on, the
    second from the second on, and so forth.
    """

    no_goals: tuple[str, ...]  # metrics by which no checkpoint can be best: more of them is not better

    def reset(self) -> None: ...

    def update(self, part: Any, target: Mapping[str, np.ndarray]) -> None:
        """Counts one part that a task's `stitch` gave, against the whole image's target."""

    def counted(self) -> Any:
        """What has been counted, to be sent to another process; plain values and arrays."""

    def merge(self, others: Sequence[Any]) -> None:
        """Takes in what the evaluators of the other processes have `counted`, in their order, after its own."""

    def compute(self) -> dict[str, float]:
        """Metrics by name."""
