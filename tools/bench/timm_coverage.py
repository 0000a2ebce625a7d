"""Trains one small member of every family of timm under every policy, and compares with training without.

A family is a module of timm. Each runs in a process of its own; what is done stays in the JSON file, so that a
stopped run goes on where it was; tables.py makes docs/timm_coverage.md of it.
"""

import argparse
import copy
import hashlib
import math
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import timm
import torch
from results import conditions, read, when, write
from timm_families import CLASSES, IMAGES, built, members, said, why_not_offered
from torch import Tensor, nn
from torch.nn import functional as F

from hires.interfaces import ConfigError
from hires.memory import offload
from hires.memory.checkpointing import apply_policies
from hires.memory.meter import LivePeak, tensors_of
from hires.memory.units import find_units

POLICIES = ("none", "selective", "full", "full@2", "full@stage", "offload")
STEPS = 2
TRIES = 6  # members of a family, small ones first
PASS, FAIL, NONE = "pass", "fail", "no feature backbone"
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], metavar="FAMILY", help="these, again")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time, of one thread each")
    parser.add_argument("--limit", type=float, default=900, help="seconds for a family")
    parser.add_argument("--out", type=Path, default=Path("docs/bench/timm_coverage.json"), help="rows there stay")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, Row] = read(options.out, {"families": {}})["families"]
    families = options.only or [family for family in timm.list_modules() if family not in rows]
    for family, row in results(families, options.jobs, options.limit):
        print(family, *(row.get(key) for key in ("member", "status", "reason", "seconds")), flush=True)
        rows[family] = {**row, **when()}
        write(options.out, {**conditions(), "timm": timm.__version__, "families": dict(sorted(rows.items()))})


def results(families: list[str], jobs: int, seconds: float) -> Iterator[tuple[str, Row]]:
    """A row for each family, as they get ready."""
    waiting, running = list(families), list[Job]()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(Job(waiting.pop(0), seconds))
        for job in list(running):
            row = job.row()
            if row is not None:
                running.remove(job)
                yield job.family, {**row, "seconds": round(time.monotonic() - job.start)}


class Job:
    """A family in a process of its own: a crash or a hang there is a row too."""

    def __init__(self, family: str, seconds: float):
        context = multiprocessing.get_context("fork")  # the imports take longer than most families
        self.family, self.start, self._seconds = family, time.monotonic(), seconds
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_send, args=(family, sender))
        self._process.start()
        sender.close()

    def row(self) -> Row | None:
        """What is known after a short wait."""
        if self._receiver.poll(0.2):
            try:
                return self._receiver.recv()
            except EOFError:
                self._process.join()  # its exit code is known then
                return {"status": FAIL, "reason": f"the process ended with code {self._process.exitcode}"}
        if time.monotonic() - self.start > self._seconds:
            self._process.kill()
            return {"status": FAIL, "reason": f"not done after {self._seconds:.0f} s"}
        return None


def _send(family: str, sender: Connection) -> None:
    try:
        sender.send(examined(family))
    except Exception as error:
        sender.send({"status": FAIL, "reason": said(error)})


def examined(family: str) -> Row:
    """The row of a family: its smallest member that timm offers as a backbone, and that can be built."""
    refused: list[Row] = []
    for name in members(family)[:TRIES]:
        reason, status = why_not_offered(name), NONE
        if reason is None:
            try:
                net, size = built(name)
                return {"member": name, "size": size, **compared(net, size)}
            except ConfigError as error:
                reason, status = str(error), FAIL
        refused.append({"member": name, "status": status, "reason": reason})
    return next((row for row in refused if row["status"] == FAIL), refused[0])


def compared(net: nn.Module, size: int) -> Row:
    """Trains copies of a network under each policy."""
    units = find_units(net, net.stages())
    x = torch.rand(IMAGES, 3, size, size)
    plain = copy.deepcopy(net)
    expected, kept = trained(plain, x), kept_by(plain, x)
    row: Row = {
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "stages": len({unit.stage for unit in units}),
        "units": len(units),
        "kept": kept,
    }
    wrong: list[str] = []
    for policy in POLICIES:
        try:
            other = copy.deepcopy(net)
            with tempfile.TemporaryDirectory() as folder:
                offload.SMALLEST = 0
                apply_policies(other, units, policy, offload=offload.DiskOffload(folder))
                state = trained(other, x)
            if policy == "full":
                row["kept_full"] = kept_by(other, x)
            differing = [name for name in expected if state.get(name) != expected[name]]
            if differing or len(state) != len(expected):
                wrong.append(
                    f"{policy}: {len(differing)} of {len(expected)} tensors differ, first {differing[:1]}"
                )
        except Exception as error:
            wrong.append(f"{policy}: {said(error)}")
    if row.get("kept_full", math.inf) >= kept:
        wrong.append("full does not lower live memory")
    return {**row, "status": FAIL if wrong else PASS, "reason": "; ".join(wrong)}


def trained(net: nn.Module, x: Tensor) -> dict[str, str]:
    """Some steps of AdamW: digests of all that is afterwards."""
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses.append(_loss(net, x))
        losses[-1].backward()
        optimizer.step()
    if not all(map(torch.isfinite, losses)):
        raise ArithmeticError("the loss is not finite")
    return {name: _digest(tensor) for name, tensor in _state(net, optimizer, losses)}


def kept_by(net: nn.Module, x: Tensor) -> float:
    """MiB that are alive after a forward, beyond those before it."""
    net.zero_grad()
    with LivePeak([*tensors_of(net), x]) as meter:
        loss = _loss(net, x)
        kept = meter.live - meter.start
        del loss
    return round(kept / 2**20, 3)


def _loss(net: nn.Module, x: Tensor) -> Tensor:
    logits = net(x)
    rows, columns = (torch.arange(side) for side in logits.shape[-2:])
    target = (rows[:, None] + columns).remainder(CLASSES)
    return F.cross_entropy(logits, target.expand(len(x), *target.shape))


def _state(net: nn.Module, optimizer: torch.optim.Optimizer, losses: list[Tensor]) -> Iterator[tuple[str, Tensor]]:
    yield from ((f"loss {step}", loss) for step, loss in enumerate(losses))
    yield from net.named_buffers()
    yield "random numbers", torch.get_rng_state()
    for name, parameter in net.named_parameters():
        yield name, parameter
        if parameter.grad is not None:
            yield f"gradient of {name}", parameter.grad
        yield from ((f"{key} of {name}", value) for key, value in optimizer.state[parameter].items())


def _digest(tensor: Tensor) -> str:
    """Equal only for equal bits."""
    flat = tensor.detach().contiguous().reshape(-1)
    kind = f"{tensor.dtype} {tuple(tensor.shape)}"
    return kind + hashlib.sha256(flat.view(torch.uint8).numpy()).hexdigest()


if __name__ == "__main__":
    main()
