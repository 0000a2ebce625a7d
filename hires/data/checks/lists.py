"""What is wrong with the lists and globs that divide a data set."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hires.data.checks.finding import Finding, Place, Severity, findings_of
from hires.data.glob_keys import glob_regex
from hires.data.pairs import Pair, is_image_name
from hires.data.split_lists import Lookup, entries_of
from hires.interfaces import DataError


def list_findings(root: Path, pairs: Sequence[Pair], splits: Mapping[str, Any], *, skips: bool) -> list[Finding]:
    """Entries without image, entries that name files which are not there, repeated ones, globs without match.

    `skips`: whether training passes over what matches no image.
    """
    findings: list[Finding] = []
    seen: set[str] = set()
    for split, rule in splits.items():
        texts = [rule] if isinstance(rule, str) else list(rule) if isinstance(rule, (list, tuple)) else []
        for text in (text for text in texts if text not in seen):
            seen.add(text)
            if text.endswith(".txt"):
                findings += _of_list(root, pairs, text, split, "warning" if skips else "error")
            elif not any(glob_regex(text).fullmatch(pair.image) for pair in pairs):
                where = Place(text, f"data.splits.{split}")
                advice = f"globs are of paths below {root.name}, such as {pairs[0].image}"
                severity: Severity = "warning" if skips else "error"
                findings += findings_of("glob-without-image", severity, "a glob matches no image", advice, [where])
    return findings


def _of_list(root: Path, pairs: Sequence[Pair], name: str, split: str, missing: Severity) -> list[Finding]:
    try:
        entries = entries_of(root / name, split)
    except DataError as error:
        text = str(error).removeprefix(f"{root}/")
        return [Finding("list-unreadable", "error", text, "correct data.splits", 1, (Place(name),))]
    if not entries:
        advice = f"write one image a line, or change data.splits.{split}"
        return findings_of("list-empty", "error", "a list names no image", advice, [Place(name)])
    images = Lookup(root, pairs)
    keys = {entry: images.key(entry) for entry in entries}
    by_key = {pair.key: pair.image for pair in pairs}
    absent = [Place(name, entry) for entry, key in keys.items() if key is None]
    other = [
        Place(name, f"{entry.split()[0]}: taken for {by_key[key]}")
        for entry, key in keys.items()
        if key is not None and is_image_name(entry.split()[0]) and not _is_there(root, entry)
    ]
    twice = [Place(name, f"{entry}: {count} times") for entry, count in Counter(entries).items() if count > 1]
    return [
        *findings_of(
            "list-without-image",
            missing,
            f"{{n}} of {len(entries)} entries of {name} match no image, or several",
            "remove them or add the images; data.missing_entries=skip passes over them",
            absent,
        ),
        *findings_of(
            "list-other-name",
            "info",
            f"{{n}} of {len(entries)} entries of {name} name files that do not exist; they are found otherwise",
            "other programs would not find them: write paths relative to the data set's root",
            other,
        ),
        *findings_of(
            "list-repeats",
            "warning",
            f"{{n}} image(s) stand in {name} more than once",
            "remove the repetitions: they do not count twice",
            twice,
        ),
    ]


def _is_there(root: Path, entry: str) -> bool:
    return (root / entry).is_file() or (root / entry.split()[0]).is_file()
