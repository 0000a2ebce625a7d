"""What a search for a plan is for, and the steps that it chooses from."""

from hires.interfaces import ConfigError
from hires.memory.policies import AUTO
from hires.memory.predictions import Shape
from hires.memory.shapes import micro_batches, shapes, sizes
from hires.recipe import Recipe, Size

START = (256, 256)  # pixels, where the image size is to be found: a square
LARGEST = "largest"
"""The largest image at the micro-batch that is given."""
LARGEST_THEN_FASTEST = "largest_then_fastest"
"""The largest image at the least micro-batch, and at its size the micro-batch and policies of most throughput."""


def goal_of(recipe: Recipe) -> str | None:
    """What a search is for; None: only policies, for a micro-batch and an image size that are given."""
    if recipe.memory.maximize is not None:
        return recipe.memory.maximize
    free = recipe.top.micro_batch_size == AUTO
    if recipe.top.image_size == AUTO:
        return LARGEST_THEN_FASTEST if free else LARGEST
    return "throughput" if free else None


def steps_of(recipe: Recipe, goal: str | None, least: int, stride: int, largest: Size) -> list[Shape]:
    """The steps to choose from, by their pixels; `least` samples of a micro-batch, `largest` image.

    Of LARGEST_THEN_FASTEST those that the image size is found by. Raises ConfigError for an image size that is
    to be found by another goal.
    """
    top = recipe.top
    if goal == "batch" and top.image_size == AUTO:
        raise ConfigError(
            "image_size: got auto, but memory.maximize=batch needs one; give a size, or memory.maximize=resolution"
        )
    micro = [least] if goal in ("resolution", LARGEST_THEN_FASTEST) else [recipe.micro_batch_size]
    if goal in ("batch", "throughput"):
        growing = recipe.memory.scale_batch_size and goal == "batch"
        micro = micro_batches(recipe.share, least, growing=growing)
    if goal == "resolution" or top.image_size == AUTO:
        aspect = START if top.image_size == AUTO else recipe.image_size
        coarse = 1.1 if goal == "throughput" else 1.0
        return shapes(micro, sizes(aspect, stride, _within_cap(recipe, goal, stride, largest), coarse))
    return shapes(micro, [recipe.image_size])


def at_size(recipe: Recipe, least: int, size: Size) -> list[Shape]:
    """The steps of an image size, up to the whole batch."""
    return shapes(micro_batches(recipe.share, least, growing=False), [size])


def _within_cap(recipe: Recipe, goal: str | None, stride: int, largest: Size) -> Size:
    """The largest image to look for: that of the data, up to `memory.max_image_size` unless a goal was said."""
    most = recipe.memory.max_image_size
    if most is None or goal not in (LARGEST, LARGEST_THEN_FASTEST):
        return largest
    cap = max(1, most // stride) * stride
    height, width = (min(side or cap, cap) for side in largest)
    return height, width
