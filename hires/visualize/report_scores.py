"""The scores of a report: a row for each class, which classes are taken for which, precision over recall."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TypeVar

from hires.visualize.curves import curves
from hires.visualize.page import heading, html_table, legend, paragraph, scrolling
from hires.visualize.text import ABSENT, number, short

V = TypeVar("V")
_MOST_CLASSES, _MOST_CURVES, _CONFUSIONS = 24, 8, 6


def by_class(metrics: Mapping[str, V]) -> tuple[dict[str, V], dict[str, dict[str, V]]]:
    """Metrics named KIND apart from those named KIND/CLASS, the latter as {class: {kind: value}}."""
    scores: dict[str, V] = {}
    rows: dict[str, dict[str, V]] = {}
    for name, value in metrics.items():
        kind, _, label = name.partition("/")
        if label:
            rows.setdefault(label, {})[kind] = value
        else:
            scores[name] = value
    return scores, rows


def scores_part(metrics: Mapping[str, float | None]) -> list[str]:
    """Overall scores, and a table with a row for each class."""
    scores, rows = by_class(metrics)
    parts = [html_table(["metric", "value"], [[name, number(value)] for name, value in scores.items()])]
    if rows:
        kinds = list(dict.fromkeys(kind for row in rows.values() for kind in row))
        table = [[name, *(number(row.get(kind), ".4f") for kind in kinds)] for name, row in rows.items()]
        parts += [heading("Classes", "classes"), html_table(["class", *kinds], table, named=True)]
        parts += [paragraph(f"{ABSENT}: the class is not in these images.")]
    return parts


def confusion_part(classes: Sequence[str], counts: Sequence[Sequence[int]]) -> list[str]:
    """Shares of each class's pixels that are predicted as each class; of many classes, the largest confusions."""
    parts = [heading("What is taken for what", "confusion")]
    if len(classes) <= _MOST_CLASSES:
        parts.append(_matrix(classes, counts))
        parts.append(
            paragraph("Rows: the truth; columns: the prediction; % of the row's pixels. The diagonal is right.")
        )
    worst = _confusions(classes, counts)
    if worst and len(classes) > 2:
        parts += [
            paragraph("Most pixels that are wrong:"),
            html_table(["truth", "taken for", "pixels", "of the truth"], worst),
        ]
    return parts


def _matrix(classes: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    head = "".join(f'<th scope="col">{escape(short(name, 18))}</th>' for name in classes)
    lines = [f'<thead><tr><th scope="col">truth</th>{head}<th scope="col">pixels</th></tr></thead><tbody>']
    for name, row in zip(classes, counts, strict=True):
        total = sum(row)
        shares = [count / total if total else 0.0 for count in row]
        cells = "".join(
            f'<td style="--share:{share:.3f}" title="{count:,} pixels">{_percent(share) if total else ABSENT}</td>'
            for share, count in zip(shares, row, strict=True)
        )
        lines.append(f'<tr><th scope="row">{escape(short(name, 18))}</th>{cells}<td>{total:,}</td></tr>')
    return scrolling("<table>" + "\n".join(lines) + "</tbody></table>", "wide named matrix", "confusion matrix")


def _confusions(classes: Sequence[str], counts: Sequence[Sequence[int]]) -> list[list[str]]:
    pairs = [
        (count, classes[truth], classes[said], count / sum(row))
        for truth, row in enumerate(counts)
        for said, count in enumerate(row)
        if truth != said and count
    ]
    most = sorted(pairs, key=lambda pair: -pair[0])[:_CONFUSIONS]
    return [[truth, said, f"{count:,}", _percent(share)] for count, truth, said, share in most]


def _percent(share: float) -> str:
    if 0 < share < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.0f} %" if share >= 0.0995 or not share else f"{100 * share:.1f} %"


def precision_part(by_name: Mapping[str, Sequence[float | None]]) -> list[str]:
    """Precision over recall at IoU 0.5: the mean of the classes, and those with the least."""
    parts = [heading("Precision and recall", "precision")]
    if not by_name:
        return [*parts, paragraph("No image has an object.")]
    area = {name: math.fsum(v or 0.0 for v in values) for name, values in by_name.items()}
    shown = sorted(area, key=area.__getitem__)[:_MOST_CURVES]
    columns = list(zip(*by_name.values(), strict=True))
    series = {"mean of the classes": [math.fsum(v or 0.0 for v in column) / len(column) for column in columns]}
    if len(by_name) == 1:
        series = {}
    series |= {name: list(by_name[name]) for name in by_name if name in shown}  # type: ignore[arg-type]
    points = {
        name: [(index / (len(values) - 1), value) for index, value in enumerate(values)]
        for name, values in series.items()
    }
    parts += [curves(points, "recall"), legend(list(points))]
    rest = len(by_name) - len(shown)
    more = f" {rest} classes with better curves are left out." if rest else ""
    return [
        *parts,
        paragraph(f"Precision at each recall, for boxes that overlap the truth by half (IoU 0.5).{more}"),
    ]
