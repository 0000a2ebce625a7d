"""Figures of published memory beside what is predicted."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from figures import bench, block, made, table

KINDS = ("now", "bare", "kept", "then")
PARTS = ("figures", "more figures")
NEITHER = ("RetinaNet", "TSN", "Semantic FPN")
"""Networks whose figures neither difference of that time changes much."""

Row = Mapping[str, Any]


def _rows(*parts: str) -> list[Row]:
    content = bench("published_memory")
    return [row for part in parts for row in content[part]]


def _percent(ratios: Iterable[float]) -> str:
    """The least whole number of percent within which all are of 1."""
    return f"{math.ceil(100 * max(abs(ratio - 1) for ratio in ratios))} %"


@block
def published_memory() -> str:
    head = ["network, images on a GPU", "published", "now, bytes", *KINDS, "reason beyond 15 %"]
    return table(head, map(_published, _rows("figures")), made(bench("published_memory")))


def _published(row: Row) -> list[str]:
    now = row["predicted_bytes"]["now"]
    first, *others = (f"{row['ratio'][kind]:.2f}" for kind in KINDS)
    stated = f"[{row['stated']}]({row['source']})"
    return [
        row["name"],
        stated,
        f"{now:,} ({now / 2**30:.2f} GiB)",
        f"**{first}**",
        *others,
        row.get("reason", ""),
    ]


@block
def published_summary() -> str:
    summary, counts = bench("published_memory")["summary"], {part: len(_rows(part)) for part in PARTS}
    names = {"figures": f"the {counts['figures']} figures", "more figures": f"{counts['more figures']} more"}
    rows = (
        [names[part], *(f"{summary[part][k]['median']:.1%}, {summary[part][k]['worst']:.1%}" for k in KINDS)]
        for part in PARTS
    )
    return table(["", *KINDS], rows)


@block
def published_bare() -> str:
    return _percent(row["ratio"]["bare"] for row in _rows("figures") if row["name"].startswith(NEITHER))


@block
def published_then() -> str:
    return _percent(row["ratio"]["then"] for row in _rows("figures"))


@block
def published_nearer() -> str:
    rows = _rows(*PARTS)
    nearer = sum(abs(row["ratio"]["now"] - 1) < abs(row["ratio"]["bare"] - 1) for row in rows)
    return f"{nearer} of {len(rows)}"


@block
def published_above() -> str:
    rows = _rows(*PARTS)
    return f"{sum(row['ratio']['bare'] < 1 for row in rows)} of them"


def _allowance(row: Row) -> float:
    """MiB by which the allowance for workspace changes the peak."""
    return (row["predicted_bytes"]["now"] - row["predicted_bytes"]["bare"]) / 2**20


@block
def published_unchanged() -> str:
    changes = [abs(_allowance(row)) for row in _rows("figures")]
    return f"{sum(change <= 11 for change in changes)} of the {len(changes)}"


@block
def published_upernet() -> str:
    """What the allowance adds, and what the workspace concluded for cuDNN 7 does, for UPerNet."""
    row = next(row for row in _rows("figures") if row["name"].startswith("UPerNet R-50"))
    sizes = row["predicted_bytes"]
    then = _allowance(row) + (sizes["then"] - sizes["kept"]) / 2**20
    return f"{_allowance(row):.0f} MiB, where cuDNN 7 seems to have taken {then / 1024:.1f} GiB"


@block
def published_retinanet18() -> str:
    row = next(row for row in _rows("more figures") if row["name"].startswith("RetinaNet R-18"))
    shares = sorted(100 * (ratio - 1) for ratio in row["ratio"].values())
    return f"{shares[0]:.0f} to {shares[-1]:.0f} %"
