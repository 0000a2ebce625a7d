"""What is found of images that are there twice, or on both sides of a split, by pixels and by names."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np

from hires.data.checks.examine import Record
from hires.data.checks.finding import Finding, Place, findings_of
from hires.data.checks.image_facts import THUMB
from hires.data.pairs import Pair

MOST_DIFFERENT = 10
"""Of 256 comparisons of neighbouring parts, in which near-identical images may differ."""
_LEAST_CORRELATION = 0.95
_NEIGHBOURS = 3  # frames of one clip whose numbers differ by no more are hardly different images
_FRAME = re.compile(r"(?:.*/)?([^/]*\d[^/]*?[^\d/])(\d+)[^\d/]*")  # clip07-00123: a numbered clip, then the frame
_ROWS = 2048  # images that are compared with as many others at once
_MOST = 20_000  # images that are compared with all of their split, too

Splits = Mapping[str, Sequence[int]]


def leak_findings(
    pairs: Sequence[Pair], records: Sequence[Record], splits: Splits, *, at_random: bool
) -> list[Finding]:
    """Copies, copies in two splits, near-identical images and neighbouring frames in two splits.

    `at_random`: whether images are divided one by one, so that another seed may part those that are alike.
    """
    homes = homes_of(splits)
    copies = _copies(records)
    across = [(first, other) for first, other in copies if _apart(first, other, homes)]
    within = [(first, other) for first, other in copies if not _apart(first, other, homes)]
    thumbs = _thumbs(records, homes)
    known = set(copies)
    similar = [pair for pair in _similar(thumbs, splits, homes) if pair not in known]
    alike = set(near(thumbs, list(thumbs), list(thumbs))) if at_random and len(thumbs) <= _MOST else set()
    return [
        *findings_of(
            "leak-copy",
            "error",
            "{n} image(s) of one split are copies, pixel by pixel, of images of another",
            "remove them from one of the splits: what was learnt would be evaluated",
            _places(pairs, across, homes),
        ),
        *findings_of(
            "leak-similar",
            "warning",
            "{n} pair(s) of nearly identical images lie in two splits",
            "look at them; set data.groups so that images of one object or clip stay together",
            _places(pairs, similar, homes),
        ),
        *_frames(pairs, homes),
        *findings_of(
            "copies",
            "warning",
            "{n} image(s) are copies, pixel by pixel, of others",
            "remove the copies: they count twice, and their labels may contradict each other",
            _places(pairs, within, homes),
        ),
        *findings_of(
            "similar",
            "info",
            "{n} more pair(s) of images are nearly identical; a division at random may part them",
            "set data.groups so that images of one object or clip stay together",
            _places(pairs, sorted(alike - {*copies, *similar}), homes),
        ),
    ]


def homes_of(splits: Splits) -> dict[int, set[str]]:
    """The splits of every image."""
    homes = defaultdict[int, set[str]](set)
    for name, indices in splits.items():
        for index in indices:
            homes[index].add(name)
    return homes


def _apart(first: int, other: int, homes: Mapping[int, set[str]]) -> bool:
    return not homes.get(first, set()) & homes.get(other, set())


def _places(
    pairs: Sequence[Pair], together: Sequence[tuple[int, int]], homes: Mapping[int, set[str]]
) -> list[Place]:
    def home(index: int) -> str:
        return "/".join(sorted(homes[index]))

    return [
        Place(pairs[first].image, f"in {home(first)}, and {pairs[other].image} in {home(other)}")
        for first, other in together
    ]


def _copies(records: Sequence[Record]) -> list[tuple[int, int]]:
    """Pairs of images of equal pixels: the first of each kind with every other; blank ones are told elsewhere."""
    groups = defaultdict[bytes, list[int]](list)
    for index, record in enumerate(records):
        if record.image is not None and not record.image.is_flat:
            groups[record.image.digest].append(index)
    return [(same[0], other) for same in groups.values() for other in same[1:]]


def _thumbs(records: Sequence[Record], homes: Mapping[int, set[str]]) -> dict[int, np.ndarray]:
    """The thumbnails of images that show something, by index."""
    return {
        index: facts.thumb
        for index in sorted(homes)
        if (facts := records[index].image) is not None and not facts.is_flat and facts.thumb.any()
    }


def _similar(
    thumbs: Mapping[int, np.ndarray], splits: Splits, homes: Mapping[int, set[str]]
) -> list[tuple[int, int]]:
    """Pairs of near-identical images that no split has in common."""
    pairs = set[tuple[int, int]]()
    for one, two in combinations(splits, 2):
        mine, others = ([i for i in splits[name] if i in thumbs] for name in (one, two))
        if set(splits[one]) != set(splits[two]):
            pairs.update(pair for pair in near(thumbs, mine, others) if _apart(*pair, homes))
    return sorted(pairs)


def near(
    thumbs: Mapping[int, np.ndarray], some: Sequence[int], others: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Pairs (lower, higher) of images whose thumbnails agree: dHash (Krawetz 2013), 256 bits; correlation.

    What is compared at once are blocks of both, so that memory grows with the images, not with their square.
    """
    left, right = (_signs([thumbs[index] for index in side]) for side in (some, others))
    for top in range(0, len(left), _ROWS):
        rows = left[top : top + _ROWS].astype(np.float32)
        for start in range(0, len(right), _ROWS):
            columns = right[start : start + _ROWS].astype(np.float32)
            different = (rows.shape[1] - rows @ columns.T) / 2
            for a, b in np.argwhere(different <= MOST_DIFFERENT).tolist():
                first, other = sorted((some[top + a], others[start + b]))
                if first != other and _correlation(thumbs[first], thumbs[other]) >= _LEAST_CORRELATION:
                    yield first, other


def _signs(thumbs: Sequence[np.ndarray]) -> np.ndarray:
    """(N, parts) int8: 1 where a part is brighter than the one to the left of it, else -1."""
    signs = np.empty((len(thumbs), THUMB[0] * (THUMB[1] - 1)), np.int8)
    for row, thumb in zip(signs, thumbs, strict=True):
        row[:] = np.where(thumb[:, 1:] > thumb[:, :-1], 1, -1).ravel()
    return signs


def _correlation(one: np.ndarray, two: np.ndarray) -> float:
    return float(np.corrcoef(one.ravel(), two.ravel())[0, 1])


def _frames(pairs: Sequence[Pair], homes: Mapping[int, set[str]]) -> Iterator[Finding]:
    """Images whose names say that they are neighbouring frames of one clip, in two splits."""
    clips = defaultdict[str, list[tuple[int, int]]](list)
    for index in homes:
        match = _FRAME.fullmatch(pairs[index].image.rpartition(".")[0])
        if match:
            clips[match[1]].append((int(match[2]), index))
    split = [
        (a, b)
        for frames in clips.values()
        for (one, a), (two, b) in pairwise(sorted(frames))
        if two - one <= _NEIGHBOURS and _apart(a, b, homes)
    ]
    yield from findings_of(
        "leak-frames",
        "warning",
        "{n} pair(s) of neighbouring frames, by their names, lie in two splits",
        "set data.groups to a regular expression of what names the clip, so that it stays in one split",
        _places(pairs, split, homes),
    )
