"""Writes the figures of docs/bench/*.json into README and docs; `--check` says where a document has others.

A figure stands between `<!-- figures: NAME -->` and `<!-- /figures -->`: a table on lines of its own, or a number
in a sentence. NAME is a function of the modules figures_*.py, or FILE.KEY.KEY:FORMAT, a value of one JSON.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import figures_memory  # noqa: F401  (they register their blocks)
import figures_published  # noqa: F401
import figures_search  # noqa: F401
import figures_speed  # noqa: F401
import figures_trainings  # noqa: F401
import figures_verification  # noqa: F401
import figures_verification_memory  # noqa: F401
from figures import text_of
from results import ROOT

MARK = re.compile(r"<!-- figures: (?P<name>[^\n]+?) -->(?P<text>.*?)<!-- /figures -->", re.DOTALL)
BEGIN = re.compile(r"<!--\s*figures\b")


def documents(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def filled(text: str) -> str:
    """A document with the figures as they are now."""
    return MARK.sub(lambda mark: _mark(mark["name"], text_of(mark["name"]), mark["text"]), text)


def _mark(name: str, new: str, old: str) -> str:
    """A mark with its text: between lines of its own where it stands so, or has several."""
    around = "\n" if "\n" in new or old.startswith("\n") else ""
    return f"<!-- figures: {name} -->{around}{new}{around}<!-- /figures -->"


def differing(text: str) -> Iterator[str]:
    """Names of the marks whose text is not that of the JSON; what is wrong with marks."""
    marks = list(MARK.finditer(text))
    if len(marks) != len(BEGIN.findall(text)) or len(marks) != text.count("<!-- /figures -->"):
        yield "a mark that is not closed, or not written as <!-- figures: NAME -->"
    for mark in marks:
        at_start = mark.start() == 0 or text[mark.start() - 1] == "\n"
        if at_start and not mark["text"].startswith("\n"):
            yield f"{mark['name']} (begins a line, which Markdown then takes for HTML: put a word before it)"
        elif mark[0] != filled(mark[0]):
            yield mark["name"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a figure differs")
    options = parser.parse_args()
    wrong, written = [], 0
    for path in documents(ROOT):
        text = path.read_text(encoding="utf-8")
        new = text if options.check else filled(text)
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in differing(new)]
        if new != text:
            path.write_text(new, encoding="utf-8")
            written += 1
    if wrong:
        sys.exit("\n".join(["figures differ from docs/bench; run python tools/bench/tables.py:", *wrong]))
    print("figures are those of docs/bench" if options.check else f"{written} documents changed")


if __name__ == "__main__":
    main()
