"""Reads which class number has which name, as YOLO data sets write it."""

import re
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import yaml

from hires.data.formats.image_file import read_bytes
from hires.data.label_json import name_of
from hires.interfaces import ConfigError, DataError
from hires.ops.plain_yaml import PlainLoader

_USUAL = ("*.names", "classes.txt", "data.yaml", "data.yml", "dataset.yaml")


def names_file(root: Path) -> Path:
    """The one file below `root` that usually holds the names. Raises ConfigError."""
    files = [path for pattern in _USUAL for path in sorted(root.glob(pattern))]
    if len(files) != 1:
        held = "none" if not files else ", ".join(path.name for path in files)
        raise ConfigError(
            f"data.classes: got null, allowed: a file of names, a list of names, or name: class number, "
            f"unless one of {', '.join(_USUAL)} lies in {root}, which has {held}"
        )
    return files[0]


def read_names(path: Path) -> dict[int, str]:
    """Names by number from 0: a line each, or `names` of a YAML file, a list or a mapping. Raises DataError."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
        given = _of_yaml(text) if path.suffix in (".yaml", ".yml") else text.rstrip().splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path}: is no text; write one class name a line") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: class names cannot be read ({error})") from None
    pairs = given.items() if isinstance(given, dict) else enumerate(given or ())
    names = {_number(number): name_of(name) or "" for number, name in pairs}
    if not names or not all(names.values()) or min(names) < 0:
        raise DataError(f"{path}: no list of class names; write one a line, or in YAML names: [...]")
    twice = [name for name, times in Counter(names.values()).items() if times > 1]
    if twice:
        raise DataError(f"{path}: the class name {twice[0]!r} stands there twice; give every class another name")
    return names


def _number(key: object) -> int:
    """A class number as YAML holds it, -1 for what is none."""
    text = key if isinstance(key, str) else str(key) if isinstance(key, int) else ""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else -1


class _PlainText(PlainLoader):
    """Leaves numbers, dates, `yes` and `no` as they are written, and refuses a key that stands twice."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        content = super().construct_mapping(node, deep=deep)
        if len(content) < len(node.value):
            raise ValueError(f"a key stands twice in the mapping that begins in line {node.start_mark.line + 1}")
        return content


def _of_yaml(text: str) -> dict[str, Any] | list[Any] | None:
    content = yaml.load(text, _PlainText)
    names = content.get("names") if isinstance(content, dict) else None
    return names if isinstance(names, (dict, list)) else None
