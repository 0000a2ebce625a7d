"""Predictions for CUDA against a GPU. Not run on CUDA so far; takes under six minutes.

Measured is the third step, with the state of the optimizer there, from an empty cache: what
`torch.cuda.memory_stats` says of the allocator, in which the workspace of kernels counts.
"""

import gc
import importlib
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from test_tasks import TASKS

from hires.engine.fabric import Place
from hires.engine.step import train_step
from hires.interfaces import DataLimits, Sample
from hires.memory.allocator import FREE, replay
from hires.memory.checkpointing import apply_policies
from hires.memory.simulate import Simulation
from hires.memory.units import find_units
from hires.memory.workspace_cuda import CudaWorkspace
from hires.models.backbone import BackboneSettings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]
CASES = [
    ("unet", "resnet18", "32", "none"),
    ("unet", "resnet50", "bf16", "full"),
    ("fpn", "resnet50", "bf16", "none"),
    ("fpn", "convnext_tiny", "bf16", "selective"),
    ("fpn", "convnext_tiny", "32", "full@2"),
    ("upernet", "swin_tiny_patch4_window7_224", "bf16", "none"),
    ("segformer", "vit_small_patch16_224", "32", "full"),
    ("deeplabv3plus", "mobilenetv3_large_100", "bf16", "none"),
    ("fcos", "resnet18", "32", "none"),
    ("fcos", "resnet50", "bf16", "full"),
    ("retinanet", "efficientnet_b0", "32", "selective"),
    ("retinanet", "regnety_008", "bf16", "none"),
]
SIDE, BATCH, CLASSES = 256, 4, 19


def autocast(precision: str):
    return partial(torch.autocast, "cuda", torch.bfloat16) if precision == "bf16" else nullcontext


def steps(task, samples, optimizer, precision):
    place = Place(torch.device("cuda"), channels_last=True)
    return partial(
        train_step,
        task,
        samples,
        optimizer,
        micro_batch_size=BATCH,
        place=place,
        autocast=autocast(precision),
    )


def make(network: str, backbone: str):
    torch.manual_seed(0)
    path, settings = TASKS[network]
    module, _, kind = path.rpartition(".")
    kind = getattr(importlib.import_module(f"hires.models.{module}"), kind)
    built = BackboneSettings(name=backbone, pretrained=False).build((SIDE, SIDE))
    task = settings.build(kind().build(built, CLASSES), CLASSES).train()
    task = task.to(memory_format=torch.channels_last)
    return task, find_units(task, task.stages())


def samples_of(task):
    batch = task.example_batch(BATCH, (SIDE, SIDE), DataLimits(max_objects=20))
    return [Sample(image, target, "") for image, target in zip(batch.images, batch.targets, strict=True)]


def predicted(network: str, backbone: str, precision: str, policy: str):
    task, units = make(network, backbone)
    simulation = Simulation(task, "cuda", units)
    apply_policies(simulation.module, units, policy)
    optimizer = simulation.optimizer(lambda module: torch.optim.AdamW(module.parameters(), lr=1e-4))
    with simulation.active():
        samples = samples_of(simulation.module)
    run = steps(simulation.module, samples, optimizer, precision)
    return simulation.profile(run, optimizer=optimizer, workspace=CudaWorkspace())


def third_step(network: str, backbone: str, precision: str, policy: str):
    """A step to be measured, after two others."""
    task, units = make(network, backbone)
    samples = samples_of(task)
    apply_policies(task.cuda(), units, policy)
    run = steps(task, samples, torch.optim.AdamW(task.parameters(), lr=1e-4), precision)
    for _ in range(2):
        run()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return run


@pytest.mark.parametrize("settings", CASES, ids="-".join)
def test_allocated_and_reserved(settings):
    profile, run = predicted(*settings), third_step(*settings)
    run()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    assert profile.allocated == pytest.approx(stats["allocated_bytes.all.peak"], rel=0.03)
    assert profile.cached == pytest.approx(stats["reserved_bytes.all.peak"], rel=0.08)


def test_the_allocations_of_a_recorded_snapshot():
    """Replayed, what a recorded step asked for gives what the device says; predicted are the same sizes."""
    settings = CASES[0]
    profile, run = predicted(*settings), third_step(*settings)
    before = torch.cuda.memory_allocated()
    torch.cuda.memory._record_memory_history(max_entries=1_000_000)
    try:
        run()
        torch.cuda.synchronize()
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    events = [
        (entry["addr"], entry["size"] if entry["action"] == "alloc" else FREE)
        for entry in trace
        if entry["action"] in ("alloc", "free_requested")
    ]
    assert before + replay(_paired(events)).peak_allocated == pytest.approx(
        torch.cuda.max_memory_allocated(), rel=0.03
    )
    largest = sorted((block.size for block in profile.timeline.blocks if block.size >= 2**20), reverse=True)[:20]
    recorded = sorted((size for _, size in events if size >= 2**20), reverse=True)[:20]
    assert largest == pytest.approx(recorded, rel=0.01)


def _paired(events):
    """Without frees of what was allocated before the recording; an address may be used again."""
    live = set()
    for address, size in events:
        if size != FREE:
            live.add(address)
            yield address, size
        elif address in live:
            live.remove(address)
            yield address, size
