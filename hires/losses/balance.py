"""Class weights from how often the classes occur."""

from collections.abc import Sequence


def balanced_weights(pixels: Sequence[int], power: float) -> tuple[float, ...]:
    """Weights in proportion to pixels^-power, of mean 1 over the pixels of all classes.

    power 1: every class has the same share of the loss; 0.5: halfway, in ratios. A class without pixels gets
    the largest weight of the others, as if it were as rare as the rarest; all get 1 if none has any.
    """
    present = [count for count in pixels if count > 0]
    if not present:
        return (1.0,) * len(pixels)
    scale = sum(present) / sum(count ** (1 - power) for count in present)
    rarest = min(present)
    return tuple(scale * (count or rarest) ** -power for count in pixels)
