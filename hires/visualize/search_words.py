"""What search.json says of a search for a plan, in words; its simulated steps, each once."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from hires.visualize.text import size

_GOALS = {
    "batch": "The goal is the largest micro-batch, at the image size that was given.",
    "resolution": "The goal is the largest image, with micro-batches as small as they may be.",
    "throughput": "The goal is to train on the most pixels in a time, by estimates.",
    "largest": "The goal is the largest image, with the micro-batch that was given.",
    "largest_then_fastest": "The goal is the largest image, and at its size most pixels in a time, by estimates.",
}
_POLICIES_ALONE = "Micro-batch and image size were given; the goal is to compute as little as possible again."


def steps_of(outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was simulated, each once: as in `tried`, with a `number` from 1 on, and whether it was `chosen`."""
    once: list[dict[str, Any]] = []
    for row in outcome["tried"]:
        if not any(same(row, other) for other in once):
            once.append({**row, "number": len(once) + 1, "chosen": False})
    chosen = _chosen(outcome, once)
    return [{**row, "chosen": row is chosen} for row in once]


def same(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """The same step, shape and policies."""
    return all(row[key] == other[key] for key in ("micro_batch_size", "image_size", "policies"))


def _chosen(outcome: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The step of the plan: it looks like that, and the override ends with its policies."""
    plan, peaks = outcome["plan"], outcome["peak_bytes"]["predicted"]
    alike = [
        row
        for row in rows
        if row["micro_batch_size"] == plan["micro_batch_size"]
        and list(row["image_size"]) == list(plan["image_size"])
        and (row["allocated"], row["reserved"]) == (peaks["allocated"], peaks["reserved"])
    ]
    override = outcome["override"].rstrip("'")
    said = [row for row in alike if override.endswith(f"={_written(row['policies'])}")]
    return next(reversed(said or alike), None)


def _written(policies: str | Mapping[str, str]) -> str:
    return policies if isinstance(policies, str) else "{" + policies_text(policies) + "}"


def policies_text(policies: str | Mapping[str, str]) -> str:
    """Policies in short, as they are given."""
    return policies if isinstance(policies, str) else ", ".join(f"{name}: {p}" for name, p in policies.items())


def shortened(policies: Mapping[str, str]) -> str | dict[str, str]:
    """Policies of all units in short: one for all, or by stage and range of units; without those that are none."""
    if len(set(policies.values())) <= 1:
        return next(iter(policies.values()), "none")
    short: dict[str, str] = {}
    for stage, names in groupby(policies, lambda name: name.split(".")[0]):
        units = list(names)
        for policy, alike in groupby(units, policies.__getitem__):
            row = list(alike)
            if policy != "none":
                last = "" if len(row) == 1 else f"-{row[-1].split('.')[-1]}"
                short[stage if row == units else row[0] + last] = policy
    return short


def plural(count: int, what: str, ending: str = "s") -> str:
    return f"{count} {what}{ending if count != 1 else ''}"


def images(row: Mapping[str, Any]) -> str:
    """The images of a micro-batch: "2 images of 512 x 384"."""
    height, width = row["image_size"]
    return f"{plural(row['micro_batch_size'], 'image')} of {height} x {width}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def answer(outcome: Mapping[str, Any]) -> str:
    plan = outcome["plan"]
    taken = outcome["peak_bytes"]["reserved"] or outcome["peak_bytes"]["predicted"]["reserved"]
    fits = "fit into" if plan["micro_batch_size"] > 1 else "fits into"
    if taken > outcome["budget"]:
        fits = "do not fit into" if plan["micro_batch_size"] > 1 else "does not fit into"
    return f"{images(plan)} pixels in a micro-batch, {plan['precision']}, {fits} {size(outcome['budget'])}."


def setting(outcome: Mapping[str, Any]) -> str:
    """How a step of the plan is carried out."""
    plan = outcome["plan"]
    steps = plural(plan["accumulation_steps"], "micro-batch", "es")
    chosen = next((row["policies"] for row in steps_of(outcome) if row["chosen"]), None)
    policies = policies_text(chosen if chosen is not None else shortened(plan["policies"]))
    rest = "; none for the rest" if ":" in policies else " for all units"
    return (
        f"A step: {steps} of {images(plan)} pixels (height x width) on {outcome['device']}. "
        f"Policies: {policies}{rest}."
    )


def why(outcome: Mapping[str, Any]) -> list[str]:
    """Why this plan, in sentences: those it comes with, or what the search shows."""
    given = outcome["plan"].get("reasons")
    if given:
        return list(given)
    steps, goal = steps_of(outcome), outcome["goal"]
    found = (_larger(outcome, steps) if goal else None, _again(outcome, steps))
    return [_GOALS.get(goal, f"The goal is {goal}.") if goal else _POLICIES_ALONE, *filter(None, found)]


def _larger(outcome: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> str | None:
    """What is wrong with the next larger step that was tried; None: nothing that is known."""
    larger = [row for row in steps if _pixels(row) > _pixels(outcome["plan"])]
    if not larger:
        whole = outcome["goal"] not in ("resolution", "largest") and outcome["plan"]["accumulation_steps"] == 1
        return "No larger step was tried" + (": the micro-batch is the whole batch." if whole else ".")
    least = min(larger, key=lambda row: (_pixels(row), row["reserved"]))
    name = f"The next larger step that was tried, {images(least)},"
    failed = next((p for p in outcome["probes"] if _pixels(p) == _pixels(least) and not p["fits"]), None)
    needs, budget, margin = least["reserved"], outcome["budget"], outcome["plan"].get("margin") or 0
    if failed:
        return f"{name} did not fit when it was run."
    if needs > budget:
        return f"{name} reserves {size(needs)} or more, {size(needs - budget)} above the budget (predicted)."
    if needs > budget - margin:
        return (
            f"{name} reserves {size(needs)} or more (predicted) and would leave {size(budget - needs)}; "
            f"{size(margin)} have to stay free, as a prediction may be too low."
        )
    return None


def _again(outcome: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> str | None:
    """What the plan computes again, and what it would take to compute nothing again."""
    chosen = next((row for row in steps if row["chosen"]), None)
    if chosen is None:
        return None
    if chosen["cost"] == 0:
        return "It computes nothing again."
    text = f"It computes {percent(chosen['cost'])} of the step again (estimated)"
    none = next((row for row in steps if row["policies"] == "none" and _pixels(row) == _pixels(chosen)), None)
    if none is None or none["reserved"] <= outcome["budget"]:
        return f"{text}."
    over = size(none["reserved"] - outcome["budget"])
    return f"{text}; without that it would reserve {size(none['reserved'])}, {over} above the budget (predicted)."


def _pixels(row: Mapping[str, Any]) -> int:
    height, width = row["image_size"]
    return int(row["micro_batch_size"] * height * width)


def best_of_each(steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One step of every shape, which grow: the chosen one, the cheapest that fits, or that which needs least."""
    by_shape: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for row in steps:
        by_shape.setdefault((_pixels(row), row["micro_batch_size"], *row["image_size"]), []).append(row)

    def rank(row: dict[str, Any]) -> tuple[bool, bool, float]:
        return not row["chosen"], not row["fits"], row["cost"] if row["fits"] else row["reserved"]

    return [min(rows, key=rank) for _, rows in sorted(by_shape.items(), key=lambda entry: entry[0])]


def found_by(outcome: Mapping[str, Any]) -> str:
    count, runs = len(outcome["tried"]), len(outcome["probes"])
    tried = f"{plural(count, 'step')} simulated in {outcome['seconds']:.1f} s"
    return f"{tried}; {plural(runs, 'plan')} run to see what it takes." if runs else f"{tried}; nothing was run."


def remarks(outcome: Mapping[str, Any]) -> Iterator[str]:
    """Of evaluation, where it is known, and of the search as a whole."""
    plan = outcome["plan"]
    evaluation = outcome.get("evaluation") or plan.get("evaluation")
    if evaluation:
        count, window = evaluation.get("batch_size") or plan.get("evaluation_batch_size"), evaluation.get("window")
        sides = " x ".join(map(str, window)) if isinstance(window, list | tuple) else window
        views = f", {plural(count, 'window')}{f' of {sides} pixels' if sides else ''} at once," if count else ""
        yield f"Evaluation{views} reserves {size(evaluation.get('reserved'))} (predicted)."
    yield from outcome.get("notes") or []
