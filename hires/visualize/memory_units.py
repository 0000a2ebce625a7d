"""Units of a model: what each keeps for the backward, and what another policy would make of it."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from hires.visualize.page import bar_rows, heading, html_table, paragraph
from hires.visualize.text import ABSENT, short, size

_IN_USE = "in use"


def units_part(units: Mapping[str, Any], colour: int) -> list[str]:
    """Bars in a colour, and a table, as HTML."""
    policies = _policies(units)
    bars = [(name, unit["kept"], max(unit["recomputed"], 0), size(unit["kept"])) for name, unit in units.items()]
    spared = any(unit["recomputed"] > 0 for unit in units.values())
    return [
        heading("What each unit keeps for the backward"),
        bar_rows(bars, colour),
        *([paragraph("The weak part of a bar is what the policy in use saves against none.")] if spared else []),
        heading("Units, and what other policies would change"),
        html_table(
            ["unit", "parameters", "policy", "kept", *policies, "modules"],
            [_row(name, unit, policies) for name, unit in units.items()],
            named=True,
            told=True,
        ),
        *([paragraph(_explained(policies))] if policies else []),
    ]


def units_table(units: Mapping[str, Any]) -> Table:
    """The same for a terminal."""
    policies = _policies(units)
    shown = Table("unit", "policy", box=None, pad_edge=False, caption_justify="left")
    for head in ("parameters", "kept", *(f"{_brief(policy)}\nMiB" for policy in policies)):
        shown.add_column(Text(head), justify="right")
    for name, unit in units.items():
        trades = [_short_trade(unit, policy) for policy in policies]
        shown.add_row(
            Text(name), Text(_brief(unit["policy"])), f"{unit['parameters']:,}", size(unit["kept"]), *trades
        )
    if policies:
        shown.caption = Text(_explained(policies))
    return shown


def _brief(policy: str) -> str:
    """A policy of a user's own without the package and the module of its function."""
    return policy.rpartition(".")[2]


def _policies(units: Mapping[str, Any]) -> list[str]:
    """Those to compare with: all but one that every unit has."""
    known = dict.fromkeys(policy for unit in units.values() for policy in unit["policies"])
    return [policy for policy in known if any(unit["policy"] != policy for unit in units.values())]


def _row(name: str, unit: Mapping[str, Any], policies: list[str]) -> list[str]:
    trades = [_trade(unit, policy) for policy in policies]
    modules = short(", ".join(unit["modules"]), 60)
    return [name, f"{unit['parameters']:,}", unit["policy"], size(unit["kept"]), *trades, modules]


def _trade(unit: Mapping[str, Any], policy: str) -> str:
    """What another policy would save and cost, as "saves 12.0 MiB", below it "+3.1 %"."""
    changes = _changes(unit, policy)
    if changes is None:
        return _IN_USE if policy == unit["policy"] else ABSENT
    saved, added = changes
    kept = f"saves {size(saved)}" if saved > 0 else f"adds {size(-saved)}" if saved else "saves nothing"
    return f"{kept}\n{_percent(added)}"


def _short_trade(unit: Mapping[str, Any], policy: str) -> str:
    changes = _changes(unit, policy)
    if changes is None:
        return _IN_USE if policy == unit["policy"] else ABSENT
    saved, added = changes
    return f"{saved / 2**20:,.1f} {_percent(added)}".replace("-", "−").replace(" %", "%")


def _changes(unit: Mapping[str, Any], policy: str) -> tuple[int, float] | None:
    """Bytes saved and cost added by a policy, to the one in use; None for that one, and for what is not known."""
    other = unit["policies"].get(policy)
    if other is None or policy == unit["policy"]:
        return None
    return unit["kept"] - other["kept"], other["cost"] - unit["cost"]


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %".replace("-", "−").replace("+0.0", "0").replace("−0.0", "0")


def _explained(policies: list[str]) -> str:
    copies = " offload computes nothing again; its copies to host memory take time all the same."
    return (
        "Under a policy: what of a unit it would save against the one in use, and how much more or less of the "
        "step's computation would run again." + (copies if "offload" in policies else "")
    )
