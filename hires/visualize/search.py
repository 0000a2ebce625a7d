"""How a plan was found: a page, and a table for the terminal. Both take what search.json holds."""

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text


def page(outcome: dict[str, Any]) -> str:
    return ""


def table(outcome: dict[str, Any]) -> RenderableType:
    return Group(Text(outcome["override"]))
