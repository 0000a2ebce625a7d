"""Figures of memory: what policies save and cost, how well it is predicted, what fits."""

import statistics
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from figures import NOT_RUN, bench, block, made, span, table

POLICIES = {"planner": "the planner", "planner, offload": "the planner with `offload`", "full": "`full`"}
ASKED = {"live": "0.5 %, 2 %", "allocated, float32": "2 %, 5 %", "allocated, bfloat16": "2 %, 10 %"}
WAYS = ("all kept", "timm's flag", "full", "planner", "planner, offload")
NETWORKS = ("U-Net, resnet50", "FPN, convnext_tiny")
BACKBONES = ("resnet50", "convnext_tiny", "efficientnet_b0")
KINDS = {"32-true": "float32", "bf16-mixed": "bfloat16"}
SHORT = {"32-true": "32", "bf16-mixed": "bf16"}


@block
def activation_checkpointing() -> str:
    """Peaks and times of policies, and peaks with 150 classes."""
    content, many = (bench(f"activation_checkpointing{end}") for end in ("", "_150_classes"))
    backbones, more = content["backbones"], many["backbones"]

    def cell(found: Mapping[str, Any], name: str) -> str:
        peak, ratio = found["live_mib"][name]["peak"], found["time_ratio"].get(name)
        return f"{peak:.0f}" + (f", {ratio:.2f}" if ratio else "")

    order = ("none", "selective", "full, backbone", "timm's flag")
    names = sorted(next(iter(backbones.values()))["live_mib"], key=lambda n: order.index(n) if n in order else 9)
    rows = ([name, *(cell(found, name) for found in (*backbones.values(), *more.values()))] for name in names)
    return table(["", *backbones, *(f"{name}, 150 classes" for name in more)], rows, made(content))


def _ratios(policy: str) -> str:
    return span((b["time_ratio"][policy] for b in bench("activation_checkpointing")["backbones"].values()), ".2f")


@block
def selective_time() -> str:
    return _ratios("selective")


@block
def full_time() -> str:
    return _ratios("full")


@block
def selective_saves() -> str:
    """The share of what a step adds at the peak that `selective` saves."""
    shares = []
    for name, found in bench("activation_checkpointing")["backbones"].items():
        peaks = {policy: found["live_mib"][policy]["peak"] for policy in ("none", "selective")}
        share = (peaks["none"] - peaks["selective"]) / (peaks["none"] - found["live_mib"]["none"]["before"])
        shares.append(f"{share:.0%} ({name})")
    return ", ".join(shares)


@block
def memory_accuracy() -> str:
    content = bench("memory_accuracy")
    head = [
        "model, backbone",
        "pixels, images",
        "precision",
        "policy",
        "live MiB",
        "error",
        "allocated MiB",
        "error",
    ]
    return table(head, map(_accuracy_row, content["cases"]), made(content))


def _accuracy_row(case: Mapping[str, Any]) -> list[str]:
    backbone = (
        case["backbone"].removesuffix("_100").removesuffix("_patch4_window7_224").removesuffix("_patch16_224")
    )
    sizes = (case["live_measured"], case["peak_bytes"]["allocated"])
    numbers = [
        cell
        for size, kind in zip(sizes, ("live", "allocated"), strict=True)
        for cell in (f"{size / 2**20:.0f}", f"{case['error'][kind]:+.2%}")
    ]
    shape = f"{case['height']}x{case['width']}, {case['micro']}"
    return [f"{case['model']}, {backbone}", shape, SHORT[case["precision"]], case["policy"].strip("{}"), *numbers]


@block
def memory_accuracy_summary() -> str:
    cases = bench("memory_accuracy")["cases"]
    errors = {"live": [abs(case["error"]["live"]) for case in cases]}
    for kind, precision in product(("allocated", "reserved"), KINDS):
        found = [abs(case["error"][kind]) for case in cases if case["precision"] == precision]
        errors[f"{kind}, {KINDS[precision]}"] = found
    digits = {"reserved": 1}
    rows = (
        [
            name,
            *(f"{edge(found):.{digits.get(name[:8], 2)}%}" for edge in (statistics.median, max)),
            ASKED.get(name, ""),
        ]
        for name, found in errors.items()
    )
    return table(["", "median", "worst", "asked: median, worst"], rows)


