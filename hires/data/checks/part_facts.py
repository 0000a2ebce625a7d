"""What is in masks that are united of several files, and which images have any."""

import numpy as np

from hires.data.cache import NoCache
from hires.data.checks.finding import Finding, Place, findings_of
from hires.data.checks.mask_facts import MaskFacts, MaskReader, Widths, histogram, of_classes
from hires.data.checks.missed import missed_files
from hires.data.checks.widths import BLOCK
from hires.data.letter_case import either_case
from hires.data.mask_parts import MaskParts, Parts
from hires.data.pairs import LEAVE_OUT, Pair
from hires.interfaces import Window


class PartReader(MaskReader):
    """Reads the masks of images, which it knows by the images' paths."""

    def __init__(self, settings: MaskParts, parts: Parts):
        self.root = settings.root_path()
        images = [pair.image for pair in parts.pairs]
        self._index = {image: index for index, image in enumerate(images)}
        self._source = settings.source_of(images, parts, NoCache())

    def __call__(self, path: str) -> MaskFacts:
        """What the files of an image show together. Raises DataError."""
        source, index = self._source, self._index[path]
        height, width = source.size(index)
        whole = None if source.is_windowed(index) else source.mask(index)
        widths, pixels = Widths(len(source.classes), source.multilabel), np.zeros(256, np.int64)
        for top in range(0, height, BLOCK):
            rows = min(BLOCK, height - top)
            given = source.mask(index, Window(top, 0, rows, width)) if whole is None else whole[top : top + rows]
            pixels += histogram(given)
            widths.add(given)
        counts = of_classes(pixels, len(source.classes), source.multilabel)
        return MaskFacts((height, width), {}, {}, counts, widths.measured, widths.narrow, None, "")


def listed_parts(settings: MaskParts, parts: Parts) -> tuple[list[Pair], list[Finding]]:
    """The pairs that training would have, and those that have no mask, or no image.

    The truth of an image without mask is the image, too, where that means that it shows no class.
    """
    bare = [Place(pair.image) for pair in parts.pairs if not pair.truth]
    missing = settings.missing_labels
    fate = {"error": "", "negative": " and show no class", "skip": " and are left out"}[missing]
    names = list(settings.classes)
    of_masks = [(f"classes.{names[label]}", glob) for label, glob in settings.globs()]
    pairs = [pair._replace(truth=pair.image) if missing == "negative" else pair for pair in parts.pairs]
    return [pair for pair in pairs if pair.truth or missing == "error"], [
        *findings_of(
            "image-without-label",
            "error" if missing == "error" else "info",
            "{n} image(s) have no mask file" + fate,
            f"add masks, or set data.missing_labels=negative if these images show no class{LEAVE_OUT}",
            bare,
        ),
        *findings_of(
            "label-without-image",
            "warning",
            "{n} mask(s) belong to no image and are not used",
            "add the images, or remove these files",
            map(Place, parts.unused),
        ),
        *missed_files(
            settings.root_path(),
            [("images", settings.images)],
            [*settings.exclude, *(either_case(glob) for _, glob in of_masks)],
        ),
        *missed_files(settings.root_path(), of_masks, settings.exclude),
    ]
