"""How much a command says, for the process: the key `log_level` of every command."""

from typing import Any

from hires.errors import ConfigError

LEVELS = ("warning", "info", "debug")
_level = "info"


def choose(level: Any) -> None:
    """Sets it. Raises ConfigError for what is none."""
    global _level
    if level not in LEVELS:
        raise ConfigError(f"log_level: got {level!r}, allowed: {', '.join(LEVELS)}")
    _level = level


def chosen() -> str:
    """What was set last."""
    return _level


def is_quiet() -> bool:
    """Whether only warnings and errors are shown."""
    return _level == "warning"


def is_verbose() -> bool:
    """Whether also each step and tracebacks are shown."""
    return _level == "debug"
