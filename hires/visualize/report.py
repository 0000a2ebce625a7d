"""The page of a run: how it went, what it finds and misses, what it took."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from hires.visualize.curves import Points, curves
from hires.visualize.page import (
    bar_rows,
    document,
    heading,
    html_table,
    legend,
    named_values,
    paragraph,
    scrolling,
    tiles,
)
from hires.visualize.report_scores import confusion_part, precision_part, scores_part
from hires.visualize.text import ABSENT, number, seconds, size

TIMES = {
    "waiting": "waiting for data",
    "forward": "forward",
    "backward": "backward",
    "exchange": "exchange between processes",
    "optimizer": "optimizer",
    "steps": "steps",
    "evaluation": "evaluation",
    "saving": "saving",
    "other": "other",
}
_NOT_SHARES = ("confidence", "empty_images", "false_positives_per_empty_image")  # metrics that are none of 0 to 1
_SECTIONS = {
    "curves": "Curves",
    "scores": "Scores",
    "images": "Images",
    "memory": "Memory",
    "time": "Time",
    "advice": "Faster or bigger",
    "settings": "Settings",
    "environment": "Environment",
}


def page(content: Mapping[str, Any]) -> str:
    """A self-contained HTML page of what `hires.report` has put together."""
    parts = {
        "curves": _curves(content["records"]),
        "scores": _scores(content["evaluated"]),
        "images": _images(content["evaluated"]),
        "memory": _memory(content["peaks"], content["plan"]),
        "time": _time(content["time"]),
        "advice": _advice(content["advice"]),
        "settings": _settings(content["choices"], content["settings"]),
        "environment": _environment(content["environment"]),
    }
    links = (f'<a href="#{name}">{_SECTIONS[name]}</a>' for name in parts)
    shown = [[heading(_SECTIONS[name], name), *lines] for name, lines in parts.items()]
    return document(
        f"Report of {content['run']}",
        [
            paragraph(content["verdict"], "verdict"),
            tiles(_facts(content)),
            f'<nav aria-label="Sections">{" ".join(links)}</nav>',
            *(line for lines in shown for line in lines),
        ],
    )


def _facts(content: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What to see first."""
    result, peaks, plan = content["result"], content["peaks"], content["plan"] or {}
    facts, best = [], result.get("best") or {}
    if best.get("value") is not None:
        facts.append(
            (f"Best {best['metric']}", number(best["value"]), f"at step {best['step']} of {result['steps']}")
        )
    if result.get("seconds_per_step"):
        speed = number(result["images_per_second"], ".3g")
        facts.append(("A step", seconds(result["seconds_per_step"]), f"{speed} images a second, without waiting"))
    kind = next((kind for kind in ("reserved", "allocated") if peaks.get(kind)), None)
    if kind:
        budget = plan.get("budget")
        facts.append(("Peak memory", size(peaks[kind]), kind + (f"; budget {size(budget)}" if budget else "")))
    return facts


def _curves(records: Sequence[Mapping[str, Any]]) -> list[str]:
    trained = [record for record in records if record["kind"] == "train"]
    evaluated = [record for record in records if record["kind"] == "evaluate"]
    if not trained and not evaluated:
        return [paragraph("Nothing has been logged.")]
    losses = loss_series(trained)
    metrics = metric_series(evaluated)
    parts = []
    if trained:
        parts += ["<h3>Loss</h3>", curves(losses, "step"), legend(list(losses))]
        parts += ["<h3>Learning rate</h3>", curves({"lr": points(trained, "lr")}, "step", [5])]
    if metrics:
        parts += ["<h3>Metrics on the validation images</h3>", curves(metrics, "step"), legend(list(metrics))]
    return parts


def points(records: Sequence[Mapping[str, Any]], name: str) -> Points:
    """(step, value) of the records that have a name."""
    return [(record["step"], record[name]) for record in records if name in record]


