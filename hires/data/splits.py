"""Divides a set's images into splits, so that no image is trained on and evaluated."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hires.data.folds import Folds, check_group_leaks, fold_keys, group_names, unit_hash
from hires.data.pairs import Pair, some
from hires.data.split_lists import STRICT, Missing, keys_of_glob, keys_of_list
from hires.interfaces import DataError
from hires.settings import SettingError

SPLITS = ("train", "val", "test")
_MEANT = {"valid": "val", "validation": "val", "training": "train", "testing": "test"}
ALLOWED = (
    "a glob, a .txt list, a list of those, a fraction between 0 and 1, or null (no such split; of train: the rest)"
)


def check_splits(splits: Mapping[str, Any]) -> None:
    """Raises SettingError for a rule that `split_pairs` would not understand."""
    for name, rule in splits.items():
        if name in _MEANT:
            raise SettingError("splits", name, f"{', '.join(SPLITS)}, or a name of your own; write {_MEANT[name]}")
        many = isinstance(rule, (list, tuple)) and len(rule) > 0
        texts = rule if many else [rule]
        is_text = all(isinstance(text, str) and text for text in texts)
        if not (is_text or _is_fraction(rule) or rule is None):
            raise SettingError(f"splits.{name}", rule, ALLOWED)
    fractions = {name: rule for name, rule in splits.items() if _is_fraction(rule)}
    if sum(fractions.values()) > 1 + 1e-9:
        raise SettingError("splits", fractions, "fractions that add up to at most 1")


def split_pairs(
    root: Path,
    pairs: Sequence[Pair],
    splits: Mapping[str, Any],
    seed: int,
    *,
    groups: str | None = None,
    folds: Folds | None = None,
    missing: Missing = STRICT,
) -> dict[str, list[Pair]]:
    """Pairs by split, in their order. Raises DataError when an image, or a group, falls into two splits.

    A fraction takes the images whose hashed key falls into its share of [0, 1): which ones does not depend
    on the other files, so images that are added later move none. Only where that gives none, it takes the
    image with the lowest hash. `train` takes the rest if not given. With `folds`, `val` is a fold of what the
    other splits leave. With `groups`, a regular expression, groups of images take the place of images.
    `missing`: what is done with what a list names and is not there.
    """
    names = group_names(root, pairs, groups)
    chosen = split_keys(root, pairs, splits, seed, names=names, folds=folds, missing=missing)
    check_leaks(root, pairs, chosen, names)
    return {name: [pair for pair in pairs if pair.key in keys] for name, keys in chosen.items()}


def split_keys(
    root: Path,
    pairs: Sequence[Pair],
    splits: Mapping[str, Any],
    seed: int,
    *,
    names: Mapping[str, str],
    folds: Folds | None = None,
    missing: Missing = STRICT,
) -> dict[str, set[str]]:
    """Keys of pairs by split as `split_pairs` divides them, whether or not some are in two; `names`: groups."""
    if folds:
        splits = {name: rule for name, rule in splits.items() if name not in ("train", "val")}
    chosen = _by_rules(root, pairs, splits, names, seed, missing)
    if folds:
        taken = set().union(*chosen.values())
        rest = [pair for pair in pairs if pair.key not in taken]
        chosen = {"val": fold_keys(root, rest, names, folds, seed), **chosen}
    if splits.get("train") is None:
        chosen["train"] = {pair.key for pair in pairs} - set().union(*chosen.values())
    return chosen


def _by_rules(
    root: Path,
    pairs: Sequence[Pair],
    splits: Mapping[str, Any],
    names: Mapping[str, str],
    seed: int,
    missing: Missing,
) -> dict[str, set[str]]:
    """Keys by split: those that are named, then the fractions of what they leave."""
    chosen = {
        name: _listed(root, pairs, rule, name, missing)
        for name, rule in splits.items()
        if rule is not None and not _is_fraction(rule)
    }
    taken = set().union(*chosen.values())
    low = 0.0
    for name, share in splits.items():
        if _is_fraction(share):
            rest = {pair.key: names[pair.key] for pair in pairs if pair.key not in taken}
            members = _share(set(rest.values()), low, low + share, seed)
            chosen[name] = {key for key, group in rest.items() if group in members}
            taken |= chosen[name]
            low += share
    return chosen


def _share(names: set[str], low: float, high: float, seed: int) -> set[str]:
    members = {name for name in names if low <= unit_hash(name, seed) < high}
    if members or len(names) < 2:
        return members
    return {min(names, key=lambda name: unit_hash(name, seed))}


def _is_fraction(rule: Any) -> bool:
    return isinstance(rule, float) and 0 < rule < 1


def _listed(root: Path, pairs: Sequence[Pair], rule: str | Sequence[str], name: str, missing: Missing) -> set[str]:
    keys: set[str] = set()
    for text in [rule] if isinstance(rule, str) else rule:
        if text.endswith(".txt"):
            keys |= keys_of_list(root, pairs, text, name, missing)
        else:  # where a glob is all there is, the split is empty, which is told when it is asked for
            alone = Missing(skip=True, told="")
            keys |= keys_of_glob(root, pairs, text, name, alone if isinstance(rule, str) else missing)
    return keys


def check_leaks(
    root: Path,
    pairs: Sequence[Pair],
    chosen: Mapping[str, set[str]],
    groups: Mapping[str, str],
    setting: str = "data.splits",
) -> None:
    """Raises DataError when an image, or a group, is in two splits; `chosen`: keys by split, `groups` by key.

    `setting` is the key that divides the images, for messages.
    """
    splits = list(chosen)
    for position, first in enumerate(splits):
        for second in splits[position + 1 :]:
            shared = chosen[first] & chosen[second]
            same = {first, second} == {"val", "test"} and chosen[first] == chosen[second]
            if shared and not same:
                images = [pair.image for pair in pairs if pair.key in shared]
                raise DataError(
                    f"{root}: leak: {len(images)} image(s) are in both {first!r} and {second!r}: "
                    f"{some(images)}; change {setting} so that no image is in two"
                )
    check_group_leaks(root, groups, chosen, setting)
