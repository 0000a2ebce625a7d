"""One job of another library's finder in a process of its own, whose memory is limited: a search, or a training.

Runs in the environment that `peers.py` makes, where of hires only modules without other packages can be imported.
The order comes as JSON; what happens is printed as one JSON object a line, so that it is known even where the
process ends in the middle.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import lightning
import segmentation_models_pytorch as smp
import torch
import torch._dynamo  # the first step of an optimizer would import it, within the limit
from accelerate import Accelerator
from accelerate.utils import find_executable_batch_size
from accelerate.utils.memory import should_reduce_batch_size
from lightning.pytorch.tuner import Tuner, batch_size_scaling
from lightning.pytorch.utilities.memory import is_oom_error
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from hires.ops.out_of_memory import is_out_of_memory
from hires.ops.process_memory import Growth, limit_data, vm_data

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1) * 255
STD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1) * 255
KNOWN = "DefaultCPUAllocator: can't allocate memory"  # the words by which both finders tell a full CPU


SHORT = (
    RuntimeError(f"[enforce fail at alloc_cpu.cpp:127] err == 0. {KNOWN}: you tried to allocate 1 bytes."),
    RuntimeError("could not create a primitive"),
    RuntimeError("std::bad_alloc"),
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB."),
)
"""Ways in which a lack of memory shows: torch's allocator, oneDNN, C++, Python; a GPU's for comparison."""
PACKAGES = ("torch", "lightning", "accelerate", "segmentation-models-pytorch", "timm", "numpy")


@dataclass(frozen=True)
class Order:
    """What is to be done. Bytes and pixels."""

    peer: str  # power, binsearch (Lightning's), accelerate
    batch: int | None  # to train with; None: to be found
    budget: int | None
    steps: int  # of the training, or of a trial
    told: bool  # whether any lack of memory is said in the words that finders know
    size: int
    classes: int


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


@contextmanager
def trial(batch: int) -> Iterator[None]:
    """Says how trying a batch went, and why it failed."""
    begin, error = time.perf_counter(), None
    try:
        yield
    except Exception as raised:
        error = raised
        raise
    finally:
        short = error is not None and is_out_of_memory(error)  # whether the finder takes it for that or not
        said = f"{type(error).__name__}: {error}"[:300] if error else None
        say(event="trial", batch=batch, seconds=time.perf_counter() - begin, error=said, out_of_memory=short)
        del error


@contextmanager
def in_known_words() -> Iterator[None]:
    """Whatever says that memory is short says so as torch's own allocator does."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if KNOWN in str(error) or not is_out_of_memory(error):
            raise
        raise RuntimeError(f"{KNOWN} ({error})") from error


class Samples(Dataset[tuple[Tensor, Tensor]]):
    """Random images (3, H, W) and masks (H, W), uint8: a few, made before any limit, which take turns."""

    def __init__(self, size: int, classes: int, length: int = 4096):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randint(256, (16, 3, size, size), dtype=torch.uint8, generator=generator)
        self.masks = torch.randint(classes, (16, size, size), dtype=torch.uint8, generator=generator)
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.images[index % 16], self.masks[index % 16]

    def batches(self, size: int) -> "DataLoader[tuple[Tensor, Tensor]]":
        return DataLoader(self, batch_size=size, shuffle=True, drop_last=True)


def make_network(classes: int) -> nn.Module:
    """The network that hires builds for model=unet and backbone=resnet18: as many parameters, and the same."""
    torch.manual_seed(0)
    return smp.Unet("tu-resnet18", encoder_weights=None, classes=classes).to(memory_format=torch.channels_last)


def make_optimizer(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.05)


def loss_of(network: nn.Module, images: Tensor, masks: Tensor) -> Tensor:
    """Mean cross-entropy of uint8 images and masks."""
    pixels = (images.to(memory_format=torch.channels_last).float() - MEAN) / STD
    return F.cross_entropy(network(pixels), masks.long())


