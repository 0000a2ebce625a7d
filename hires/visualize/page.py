"""One self-contained HTML file, legible in light and dark and on a phone."""

from collections.abc import Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --text: #1c2026; --back: #ffffff; --faint: #626a75; --rule: #d9dde3;
  --c0: #2f6fd0; --c1: #c8641b; --c2: #2b8a57; --c3: #9a4bb0; --c4: #a8820f; --c5: #c23b50; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7eb; --back: #15181c; --faint: #9aa3ae; --rule: #343a42;
  --c0: #6ea4f4; --c1: #f0955a; --c2: #62c08d; --c3: #c98ade; --c4: #d9b44a; --c5: #ee7d8e; } }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; background: var(--back); color: var(--text);
  font: 16px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p, dd { color: var(--faint); } code { font-size: 0.9em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.35rem 0.8rem 0.35rem 0; border-bottom: 1px solid var(--rule); text-align: right;
  white-space: nowrap; vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
small { display: block; max-width: 16rem; margin-left: auto; color: var(--faint); white-space: normal; }
td:first-child small { margin-left: 0; }
svg { display: block; width: 100%; max-width: 34rem; }
svg text { fill: var(--text); font: 12px system-ui, sans-serif; } svg .label { font-weight: 600; }
svg .grid { stroke: var(--rule); } svg .line { fill: none; stroke-linejoin: round; }
.key { display: inline-block; margin-right: 1.2em; }
.key i { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em; border-radius: 2px; }
"""
_COLOURS = "\n".join(
    f".c{i} {{ fill: var(--c{i}); }} .line.c{i} {{ stroke: var(--c{i}); fill: none; }} "
    f"i.c{i} {{ background: var(--c{i}); }}"
    for i in range(6)
)


def document(title: str, parts: Sequence[str]) -> str:
    """A page of parts that are HTML already; the title is text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}{_COLOURS}\n</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts; what follows a line break in a cell is smaller."""
    lines = [f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows]
    return '<div class="wide"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _cell(text: str) -> str:
    first, *more = text.split("\n")
    return escape(first) + "".join(f"<small>{escape(line)}</small>" for line in more)


def legend(names: Sequence[str]) -> str:
    """Names with their colours."""
    keys = (f'<span class="key"><i class="c{i % 6}"></i>{escape(name)}</span>' for i, name in enumerate(names))
    return f"<p>{' '.join(keys)}</p>"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"
