"""YAML from outside: no part may stand for another, by which a few lines could fill any memory."""

from typing import Any

import yaml

_DEEPEST = 100  # mappings and lists within each other


class PlainLoader(yaml.SafeLoader):
    """Values as they are written. Raises ValueError for aliases, and what is nested too deeply."""

    def __init__(self, stream: Any):
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has aliases (*); write out what they stand for")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def check_plain(text: str) -> None:
    """Raises ValueError and yaml.YAMLError for a text that is none, whatever its values are read as."""
    yaml.compose(text, PlainLoader)


def read_plain(text: str) -> Any:
    """What a text says. Raises ValueError and yaml.YAMLError."""
    return yaml.load(text, PlainLoader)
