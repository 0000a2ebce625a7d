"""Figures of memory: what policies save and cost, how well it is predicted, what fits, what is found."""

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
PEERS = {"hires, auto": "hires, `auto` policies"}
TRAININGS = {("unet", "resnet18"): "U-Net, resnet18", ("fpn", "convnext_atto"): "FPN, convnext_atto"}
TRAININGS |= {("fcos", "resnet18"): "FCOS, resnet18"}
AUTOBATCH = list(product((1, 2, 4), TRAININGS, ("batch", "resolution")))


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
    found = bench("prediction_time")["search"]
    return f"{found['simulations']} simulations in {found['seconds']:.0f} s, and ends at {found['side']} pixels"


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
def autobatch() -> str:
    """A row for each case of the bench, those that were not run too."""
    content = bench("autobatch")
    found = {(row["gib"], row["model"], row["backbone"], row["goal"]): row for row in content["cases"]}
    rows = [
        [f"{gib} GiB", TRAININGS[training], goal, *_plan(found.get((gib, *training, goal)))]
        for gib, training, goal in AUTOBATCH
    ]
    head = ["within", "training", "largest", "micro-batch", "used in 20 steps", "out of memory", "the next larger"]
    return table([*head, "search"], rows, made(content, content["cases"]))


def _plan(row: Mapping[str, Any] | None) -> list[str]:
    if row is None:
        return [NOT_RUN, *[""] * 4]
    steps, after = row["steps"], row["next"]
    used = f"{steps['reserved'] / (row['gib'] * 2**30):.1%}" if steps["reserved"] else ""
    shape = f"{row['micro_batch_size']} x {' x '.join(map(str, row['image_size']))}"
    return [shape, used, "no" if steps["survived"] else "**yes**", _after(after), f"{row['search_seconds']:.0f} s"]


def _after(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "none"
    shape = " x ".join(str(found["shape"][side]) for side in ("micro_batch", "height", "width"))
    fate = "fails" if found["failed"] else "**gets through**"
    return f"{shape}: predicted {found['predicted'] / 2**30:.2f} GiB, {fate}"


@block
def autobatch_counts() -> str:
    """How many cases were run, survived, and could not have been larger."""
    cases = bench("autobatch")["cases"]
    survived = sum(row["steps"]["survived"] for row in cases)
    after = [row["next"]["failed"] for row in cases if row["next"]]
    return (
        f"{len(cases)} of {len(AUTOBATCH)} cases were run: {survived} trained within the limit, and the next "
        f"larger shape failed in {sum(after)} of {len(after)}"
    )


@block
def autobatch_unused() -> str:
    """The largest share of a budget that was not used."""
    cases = bench("autobatch")["cases"]
    used = [row["steps"]["reserved"] / (row["gib"] * 2**30) for row in cases if row["steps"]["reserved"]]
    return f"{1 - min(used):.1%}" if used else NOT_RUN


@block
def planner_time() -> str:
    content = bench("planner_time")

    def row(name: str, found: Mapping[str, Any] | None) -> list[str]:
        if found is None:
            return [name, NOT_RUN, *[""] * 3]
        peaks, seconds = found["reserved"], found["seconds"]
        ratios = (f"{seconds['planner'] / seconds[other]:.2f}" for other in ("timm's flag", "all kept"))
        return [name, *(f"{peaks[way] / 2**20:.0f} MiB" for way in ("timm's flag", "planner")), *ratios]

    rows = (row(name, content["backbones"].get(name)) for name in BACKBONES)
    head = [
        "",
        "reserved with timm's flag",
        "with the planner's",
        "step time, of the flag's",
        "of everything kept",
    ]
    return table(head, rows, made(content))


@block
def peers() -> str:
    content = bench("peers")
    head = [
        "finder",
        "batch",
        "trials",
        "out of memory",
        "seconds",
        "predicting",
        "used",
        "20 steps",
        "seconds an image",
    ]
    return table(
        head,
        map(_peer, content["budgets"]["1GiB"]),
        made({"torch": content["versions"]["ours"]["torch"], **content}),
    )


def _peer(row: Mapping[str, Any]) -> list[str]:
    name = PEERS.get(row["finder"], row["finder"])
    if row["batch"] is None:
        return [name, "none", *[""] * 7]
    then = row["then"]
    predicting = f"{row['seconds']['search']:.0f}" if "simulated" in row else ""
    numbers = [str(row[key]) for key in ("batch", "trials", "out_of_memory")]
    outcome = [
        f"{then['share']:.0%}",
        "yes" if then["survived"] else "no",
        f"{then['processor_seconds_per_image']:.2f}",
    ]
    return [name, *numbers, f"{row['seconds']['processor']:.0f}", predicting, *outcome]


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
