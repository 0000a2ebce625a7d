"""What a report says of an evaluation: scores, and the best, median and worst images as pictures."""

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from hires.data.mask_values import mask_values
from hires.data.settings import DataSettings
from hires.interfaces import HiresError, ImageSource, Normalization
from hires.ops.looks import Evidence, Look
from hires.visualize.colours import class_colours, hex_colours, is_ground
from hires.visualize.pictures import Paint, pictures, visible

log = logging.getLogger(__name__)


def evaluated_of(
    source: ImageSource | None,
    data: DataSettings,
    normalization: Normalization | None,
    evidence: Evidence,
    metrics: dict[str, float],
) -> dict[str, Any]:
    """What report.json says of an evaluation; without images where there is no source to read them from."""
    paint, scores = _paint(data, evidence), evidence.scores
    return {
        "metrics": metrics,
        "classes": list(evidence.classes),
        "score": evidence.score,
        "scores": {
            "images": len(scores),
            "lowest": scores[0] if scores else None,
            "median": float(np.median(scores)) if scores else None,
            "highest": scores[-1] if scores else None,
        },
        "confidence": evidence.confidence,
        "confusion": evidence.confusion,
        "curves": evidence.curves,
        "boxes": any(look.found is not None for look in evidence.looks),
        "unpainted": None if paint.unpainted is None else evidence.classes[paint.unpainted],
        "colours": hex_colours(paint.colours),
        "images": list(_images(source, normalization, evidence, paint))
        if source is not None and normalization
        else [],
    }


def _paint(data: DataSettings, evidence: Evidence) -> Paint:
    """Colours as predictions have them; the background by its name, or else the most frequent class, has none."""
    values = mask_values(data)
    colours = class_colours(evidence.classes, values.numbers if values and values.are_colours else None)
    if evidence.confusion is None:
        return Paint(colours, None, multilabel=True)
    grounds = [index for index, name in enumerate(evidence.classes) if is_ground(name)]
    most = int(np.argmax(np.sum(evidence.confusion, axis=1)))
    return Paint(colours, grounds[0] if grounds else most, multilabel=False)


def _images(
    source: ImageSource, normalization: Normalization, evidence: Evidence, paint: Paint
) -> Iterator[dict[str, Any]]:
    for look in evidence.looks:
        try:
            shown = _pictures(source, normalization, look, paint)
        except HiresError as error:
            log.warning("The report lacks an image: %s", error)
            continue
        yield {
            "name": source.name(look.image),
            "rank": look.rank,
            "score": look.score,
            "window": list(look.window),
            "pictures": shown,
        }


def _pictures(source: ImageSource, normalization: Normalization, look: Look, paint: Paint) -> dict[str, str]:
    image, target = source.read(look.image, look.window)
    seen = visible(np.asarray(image), normalization.low, normalization.high)
    return pictures(look, seen, target.get("mask"), paint)
