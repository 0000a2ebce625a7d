"""One self-contained HTML file, legible in light and dark and on a phone."""

from collections.abc import Sequence
from html import escape

from hires.visualize.svg import COLOURS

# The first six colours are for charts of a few things; all eleven are told apart by lightness as well as by hue.
_STYLE = """
:root { color-scheme: light dark; --text: #1c2026; --back: #ffffff; --faint: #626a75; --rule: #d9dde3;
  --c0: #2f6fd0; --c1: #c8641b; --c2: #2b8a57; --c3: #9a4bb0; --c4: #a8820f; --c5: #c23b50;
  --c6: #12a5b8; --c7: #39435c; --c8: #8fae1b; --c9: #5b46c9; --c10: #e48fbe; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7eb; --back: #15181c; --faint: #9aa3ae; --rule: #343a42;
  --c0: #6ea4f4; --c1: #f0955a; --c2: #62c08d; --c3: #c98ade; --c4: #d9b44a; --c5: #ee7d8e;
  --c6: #35c9d6; --c7: #c9d2e0; --c8: #b9d84c; --c9: #8672ff; --c10: #f7b6da; } }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; background: var(--back); color: var(--text);
  font: 16px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p, dd { color: var(--faint); } code { font-size: 0.9em; } .verdict { font-size: 1.2rem; color: var(--text); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.35rem 0.8rem 0.35rem 0; border-bottom: 1px solid var(--rule); text-align: right;
  white-space: nowrap; vertical-align: top; }
th { white-space: normal; overflow-wrap: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; } th:last-child, td:last-child { padding-right: 0; }
.named td:first-child, .named th:first-child { position: sticky; left: 0; max-width: min(14rem, 36vw);
  background: var(--back); white-space: normal; overflow-wrap: break-word; }
small { display: block; max-width: 16rem; margin-left: auto; color: var(--faint); white-space: normal; }
td:first-child small { margin-left: 0; }
svg { display: block; width: 100%; max-width: 34rem; }
svg text { fill: var(--text); font: 12px system-ui, sans-serif; } svg .label { font-weight: 600; }
svg .grid { stroke: var(--rule); }
svg .over { stroke: var(--back); stroke-opacity: 0.4; } svg .line { fill: none; stroke-linejoin: round; }
svg .faint { fill: var(--faint); } svg .area { shape-rendering: crispEdges; } svg .hover { fill: transparent; }
svg .mark { stroke: var(--text); stroke-dasharray: 3 3; } svg .dot { fill: var(--text); stroke: var(--back); }
.key { display: inline-block; margin-right: 1.2em; }
.key i { box-shadow: 0 0 0 1px var(--rule); }
.key i, td i { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em; border-radius: 2px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: 1rem 1.5rem; }
.tiles dt { color: var(--faint); } .tiles dd { margin: 0; } .tiles dd:nth-of-type(1) { color: var(--text);
  font-size: 1.4rem; line-height: 1.25; }
.bars { display: grid; grid-template-columns: fit-content(48%) 1fr max-content; gap: 0.15rem 0.7rem;
  align-items: center; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
.bars .value { text-align: right; white-space: nowrap; }
.bars .bar { display: flex; height: 0.9rem; } .weak { opacity: 0.35; }
details { border-bottom: 1px solid var(--rule); padding: 0.5rem 0; } summary { cursor: pointer; }
summary i { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em; border-radius: 2px; }
details table { font-size: 0.9rem; }
details td:last-child, details th:last-child { text-align: left; white-space: normal; min-width: 12rem; }
.keys td { white-space: normal; min-width: 6rem; }
.told td:last-child, .told th:last-child { text-align: left; }
.told td:last-child:not(:has(small)) { white-space: normal; min-width: min(14rem, 50vw); }
.told td:last-child small { margin-left: 0; }
.broad { display: none; } .broad svg { max-width: none; }
.named td:has(i) { min-width: 5rem; }
:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px; }
nav a { display: inline-block; margin-right: 1.2em; padding: 0.2rem 0; } a { color: var(--c0); }
.strip { display: flex; gap: 0.6rem; overflow-x: auto; padding-bottom: 0.4rem; }
.strip figure { margin: 0; flex: none; } .strip img { display: block; width: min(19rem, 42vw); height: auto; }
figcaption { color: var(--faint); font-size: 0.85rem; } h3 { font-size: 1rem; margin: 1.4rem 0 0.4rem; }
.matrix th, .matrix td { text-align: right; padding: 0.3rem 0.5rem; } .matrix thead th { vertical-align: bottom; }
.matrix td { background: color-mix(in srgb, var(--c0) calc(55% * var(--share)), transparent); }
@media (max-width: 46rem) { th, td { padding-right: 0.6rem; } .told td:last-child small { display: inline; }
  .told td:last-child small::before { content: " "; } }
@media (min-width: 46rem) { .broad { display: block; } .narrow { display: none; }
  details .named td:first-child { max-width: 28rem; } }
"""
_COLOURS = "\n".join(
    f".c{i} {{ fill: var(--c{i}); }} .line.c{i} {{ stroke: var(--c{i}); fill: none; }} "
    f"i.c{i} {{ background: var(--c{i}); }}"
    for i in range(COLOURS)
)


