"""docs/verification.md names tests, measurements and commands that are there, and all measurements."""

import ast
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hires import cli
from tests.conftest import REPOSITORY

BENCH = REPOSITORY / "tools" / "bench"
PAGE = (REPOSITORY / "docs" / "verification.md").read_text(encoding="utf-8")
ROWS = [
    line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| claimed", "| ---"))
]
FIRST_WORDS = ("pytest", "python", "lint-imports", "make", "hires", "bash")
MARKERS = {"slow", "gpu"}


class Row(NamedTuple):
    claimed: str
    commands: list[list[str]]
    rest: str  # what was seen, and when


def row(line: str) -> Row:
    claimed, shown, rest = line.removeprefix("| ").split(" | ", 2)
    spans = [shlex.split(span) for span in re.findall(r"`([^`]+)`", shown)]
    return Row(claimed, [words for words in spans if words[0] in FIRST_WORDS], rest)


def commands(first: str) -> list[list[str]]:
    return [words for line in ROWS for words in row(line).commands if words[0] == first]


class Marked(NamedTuple):
    """What a file of tests says of markers: of all of it, and of each test, in the words of its decorators."""

    everywhere: str
    each: dict[str, list[str]]


@cache
def marked_in(path: Path) -> Marked:
    """Of the file; the decorators of a test are `ast` unparsed."""
    everywhere, each = "", {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            each[node.name] = [ast.unparse(decorator) for decorator in node.decorator_list]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            everywhere = ast.unparse(node.value)
    return Marked(everywhere, each)


def wrong(words: list[str]) -> list[str]:
    """What of a pytest command would run nothing."""
    marker = words[words.index("-m") + 1] if "-m" in words else None
    names = [word for word in words[1:] if word not in ("-m", marker)]
    return [name for name in names if not would_run(name, marker)] or ([] if names else ["no file"])


def would_run(name: str, marker: str | None) -> bool:
    """Whether there are such tests, and some that the marker chooses; without one, some that have neither."""
    file, _, test = name.partition("::")
    path = REPOSITORY / file
    if not (file.startswith("tests/") and path.is_file()):
        return False
    everywhere, each = marked_in(path)
    chosen = [each[test]] if test in each else [] if test else list(each.values())
    if marker is None:
        return any(not {f"pytest.mark.{m}" for m in MARKERS} & {*decorators} for decorators in chosen) and not any(
            f"mark.{m}" in everywhere for m in MARKERS
        )
    return any(marker in " ".join([everywhere, *decorators]) for decorators in chosen)


@pytest.mark.parametrize("words", commands("pytest"), ids=lambda words: words[-1].removeprefix("tests/"))
def test_the_tests_are_there(words: list[str]) -> None:
    assert wrong(words) == []


def test_what_is_not_there_would_be_told() -> None:
    slow = "tests/integration/test_soak.py::test_nothing_grows"
    assert wrong(["pytest", slow]) == [slow]
    assert wrong(["pytest", "-m", "slow", slow]) == []
    for absent in ("tests/test_absent.py", "tests/test_plans.py::test_absent", "docs/design.md"):
        assert wrong(["pytest", absent]) == [absent]
    assert wrong(["pytest", "-m", "slow", "tests/test_plans.py"]) == ["tests/test_plans.py"]
    assert wrong(["pytest", "tests/memory/test_gpu.py"]) == ["tests/memory/test_gpu.py"]
    assert wrong(["pytest"]) == ["no file"]


def test_the_measurements_are_there() -> None:
    scripts = {words[1] for words in commands("python")}
    assert scripts
    assert [name for name in scripts if not (REPOSITORY / name).is_file()] == []


def test_other_commands_are_there() -> None:
    targets = re.findall(r"^(\w+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert all(words[1] in targets for words in commands("make"))
    assert all(words[1] in cli.COMMANDS for words in commands("hires"))
    assert all((REPOSITORY / words[1]).is_file() for words in re.findall(r"`(bash) ([\w./]+)`", PAGE))


def test_trainings_that_are_named_are_cases_of_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    cases = __import__("trainings").CASES
    named = [words[words.index("--only") + 1 :] for words in commands("python") if "--only" in words]
    assert len(named) > 5
    assert {name for names in named for name in names} <= set(cases)


def test_every_row_has_a_command_and_a_figure() -> None:
    assert len(ROWS) > 80
    for line in map(row, ROWS):
        assert line.commands, line.claimed
        assert re.match(r"asserted|<!-- figures: |\*\*not run on CUDA\*\*", line.rest), line.claimed


def test_what_needs_a_gpu_is_said_not_to_be_run() -> None:
    gpu = [line for line in map(row, ROWS) if any("gpu" in words for words in line.commands)]
    files = {word for line in gpu for words in line.commands for word in words if word.startswith("tests/")}
    assert all(line.rest.startswith("**not run on CUDA**") for line in gpu)
    marked = list((REPOSITORY / "tests").rglob("test_*gpu.py"))
    assert {str(path.relative_to(REPOSITORY)) for path in marked} <= files


def test_every_measurement_is_named() -> None:
    marks = re.findall(r"<!-- figures: claim (\w+)", PAGE)
    assert [path.stem for path in (REPOSITORY / "docs" / "bench").glob("*.json") if path.stem not in marks] == []
    scripts = {Path(words[1]).name for words in commands("python")}
    assert {f"{name}.py" for name in order()} == scripts


def order() -> tuple[str, ...]:
    """The measurements that `make bench` runs."""
    tree = ast.parse((BENCH / "run_all.py").read_text())
    (value,) = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "ORDER"]
    return tuple(node.value for node in ast.walk(value) if isinstance(node, ast.Constant))


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a mark says when the JSON has another content, which is given."""
    monkeypatch.syspath_prepend(str(BENCH))
    figures, results = (__import__(name) for name in ("figures", "results"))
    __import__("tables")

    def say(mark: str, content: Any) -> str:
        monkeypatch.setattr(results, "read", lambda path, default=None: content)
        return figures.text_of(f"claim {mark}")

    return say


def test_a_figure_that_misses_what_is_asked_says_so(said: Any) -> None:
    content = {"ratio": 1.03, "date": "2026-12-24", "commit": "abc"}
    assert said("train_step", content) == "1.030 | 2026-12-24; abc"
    assert said("train_step", {**content, "ratio": 1.05}) == "1.050: **missed** | 2026-12-24; abc"
    assert said("train_step", None) == "**not run** | "


def test_minutes_of_one_thread_show_nothing_for_two_cores(said: Any) -> None:
    run = {"threads": 2, "minutes": 31, "metrics": {"AP50": 0.7}, "date": "2026-12-24"}
    assert said("trainings, deeppcb", {"runs": {"deeppcb": run}}).startswith(
        "AP50 0.700; minutes: 31.0 (2 threads): **m"
    )
    slow = said("trainings, deeppcb", {"runs": {"deeppcb": {**run, "threads": 1}}})
    assert "missed" not in slow
    assert "**partly measured**" in slow
    assert "missed" not in said("trainings, deeppcb", {"runs": {"deeppcb": {**run, "minutes": 29}}})
    assert said("trainings, demo", {"runs": {"deeppcb": run}}) == "**not run** | "


def test_cases_that_were_not_run_show(said: Any) -> None:
    case = {
        "gib": 1,
        "steps": {"survived": True, "reserved": 2**30},
        "probes": [],
        "next": None,
        "date": "2026-12-24",
    }
    text = said("autobatch", {"cases": [{**case, "commit": name} for name in "abcde"]})
    assert text.startswith("5 of 18 cases: 5 got through 20 steps, 100.0% used; **partly measured** | ")
    assert text.endswith("2026-12-24; a, b, c and 2 more")
    assert "**missed**" in said("autobatch", {"cases": [{**case, "steps": {"survived": False, "reserved": None}}]})