def loss_series(trained: Sequence[Mapping[str, Any]]) -> dict[str, Points]:
    """The loss, and its parts where it has several."""
    names = dict.fromkeys(name for record in trained for name in record if name.startswith("loss/"))
    return {name: points(trained, name) for name in ["loss", *(names if len(names) > 1 else [])]}


def metric_series(evaluated: Sequence[Mapping[str, Any]]) -> dict[str, Points]:
    """The metrics of all classes together."""
    names = dict.fromkeys(name for record in evaluated for name in record)
    shown = [n for n in names if "/" not in n and n not in ("kind", "step", "time", *_NOT_SHARES)]
    series = {name: points(evaluated, name) for name in shown}
    return {name: values for name, values in series.items() if any(value is not None for _, value in values)}


def _scores(evaluated: Mapping[str, Any] | None) -> list[str]:
    if evaluated is None:
        return [paragraph("Nothing was evaluated.")]
    parts = [paragraph(evaluated["note"]), *scores_part(evaluated["metrics"])]
    if evaluated["confusion"]:
        parts += confusion_part(evaluated["classes"], evaluated["confusion"])
    if evaluated["curves"] is not None:
        parts += precision_part(evaluated["curves"])
    return parts


def _images(evaluated: Mapping[str, Any] | None) -> list[str]:
    if not evaluated or not evaluated["images"]:
        return [paragraph("No images were kept; hires evaluate run=RUN makes them.")]
    scores = evaluated["scores"]
    parts = [
        paragraph(
            f"The score of an image is the {evaluated['score']}; of {scores['images']} images the lowest is "
            f"{number(scores['lowest'], '.3f')}, the median {number(scores['median'], '.3f')}, the highest "
            f"{number(scores['highest'], '.3f')}. Of each, the place with most mistakes is shown."
        ),
        _key(evaluated),
    ]
    for rank, images in groupby(evaluated["images"], key=lambda image: image["rank"]):
        parts.append(f"<h3>{escape(rank.capitalize())}</h3>")
        parts += [_image(image) for image in images]
    return parts


def _key(evaluated: Mapping[str, Any]) -> str:
    if evaluated["boxes"]:
        least = evaluated["confidence"]
        shown = f"Detections of a confidence of at least {least:.2f}." if least is not None else "All detections."
        return legend(["right", "missed (truth) or false (prediction)"], [0, 1]) + paragraph(shown)
    classes = evaluated["classes"]
    colours: Sequence[int | str] = evaluated.get("colours") or range(len(classes))
    names = {name: c for name, c in zip(classes, colours, strict=True) if name != evaluated["unpainted"]}
    plain = f"Not painted: {evaluated['unpainted']}. " if evaluated["unpainted"] else ""
    return legend(list(names), list(names.values())) + paragraph(f"{plain}Gray: not counted.")


def _image(image: Mapping[str, Any]) -> str:
    y, x, height, width = image["window"]
    figures = "".join(
        f'<figure><img src="{escape(uri)}" alt="{escape(name)} of {escape(image["name"])}">'
        f"<figcaption>{escape(name)}</figcaption></figure>"
        for name, uri in image["pictures"].items()
        if str(uri).startswith("data:image/")  # nothing that a page would fetch
    )
    where = f"score {image['score']:.3f}; {width} x {height} pixels from x {x}, y {y}"
    return scrolling(figures, "strip", image["name"]) + paragraph(f"{image['name']}: {where}")


def _memory(peaks: Mapping[str, Any], plan: Mapping[str, Any] | None) -> list[str]:
    rows = peak_rows(peaks, (plan or {}).get("budget"))
    if rows:
        parts = [
            bar_rows([(name, count, 0.0, size(count)) for name, count in rows], 0),
            paragraph("Peaks. Allocated: live tensors. Reserved: what the process took for them."),
        ]
    else:
        parts = [paragraph("No peak was predicted or measured.")]
    return parts + (_plan(plan) if plan else [])


