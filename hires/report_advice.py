"""What would make a run faster or let it go bigger, by rules from what was measured of it."""

from collections.abc import Iterator, Mapping
from typing import Any

_WAITS, _EVALUATES, _SAVES = 0.2, 0.3, 0.05  # shares of the time above which something is to be said
_ROOMY, _TIGHT = 0.7, 0.95  # shares of the budget that are reserved


def advice(
    settings: Mapping[str, Any],
    seconds: Mapping[str, float],
    peaks: Mapping[str, Any],
    plan: Mapping[str, Any],
    device: str,
    evaluations: int = 2,
) -> list[tuple[str, str]]:
    """(overrides or a command, why), most to gain first; what they would gain has not been measured.

    `settings`: dotted keys of the configuration. `seconds`: by what they went for. `peaks` and `plan` are those of
    result.json. `evaluations`: how many there were.
    """
    timed = _time(settings, seconds, evaluations)
    return [*timed, *_memory(settings, peaks, plan), *_precision(settings, device)]


def _time(
    settings: Mapping[str, Any], seconds: Mapping[str, float], evaluations: int
) -> Iterator[tuple[str, str]]:
    total = sum(seconds.values())
    if not total:
        return
    share = {name: value / total for name, value in seconds.items()}
    if share.get("waiting", 0) > _WAITS:
        workers = settings.get("data.workers") or 0
        yield (
            f"data.workers={max(2, 2 * workers)}",
            f"{share['waiting']:.0%} of the time went into waiting for data, with {workers} worker processes. "
            "More of them help where there are free CPU cores; data.cache_gib keeps decoded images where "
            "decoding is slow.",
        )
    if share.get("evaluation", 0) > _EVALUATES:
        every = settings.get("evaluation.every") if evaluations > 1 else None  # one has to be
        rarer = f" Rarer ones than evaluation.every={every} cost less." if every else ""
        yield (
            f"evaluation.every={_twice(every)}"
            if every
            else f"evaluation.batch_size={max(4, 2 * (settings.get('evaluation.batch_size') or 1))}",
            f"{share['evaluation']:.0%} of the time went into evaluation.{rarer} evaluation.batch_size shows the "
            "network several windows at a time, and a smaller evaluation.overlap fewer of them.",
        )
    kept = ("trainer.checkpoint_every", "trainer.checkpoint_minutes")
    given = [(key, settings[key]) for key in kept if settings.get(key)]
    if share.get("saving", 0) > _SAVES and given:
        yield (
            " ".join(f"{key}={_twice(value)}" for key, value in given),
            f"{share['saving']:.0%} of the time went into saving "
            f"({', '.join(f'{key} is {value}' for key, value in given)}); evaluations also save. "
            "Rarer checkpoints lose more steps to what gives no notice.",
        )


def _twice(value: Any) -> Any:
    """Of a number, or a number of epochs (3ep); another text stays."""
    if isinstance(value, str):
        count = value.removesuffix("ep")
        return f"{2 * int(count)}ep" if count.isdigit() else value
    return 2 * value


def _memory(
    settings: Mapping[str, Any], peaks: Mapping[str, Any], plan: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    budget, reserved = plan.get("budget"), peaks.get("reserved")
    policies = plan.get("policies") or {}
    recomputes = any(policy not in ("none", "offload") for policy in policies.values())
    if not budget or not reserved or settings.get("trainer.strategy") == "fsdp2":  # which no search can plan for
        return
    used = f"{reserved / budget:.0%} of the budget was reserved"
    if reserved < _ROOMY * budget:
        if recomputes:
            yield (
                "memory.activation_checkpointing=auto",
                f"{used}, while units compute parts of the step again. A search chooses the cheapest "
                "policies that fit.",
            )
        if plan.get("accumulation_steps", 1) > 1:
            yield (
                "micro_batch_size=auto",
                f"{used}, while a batch is done in {plan['accumulation_steps']} micro-batches. A search finds "
                "the largest that fits.",
            )
        yield (
            "hires autobatch ... memory.maximize=resolution",
            f"{used}: there is room for larger images. The search says how much; memory.maximize=batch asks for "
            "the batch instead.",
        )
    elif reserved > _TIGHT * budget and not recomputes:
        yield (
            "memory.activation_checkpointing=auto",
            f"{used}, with all activations kept. Recomputing some makes room for larger images or micro-batches, "
            "and takes time.",
        )


def _precision(settings: Mapping[str, Any], device: str) -> Iterator[tuple[str, str]]:
    if device == "cuda" and settings.get("trainer.precision") == "32-true":
        yield (
            "trainer.precision=bf16-mixed",
            "The run computed in float32 on a GPU. Mixed precision keeps smaller activations; `hires compare` "
            "measures what it changes here.",
        )
