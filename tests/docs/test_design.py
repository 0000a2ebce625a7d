"""docs/design.md says what is so: its layers are the contract's, and what it names is in the code."""

import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "design.md").read_text(encoding="utf-8")
HIRES, TESTS = REPOSITORY / "hires", REPOSITORY / "tests"
WAYS = ("The way of one batch", "The way of a plan")
_NAME = re.compile(r"`([a-z_]+(?:\.\w+)+)`")


def section(title: str) -> str:
    """The text below a heading, without that of the next."""
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def modules() -> set[str]:
    """The modules and packages that lie in hires/."""
    return {path.stem for path in HIRES.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}


def rows(text: str) -> Iterator[list[str]]:
    """The cells of the rows of tables, without their heads."""
    for line in re.findall(r"^\|(.*)\|$", text, re.MULTILINE):
        cells = [cell.strip() for cell in line.split(" | ")]
        if "`" in line and not set(line) <= set("|- "):
            yield cells


def named() -> list[str]:
    """All names of modules, classes and functions in the two ways."""
    there = modules()
    found = {name: None for title in WAYS for name in _NAME.findall(section(title))}
    return [name for name in found if name.partition(".")[0] in there]


def resolved(name: str) -> Any:
    """What a name below hires means. Raises AttributeError or ImportError."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = find_spec(".".join(["hires", *parts[:count]]))
        except ModuleNotFoundError:  # of a part that is no package
            continue
        if found is not None:
            value: Any = import_module(found.name)
            for part in parts[count:]:
                value = getattr(value, part)
            return value
    raise ImportError(name)


def test_the_layers_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    contract = next(each for each in contracts if each["type"] == "layers")
    layers = [{name.strip().removeprefix("hires.") for name in layer.split("|")} for layer in contract["layers"]]
    assert [set(re.findall(r"`(\w+)`", cells[0])) for cells in rows(section("Layers"))] == layers


def test_every_module_has_its_place() -> None:
    assert modules() - {"__init__"} <= set(re.findall(r"`(\w+)`", section("Layers")))


@pytest.mark.parametrize("name", named())
def test_what_the_ways_name_is_there(name: str) -> None:
    assert resolved(name) is not None


def test_every_step_of_the_ways_says_where() -> None:
    for title in WAYS:
        steps = list(rows(section(title)))
        assert len(steps) > 10
        assert all(set(_NAME.findall(cells[1])) & set(named()) for cells in steps)


def files() -> list[tuple[str, Path | None]]:
    """The Python files that the page names, each with the one that it means."""
    known = [path for folder in (HIRES, TESTS, REPOSITORY / "tools") for path in folder.rglob("*.py")]
    said = dict.fromkeys(re.findall(r"`([\w/]+\.py)(?:::\w+)?`", PAGE))
    return [(name, next((path for path in known if path.as_posix().endswith(f"/{name}")), None)) for name in said]


def test_files_that_are_named_are_there() -> None:
    absent = [name for name, path in files() if path is None]
    assert absent == []


def test_tests_that_are_named_are_there() -> None:
    means, missing = dict(files()), []
    for cells in rows(section("What holds, and the test that shows it")):
        path: Path | None = None
        for file, test in re.findall(r"`(?:([\w/]+\.py)(?:::)?)?(test_\w+)?`", cells[-1]):
            path = means[file] if file else path
            if test and (path is None or not re.search(rf"^def {test}\b", path.read_text(), re.MULTILINE)):
                missing.append(f"{path and path.name}::{test}")
    assert missing == []
