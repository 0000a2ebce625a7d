"""Memory in training that others have published for CUDA, and what we predict for the same step without a GPU.

The published figures are `torch.cuda.max_memory_allocated()`, which counts the workspace of kernels too. They are
from 2020 to 2022, when two things were different (published_then.py). Predicted are

- `bare`: without any workspace;
- `now`: with the allowance for workspace that `hires profile memory.device=cuda` makes;
- `kept`: as now, but softmax keeps its input;
- `then`: softmax keeps its input, and the workspace is what cuDNN 7 took.

All runs were distributed (buckets hold a copy of all gradients), zeroed gradients in place, and updated parameters
one by one.
"""

import argparse
import statistics
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from published_figures import EVIDENCE, FIGURES, MORE, SOURCES, Published
from published_then import KeepsInputs, Winograd
from results import conditions, write
from torch import nn

from hires.memory.meter import Workspace
from hires.memory.simulate import Simulation
from hires.memory.workspace_cuda import CudaWorkspace

CLOSE = 0.15  # a ratio further from 1 needs a reason
KINDS: dict[str, dict[str, Any]] = {
    "bare": {},
    "now": {"workspace": CudaWorkspace()},
    "kept": {"workspace": CudaWorkspace(), "kept": True},
    "then": {"workspace": Winograd(), "kept": True},
}
REASONS = {"kept": "softmax kept its input", "then": "softmax kept its input, cuDNN 7 took more workspace"}


def predicted(figure: Published, workspace: Workspace | None = None, kept: bool = False) -> int:
    """Bytes that the allocator would have handed out at most in two steps: in the second, all gradients are there.

    `kept`: softmax keeps its input.
    """
    simulation = Simulation(figure.build().train(), "cuda")
    module, optimizer = simulation.module, simulation.optimizer(_updates(figure))
    trained = sum(p.numel() for p in module.parameters() if p.requires_grad)

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        with torch.device("cuda"), torch.autocast("cuda", torch.float16, enabled=figure.half):
            batch = figure.batch()
            with KeepsInputs() if kept else nullcontext():
                loss = module(*batch)
        del batch
        loss.backward()
        optimizer.step()

    def steps() -> None:
        buckets = torch.empty(trained, device="cuda")
        step()
        step()
        del buckets

    return simulation.profile(steps, optimizer=optimizer, workspace=workspace).allocated


def _updates(figure: Published) -> Callable[[nn.Module], torch.optim.Optimizer]:
    momentum = {"momentum": 0.9} if figure.optimizer is torch.optim.SGD else {}

    def make(module: nn.Module) -> torch.optim.Optimizer:
        parameters = [p for p in module.parameters() if p.requires_grad]
        return figure.optimizer(parameters, lr=0.01, weight_decay=1e-4, foreach=False, **momentum)

    return make


def compared(figure: Published) -> dict[str, Any]:
    """One row of the report."""
    sizes = {kind: predicted(figure, **how) for kind, how in KINDS.items()}
    ratios = {kind: size / figure.bytes for kind, size in sizes.items()}
    row = {
        "name": figure.name,
        "stated": figure.stated,
        "published_bytes": figure.bytes,
        "predicted_bytes": sizes,
        "ratio": ratios,
        "optimizer": figure.optimizer.__name__,
        "precision": "16-mixed" if figure.half else "32-true",
        "source": SOURCES[figure.source],
    }
    if not close(ratios["now"]):
        row["reason"] = reason(ratios)
    return row


def close(ratio: float) -> bool:
    return abs(ratio - 1) <= CLOSE


def reason(ratios: dict[str, float]) -> str:
    """The first difference of that time with which the prediction is close."""
    found = (f"{REASONS[kind]}: with that {ratios[kind]:.2f}" for kind in REASONS if close(ratios[kind]))
    return next(found, "unknown")


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Median and worst of |ratio - 1|."""
    found = {}
    for kind in KINDS:
        errors = [abs(row["ratio"][kind] - 1) for row in rows]
        found[kind] = {"median": statistics.median(errors), "worst": max(errors)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="figures whose name has this in it")
    parser.add_argument("--out", type=Path, default=Path("docs/bench/published_memory.json"))
    options = parser.parse_args()
    content: dict[str, Any] = {**conditions(), "evidence": EVIDENCE, "summary": {}}
    for part, figures in {"figures": FIGURES, "more figures": MORE}.items():
        content[part] = []
        for figure in figures:
            if options.only in figure.name:
                content[part].append(compared(figure))
                show(content[part][-1])
                content["summary"][part] = summary(content[part])
                write(options.out, content)
    for part, kinds in content["summary"].items():
        for kind, error in kinds.items():
            print(f"{part}, {kind}: |ratio - 1|: median {error['median']:.1%}, worst {error['worst']:.1%}")


def show(row: dict[str, Any]) -> None:
    ratios = ", ".join(f"{kind} {ratio:.2f}" for kind, ratio in row["ratio"].items())
    print(f"{row['name']}: published {row['stated']}; {ratios}  {row.get('reason', '')}", flush=True)


if __name__ == "__main__":
    main()