def document(title: str, parts: Sequence[str]) -> str:
    """A page of parts that are HTML already; the title is text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}{_COLOURS}\n</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def html_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    colours: Sequence[int] = (),
    *,
    named: bool = False,
    keys: bool = False,
    told: bool = False,
) -> str:
    """A table of texts; what follows a line break in a cell is smaller.

    Colours go before the first cells of as many rows. The first cells of a `named` table stay where they are while
    the others scroll; where they are `keys`, lines in them and in what is smaller end behind dots and underscores.
    The last cells are words where they are `told`; what is smaller in them stays in one line on a phone.
    """
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    lines = [f"<tr>{heads}</tr>"]
    for index, row in enumerate(rows):
        key = f'<i class="c{colours[index] % COLOURS}"></i>' if index < len(colours) else ""
        texts = [cell(text) for text in row]
        if keys:
            texts = [_breaking(text) if not at or "<small>" in text else text for at, text in enumerate(texts)]
        cells = "".join(f"<td>{text}</td>" for text in texts)
        lines.append(f"<tr>{cells.replace('<td>', f'<td>{key}', 1)}</tr>")
    kind = " ".join(["wide", *["named"] * named, *["keys"] * keys, *["told"] * told])
    return scrolling("<table>\n" + "\n".join(lines) + "\n</table>", kind, head[0] if head and head[0] else "table")


def _breaking(text: str) -> str:
    return text.replace(".", ".<wbr>").replace("_", "_<wbr>")


def scrolling(content: str, kind: str, name: str) -> str:
    """HTML in a box of its own that scrolls where it is too wide, by keyboard too; `name` tells what it is."""
    return f'<div class="{kind}" role="region" aria-label="{escape(name)}" tabindex="0">{content}</div>'


def cell(text: str) -> str:
    first, *more = text.split("\n")
    return escape(first) + "".join(f"<small>{escape(line)}</small>" for line in more)


def legend(names: Sequence[str], colours: Sequence[int | str] = ()) -> str:
    """Names with their colours: of the page by number, those of their places unless given, or "#RRGGBB"."""
    keys = (
        f'<span class="key">{_swatch(colour)}{escape(name)}</span>'
        for name, colour in zip(names, colours or range(len(names)), strict=True)
    )
    return f"<p>{' '.join(keys)}</p>"


def _swatch(colour: int | str) -> str:
    if isinstance(colour, int):
        return f'<i class="c{colour % COLOURS}"></i>'
    return f'<i style="background:#{int(colour.removeprefix("#"), 16):06x}"></i>'


def tiles(facts: Sequence[tuple[str, str, str]]) -> str:
    """The few facts to see first: what, the value, a remark."""
    shown = (f"<div><dt>{escape(a)}</dt><dd>{escape(b)}</dd><dd>{escape(c)}</dd></div>" for a, b, c in facts)
    return f'<dl class="tiles">{"".join(shown)}</dl>'


def bar_rows(rows: Sequence[tuple[str, float, float, str]], colour: int) -> str:
    """A line for each name: a bar of its first value, a weaker one of its second behind it, and a text.

    Not SVG, so that letters keep their size at any width and long names go on in a second line.
    """
    largest = max((strong + weak for _, strong, weak, _ in rows), default=0) or 1
    lines = []
    for name, strong, weak, text in rows:
        parts = ((strong, f"c{colour}"), (weak, f"c{colour} weak"))
        bar = "".join(
            f'<i class="{kind}" style="width:{100 * value / largest:.2f}%"></i>' for value, kind in parts
        )
        shown = escape(name)
        lines.append(
            f'<span title="{shown}">{shown}</span><span class="bar">{bar}</span>'
            f'<span class="value">{escape(text)}</span>'
        )
    return '<div class="bars">\n' + "\n".join(lines) + "\n</div>"


def by_width(narrow: str, broad: str) -> str:
    """Of two versions the one that suits the screen."""
    return f'<div class="narrow">{narrow}</div>\n<div class="broad">{broad}</div>'


def named_values(rows: Sequence[tuple[str, str]]) -> str:
    """Code, each with a remark below it."""
    shown = (f"<dt><code>{escape(code)}</code></dt>\n<dd>{escape(remark)}</dd>" for code, remark in rows)
    return "<dl>\n" + "\n".join(shown) + "\n</dl>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of text; a `kind` is a class of the style."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def details(text: str, colour: int, parts: Sequence[str], *, is_open: bool) -> str:
    """A line of text that opens to show parts which are HTML already."""
    shown = f'<summary><i class="c{colour % COLOURS}"></i>{escape(text)}</summary>'
    return f"<details{' open' * is_open}>\n" + "\n".join([shown, *parts]) + "\n</details>"


def heading(text: str, name: str = "") -> str:
    """A heading; links of the page reach it by a `name`."""
    return f'<h2 id="{escape(name)}">{escape(text)}</h2>' if name else f"<h2>{escape(text)}</h2>"
