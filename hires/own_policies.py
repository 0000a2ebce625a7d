"""Policies from packages of a user's own, which configurations and plans name by `package.module.function`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hires.instantiate import allowed_function, allowed_on_command_line
from hires.interfaces import MemoryPlan
from hires.memory.kinds import KINDS
from hires.memory.policies import KEY


def know_those_of_settings(memory: Any) -> None:
    """Makes the functions known that the values of `memory` name, before they are checked.

    A name means the same function throughout a process. Raises ConfigError for one that the command line does
    not allow, and for what is not there.
    """
    if not isinstance(memory, Mapping):
        return  # which the settings refuse
    _know(_texts(memory.get("activation_checkpointing")), KEY)
    _know(_texts(memory.get("choices")), "memory.choices")


def know_those_of_plan(plan: MemoryPlan) -> None:
    """The same for a plan and what it falls back to."""
    for each in (plan, *plan.rungs):
        _know(each.policies.values(), "memory.plan")


def _know(names: Iterable[str], key: str) -> None:
    for name in names:
        parts = name.split(".")
        if len(parts) > 1 and all(part.isidentifier() for part in parts) and name not in KINDS:
            KINDS[name] = allowed_function(name, key, allowed_on_command_line())


def _texts(value: Any) -> Iterator[str]:
    """The policies in what was given for a key; anything else is for the settings to refuse."""
    if isinstance(value, Mapping):
        value = list(value.values())
    several = value if isinstance(value, (list, tuple)) else [value]
    yield from (each for each in several if isinstance(each, str))
