"""Numbers as people read them, always with their unit; what is absent is a dash."""

ABSENT = "–"


def size(count: int | None) -> str:
    """Bytes in MiB or GiB."""
    if count is None:
        return ABSENT
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def seconds(value: float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.3g} ms"


def number(value: float | None, form: str = ".4g") -> str:
    return ABSENT if value is None else format(value, form)


def short(text: str, length: int = 44) -> str:
    """At most so many characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