class Module(lightning.LightningModule):
    """The same training, as Lightning's finder wants it: with `batch_size`, and its own loader."""

    def __init__(self, order: Order, samples: Samples):
        super().__init__()
        self.batch_size, self.samples, self.told = order.batch or 1, samples, order.told
        self.network = make_network(order.classes)
        self.done = 0

    def train_dataloader(self) -> Any:
        return self.samples.batches(self.batch_size)

    def training_step(self, batch: Any, index: int) -> Tensor:
        return loss_of(self.network, *batch)

    def optimizer_step(self, *arguments: Any, **more: Any) -> None:
        with in_known_words() if self.told else nullcontext():
            super().optimizer_step(*arguments, **more)  # forward and backward are within
        self.done += 1

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return make_optimizer(self.network)


def lightning_trainer(order: Order, folder: str) -> lightning.Trainer:
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=order.steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )


def find_by_lightning(order: Order, samples: Samples) -> int | None:
    """`BatchSizeFinder` with its defaults: from 2 on, 3 steps a trial, 5 % off what a binary search finds."""
    module = Module(order, samples)
    run = batch_size_scaling._try_loop_run

    def watched(*arguments: Any) -> None:
        with trial(module.batch_size):
            run(*arguments)

    batch_size_scaling._try_loop_run = watched  # to see the trials; nothing else changes
    with tempfile.TemporaryDirectory() as folder:
        return Tuner(lightning_trainer(order, folder)).scale_batch_size(module, mode=order.peer)


def train_by_lightning(order: Order, samples: Samples) -> int:
    """Steps that were done."""
    module = Module(order, samples)
    with tempfile.TemporaryDirectory() as folder, until_memory_is_short():
        lightning_trainer(order, folder).fit(module)
    return module.done


def train_by_accelerate(
    order: Order, samples: Samples, accelerator: Accelerator, batch: int, step: Callable[[], None]
) -> None:
    """Calls `step` after each step."""
    accelerator.free_memory()  # of the trial before
    network = make_network(order.classes)
    network, optimizer, loader = accelerator.prepare(network, make_optimizer(network), samples.batches(batch))
    for _, (images, masks) in zip(range(order.steps), loader, strict=False):
        with in_known_words() if order.told else nullcontext():
            accelerator.backward(loss_of(network, images, masks))
            optimizer.step()
            optimizer.zero_grad()
        step()


def find_by_accelerate(order: Order, samples: Samples) -> int:
    """`find_executable_batch_size` with its defaults: from 128 down by a tenth each time."""
    accelerator = Accelerator(cpu=True)

    @find_executable_batch_size
    def train(batch_size: int) -> int:
        with trial(batch_size):
            train_by_accelerate(order, samples, accelerator, batch_size, lambda: None)
        return batch_size

    return train()


@contextmanager
def until_memory_is_short() -> Iterator[None]:
    """Says so when it is; the traceback, which holds tensors, goes."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        say(event="short", error=f"{type(error).__name__}: {error}"[:300])


def train(order: Order, samples: Samples) -> int:
    """Steps that were done with a batch that was found."""
    if order.peer != "accelerate":
        return train_by_lightning(order, samples)
    done: list[None] = []
    assert order.batch is not None
    with until_memory_is_short():
        accelerator = Accelerator(cpu=True)
        train_by_accelerate(order, samples, accelerator, order.batch, lambda: done.append(None))
    return len(done)


def about() -> dict[str, Any]:
    """Versions, and which errors each finder goes on from; it ends with any other."""
    told = [
        {
            "error": f"{type(error).__name__}: {error}",
            "Lightning": isinstance(error, RuntimeError) and is_oom_error(error),
            "Accelerate": should_reduce_batch_size(error),
        }
        for error in SHORT
    ]
    return {"versions": {name: version(name) for name in PACKAGES}, "told": told}


def main() -> None:
    if sys.argv[1] == "about":
        say(**about())
        return
    order = Order(**json.loads(sys.argv[1]))
    samples = Samples(order.size, order.classes)
    if order.budget is not None:
        limit_data((vm_data() or 0) + order.budget)
    begin, worked = time.perf_counter(), time.process_time()
    if order.batch is None:
        find = find_by_accelerate if order.peer == "accelerate" else find_by_lightning
        say(event="found", batch=find(order, samples), seconds=time.perf_counter() - begin)
        return
    with Growth() as growth:
        done = train(order, samples)
    say(event="trained", steps=done, reserved=growth.bytes, seconds=time.process_time() - worked)


if __name__ == "__main__":
    main()
