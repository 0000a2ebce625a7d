"""Divides a set's images into splits, so that no image is trained on and evaluated."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hires.data.pairs import Pair, glob_regex, some
from hires.interfaces import DataError
from hires.settings import SettingError

ALLOWED = (
    "a glob, a .txt list, a list of those, a fraction between 0 and 1, or null (no such split; of train: the rest)"
)


def check_splits(splits: Mapping[str, Any]) -> None:
    """Raises SettingError for a rule that `split_pairs` would not understand."""
    for name, rule in splits.items():
        many = isinstance(rule, (list, tuple)) and len(rule) > 0
        texts = rule if many else [rule]
        is_text = all(isinstance(text, str) and text for text in texts)
        if not (is_text or _is_fraction(rule) or rule is None):
            raise SettingError(f"splits.{name}", rule, ALLOWED)
    fractions = {name: rule for name, rule in splits.items() if _is_fraction(rule)}
    if sum(fractions.values()) > 1 + 1e-9:
        raise SettingError("splits", fractions, "fractions that add up to at most 1")


def split_pairs(root: Path, pairs: Sequence[Pair], splits: Mapping[str, Any], seed: int) -> dict[str, list[Pair]]:
    """Pairs by split, in their order. Raises DataError when an image falls into two splits.

    A fraction takes the images whose hashed key falls into its share of [0, 1): which ones does not depend
    on the other files, so images that are added later move none. Only where that gives none, it takes the
    image with the lowest hash. `train` takes the rest if not given.
    """
    chosen = {
        name: _listed(root, pairs, rule, name)
        for name, rule in splits.items()
        if rule is not None and not _is_fraction(rule)
    }
    taken = set().union(*chosen.values())
    low = 0.0
    for name, share in splits.items():
        if _is_fraction(share):
            chosen[name] = _share({p.key for p in pairs} - taken, low, low + share, seed)
            taken |= chosen[name]
            low += share
    if splits.get("train") is None:
        chosen["train"] = {pair.key for pair in pairs} - set().union(*chosen.values())
    _check_leaks(root, pairs, chosen)
    return {name: [pair for pair in pairs if pair.key in keys] for name, keys in chosen.items()}


def _share(keys: set[str], low: float, high: float, seed: int) -> set[str]:
    members = {key for key in keys if low <= _unit_hash(key, seed) < high}
    if members or len(keys) < 2:
        return members
    return {min(keys, key=lambda key: _unit_hash(key, seed))}


def _is_fraction(rule: Any) -> bool:
    return isinstance(rule, float) and 0 < rule < 1


def _unit_hash(key: str, seed: int) -> float:
    digest = hashlib.sha256(f"{seed}/{key}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _listed(root: Path, pairs: Sequence[Pair], rule: str | Sequence[str], name: str) -> set[str]:
    keys: set[str] = set()
    for text in [rule] if isinstance(rule, str) else rule:
        if text.endswith(".txt"):
            keys |= _from_list(root, pairs, text, name)
        else:
            regex = glob_regex(text)
            keys |= {pair.key for pair in pairs if regex.fullmatch(pair.image)}
    return keys


def _from_list(root: Path, pairs: Sequence[Pair], list_file: str, name: str) -> set[str]:
    try:
        lines = (root / list_file).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{root / list_file}: list of split {name!r} cannot be read ({error})") from None
    by_path = {pair.image: pair.key for pair in pairs}
    by_stem = {pair.image.rpartition(".")[0]: pair.key for pair in pairs}
    entries = [line.strip().removeprefix("./") for line in lines if line.strip()]
    unknown = [entry for entry in entries if entry not in by_path and entry not in by_stem]
    if unknown:
        raise DataError(
            f"{root / list_file}: {len(unknown)} of {len(entries)} entries match no image: {some(unknown)}; "
            f"write paths relative to {root}, such as {pairs[0].image}"
        )
    return {by_path.get(entry) or by_stem[entry] for entry in entries}


def _check_leaks(root: Path, pairs: Sequence[Pair], chosen: Mapping[str, set[str]]) -> None:
    names = list(chosen)
    for position, first in enumerate(names):
        for second in names[position + 1 :]:
            shared = chosen[first] & chosen[second]
            same = {first, second} == {"val", "test"} and chosen[first] == chosen[second]
            if shared and not same:
                images = [pair.image for pair in pairs if pair.key in shared]
                raise DataError(
                    f"{root}: leak: {len(images)} image(s) are in both {first!r} and {second!r}: "
                    f"{some(images)}; change data.splits so that no image is in two"
                )
