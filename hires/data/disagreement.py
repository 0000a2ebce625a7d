"""Pairs files by their folders where globs disagree, and says of what cannot be paired how the globs differ."""

import logging
import os
from collections.abc import Mapping

log = logging.getLogger(__name__)

Keyed = dict[str, str]
"""Paths relative to the root by key."""


def agreed(images: Keyed, truths: Keyed) -> tuple[Keyed, Keyed]:
    """Both with their folders as keys where the given keys share nothing and folders leave no doubt.

    That is where no folder holds two images, or two files of the truth, and one holds both; else as they are.
    """
    if images.keys() & truths.keys():
        return images, truths
    by_folder = [{os.path.dirname(path): path for path in keyed.values()} for keyed in (images, truths)]
    is_clear = all(len(one) == len(keyed) for one, keyed in zip(by_folder, (images, truths), strict=True))
    if not is_clear or not by_folder[0].keys() & by_folder[1].keys():
        return images, truths
    log.info("Names of images and of their masks have nothing in common: paired by their folders")
    return by_folder[0], by_folder[1]


def difference(images: Mapping[str, str], truths: Mapping[str, str], what: str) -> str:
    """How the keys of an image and of a `what` differ that are both left over.

    "" unless there are such, and most images are left over: single ones may just lack their files.
    """
    lonely = {path: key for key, path in images.items() if key not in truths}
    unused = {path: key for key, path in truths.items() if key not in images}
    if not unused or len(lonely) <= len(images) / 2:
        return ""
    folders = {os.path.dirname(path): path for path in reversed(unused)}
    image = next((path for path in lonely if os.path.dirname(path) in folders), next(iter(lonely)))
    truth = folders.get(os.path.dirname(image), next(iter(unused)))
    is_many = what == "mask" and len(unused) > len(lonely)
    return (
        f"{image} gives {lonely[image]!r}, but {truth} gives {unused[truth]!r}: if these belong together the "
        f"globs disagree; the wildcards of data.images and data.{what}s ([..] is one, too) have to match the "
        "same text" + ("; several masks an image need data=mask_parts" if is_many else "")
    )