def peak_rows(peaks: Mapping[str, Any], budget: int | None) -> list[tuple[str, int]]:
    """What is known of allocated and reserved bytes, and the budget."""
    predicted = peaks.get("predicted") or {}
    rows = [
        row
        for kind in ("allocated", "reserved")
        for row in ((f"{kind}, predicted", predicted.get(kind)), (f"{kind}, measured", peaks.get(kind)))
    ]
    return [(name, count) for name, count in [*rows, ("budget", budget)] if count]


def _plan(plan: Mapping[str, Any]) -> list[str]:
    height, width = plan["image_size"]
    text = (
        f"A step: {plan['accumulation_steps']} x {plan['micro_batch_size']} images of {height} x {width} "
        f"(height x width), {plan['precision']}. Plans to fall back to when memory runs out: "
        f"{len(plan.get('rungs') or ())}."
    )
    parts = [paragraph(text), *(paragraph(reason) for reason in plan.get("reasons") or ())]
    policies = plan.get("policies") or {}
    kinds = set(policies.values()) or {"none"}
    if len(kinds) == 1:
        return [*parts, paragraph(f"Policy of all units: {kinds.pop()}.")]
    return [*parts, html_table(["units", "policy"], [[units, policy] for units, policy in grouped(policies)])]


def grouped(policies: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Units of a stage that follow one another with one policy as a range: stage3.0-5."""
    for (stage, policy), units in groupby(
        policies.items(), key=lambda item: (item[0].rpartition(".")[0], item[1])
    ):
        names = [name.rpartition(".")[2] for name, _ in units]
        first, last = names[0], names[-1]
        if not stage:
            yield from ((name, policy) for name in names)
        else:
            yield f"{stage}.{first}" + (f"-{last}" if len(names) > 1 else ""), policy


def _time(time: Mapping[str, Any] | None) -> list[str]:
    total = sum((time or {}).get("seconds", {}).values())
    spent = {name: value for name, value in (time or {}).get("seconds", {}).items() if value > 0.0005 * total}
    if not time or not total:
        return [paragraph("Not measured.")]
    rows = [
        (TIMES.get(name, name), spent[name], 0.0, f"{duration(spent[name])}, {100 * spent[name] / total:.1f} %")
        for name in sorted(spent, key=lambda name: list(TIMES).index(name) if name in TIMES else 99)
    ]
    sampled = (
        f"How much of the steps is forward, backward and optimizer was timed in {time['steps_sampled']} of "
        f"{time['steps']} steps. "
        if time["steps_sampled"]
        else ""
    )
    words = (
        "Forward includes bringing images to the device; optimizer includes clipping and averaged weights."
        if "forward" in spent
        else ""
    )
    return [
        bar_rows(rows, 0),
        paragraph(
            f"{duration(total)} in all, {time.get('of', 'of the process that ended the training')}. "
            f"{sampled}{words}"
        ),
    ]


def duration(value: float) -> str:
    """Seconds, of more than two minutes as minutes or hours."""
    if value < 120:
        return seconds(value)
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def _advice(rows: Sequence[tuple[str, str]]) -> list[str]:
    if not rows:
        return [paragraph("Nothing stands out in what was measured.")]
    return [named_values(rows), paragraph("What these would gain has not been measured.")]


def _settings(choices: Mapping[str, str], rows: Sequence[Sequence[str]]) -> list[str]:
    groups = " ".join(f"{group}={option}" for group, option in choices.items())
    if not rows:
        return [paragraph(f"{groups}: all settings are the defaults of these.")]
    return [
        paragraph(f"Nearest options: {groups}. What differs from their defaults:"),
        html_table(["key", "value", "default"], rows, named=True, keys=True),
    ]


def _environment(rows: Sequence[tuple[str, str]]) -> list[str]:
    return [
        html_table(
            ["what", "value"], [[name, value or ABSENT] for name, value in rows], named=True, keys=True, told=True
        )
    ]