def _errors(kind: str) -> str:
    """Median, number of cases and worst of the errors of what is allocated or reserved."""
    errors = [abs(case["error"][kind]) for case in bench("memory_accuracy")["cases"]]
    return f"{statistics.median(errors):.2%} (median of {len(errors)} cases, at most {max(errors):.1%})"


@block
def allocated_error() -> str:
    return _errors("allocated")


@block
def reserved_error() -> str:
    return _errors("reserved")


@block
def prediction_time() -> str:
    content = bench("prediction_time")
    rows = (
        [
            f"{name}, {row['parameters'] / 1e6:.0f} M",
            *(f"{row[part]:.1f} s" for part in ("build", "first", "further")),
        ]
        for name, row in content["cases"].items()
    )
    return table(["", "build", "first policy", "each further one"], rows, made(content))


@block
def search_time() -> str:
    found = bench("prediction_time")["searches"]
    return "; ".join(
        f"{name}: {each['simulations']} simulations in {each['seconds']:.0f} s, up to {each['side']} pixels"
        for name, each in found.items()
    )


@block
def pixels() -> str:
    """Predicted: pixels and estimated time of each way, of both networks."""
    content = bench("pixels")
    return _ways(content, lambda row: row["time_per_pixel"])


@block
def pixels_cpu() -> str:
    """Measured under the limit."""
    content = bench("pixels_cpu")
    return _ways(content, lambda row: row["seconds"] / row["pixels"])


def _ways(content: Mapping[str, Any], time: Callable[[Any], float]) -> str:
    head = [""]
    for case in NETWORKS:
        head += [f"{case}: pixels", "of all kept", "of timm's flag", "time a pixel"]
    rows = []
    for way in WAYS:
        cells = (cell for case in NETWORKS for cell in _way(content["cases"].get(case, {}), way, time))
        rows.append([POLICIES.get(way, way), *cells])
    found = [row for case in content["cases"].values() for row in case.values()]
    return table(head, rows, made(content, found).replace("*", f"*Within {content['budget'] / 2**30:g} GiB. ", 1))


def _way(rows: Mapping[str, Any], way: str, time: Callable[[Any], float]) -> list[str]:
    """A way's side, its pixels and the time of a pixel beside others."""
    if way not in rows:
        return [NOT_RUN] * 4
    row, kept, flag = rows[way], rows.get("all kept"), rows.get("timm's flag")
    ratios = (f"{row['pixels'] / other['pixels']:.2f}" if other else NOT_RUN for other in (kept, flag))
    return [f"{row['side']}²", *ratios, f"{time(row) / time(kept):.2f}" if kept else NOT_RUN]


@block
def timm_result() -> str:
    content = bench("timm_coverage")
    status = [row["status"] for row in content["families"].values()]
    passed, failed = status.count("pass"), status.count("fail")
    return (
        f"Of {len(status)} families of timm {content['timm']}, {passed + failed} are feature backbones, "
        f"of which {passed} pass ({passed / (passed + failed):.1%})"
    )


@block
def timm_families() -> str:
    content = bench("timm_coverage")
    rows = []
    for family, row in content["families"].items():
        kept = f"{row['kept']:.1f} → {row['kept_full']:.1f}" if "kept_full" in row else ""
        cells = (family, row.get("member"), row.get("size"), row.get("stages"), row.get("units"), kept)
        rows.append([str(cell or "") for cell in (*cells, row["status"], row["reason"])])
    head = ["family", "member", "size", "stages", "units", "kept", "status", "reason"]
    return table(head, rows, made(content, list(content["families"].values())))
