"""Groups of images that stay together, and their division into folds for cross-validation."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hires.data.pairs import Pair, some
from hires.interfaces import DataError
from hires.settings import SettingError


class Folds(NamedTuple):
    """The fold that is `val`, from 0, and how many there are."""

    chosen: int
    number: int


def check_groups(pattern: str | None) -> None:
    """Raises SettingError for what is no regular expression."""
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise SettingError("groups", pattern, f"a regular expression ({error})") from None


def check_folds(fold: int, folds: int, splits: Mapping[str, Any]) -> None:
    """Raises SettingError for a fold that does not exist, and for splits that say what the folds say."""
    if fold >= folds:
        raise SettingError("fold", fold, f"0 to {folds - 1}, as data.folds is {folds}")
    if splits.get("train") is not None:
        raise SettingError("splits.train", splits["train"], "null with data.fold: train is the other folds")
    if not isinstance(splits.get("val"), (float, type(None))):
        raise SettingError("splits.val", splits["val"], "null or a fraction with data.fold, which replaces it")


def group_names(root: Path, pairs: Sequence[Pair], pattern: str | None) -> dict[str, str]:
    """The group of every pair by its key: what `pattern` matches in the image's path; without it, the key.

    Of a pattern with capture groups it is what they match, joined by /. Raises DataError for images that it
    does not match.
    """
    if pattern is None:
        return {pair.key: pair.key for pair in pairs}
    names = {pair.key: _matched(re.search(pattern, pair.image)) for pair in pairs}
    without = [pair.image for pair in pairs if not names[pair.key]]
    if without:
        raise DataError(
            f"{root}: data.groups={pattern} matches nothing in {len(without)} image path(s): {some(without)}; "
            "every image needs a group"
        )
    return names


def _matched(match: re.Match[str] | None) -> str:
    if match is None:
        return ""
    return "/".join(part for part in match.groups() if part) if match.re.groups else match.group()


def unit_hash(name: str, seed: int) -> float:
    """A number in [0, 1) that depends on nothing but the name and the seed."""
    digest = hashlib.sha256(f"{seed}/{name}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def fold_keys(root: Path, pairs: Sequence[Pair], names: Mapping[str, str], folds: Folds, seed: int) -> set[str]:
    """Keys of the pairs in the chosen fold. Raises DataError where there are fewer groups than folds.

    Greedy: folder by folder, its larger groups first, each to the fold that has the fewest images of that
    folder, then the fewest in all; folders, which often are classes, thus spread over the folds.
    """
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[names[pair.key]].append(pair)
    if len(groups) < folds.number:
        raise DataError(
            f"{root}: data.folds={folds.number} of only {len(groups)} group(s) of images; "
            f"lower data.folds, or make data.groups finer"
        )

    def rank(name: str) -> tuple[str, int, float, str]:
        return _folder(groups[name][0]), -len(groups[name]), unit_hash(name, seed), name

    images: Counter[int] = Counter()
    in_folder: Counter[tuple[str, int]] = Counter()
    chosen: set[str] = set()
    for name in sorted(groups, key=rank):
        home = _folder(groups[name][0])
        fold = min(range(folds.number), key=lambda fold: (in_folder[home, fold], images[fold], fold))
        images[fold] += len(groups[name])
        in_folder.update((_folder(pair), fold) for pair in groups[name])
        if fold == folds.chosen:
            chosen.update(pair.key for pair in groups[name])
    return chosen


def _folder(pair: Pair) -> str:
    return pair.image.rpartition("/")[0]


def check_group_leaks(root: Path, names: Mapping[str, str], chosen: Mapping[str, set[str]], setting: str) -> None:
    """Raises DataError for a group with images in two splits; val and test may be the same images."""
    homes: dict[str, str] = {}
    for split, keys in chosen.items():
        for group in sorted({names[key] for key in keys}):
            home = homes.setdefault(group, split)
            same = {home, split} == {"val", "test"} and chosen[home] == keys
            if home != split and not same:
                raise DataError(
                    f"{root}: leak: images of group {group!r} are in both {home!r} and {split!r}; change "
                    f"{setting} so that no group is in two, or data.groups"
                )
