"""Reads which class number has which name, as YOLO data sets write it."""

from pathlib import Path

import yaml

from hires.data.images import read_bytes
from hires.interfaces import ConfigError, DataError

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
    except yaml.YAMLError as error:
        raise DataError(f"{path}: class names cannot be read ({error})") from None
    pairs = given.items() if isinstance(given, dict) else enumerate(given or ())
    names = {number: str(name).strip() for number, name in pairs}
    if not names or not all(names.values()) or not all(type(number) is int for number in names):
        raise DataError(f"{path}: no list of class names; write one a line, or in YAML names: [...]")
    listed = list(names.values())
    twice = [name for position, name in enumerate(listed) if name in listed[:position]]
    if twice:
        raise DataError(f"{path}: the class name {twice[0]!r} stands there twice; give every class another name")
    return names


def _of_yaml(text: str) -> dict[int, str] | list[str] | None:
    content = yaml.safe_load(text)
    names = content.get("names") if isinstance(content, dict) else None
    return names if isinstance(names, (dict, list)) else None
