"""Statistics of GroupNorm over a whole image, where its windows alone would each have their own."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from timm.layers import GroupNormAct
from torch import Tensor, nn


@contextmanager
def image_statistics(module: nn.Module, look: Callable[[], None]) -> Iterator[None]:
    """Within it, GroupNorm layers use what they see while `look` runs, averaged over its forward passes.

    GroupNorm takes mean and variance of what it is shown, so that a pixel's class depends on what else its
    window shows. With the statistics of one pass over all of an image it does not.
    """
    layers = [_Layer(part) for part in module.modules() if isinstance(part, nn.GroupNorm) and part.affine]
    handles = [layer.norm.register_forward_pre_hook(layer.record) for layer in layers]
    try:
        look()
        for handle in handles:
            handle.remove()
        handles = [layer.norm.register_forward_hook(layer.replace) for layer in layers]
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Layer:
    """Mean and mean square of each group of a GroupNorm, and the output that follows from them.

    A layer that several levels of a pyramid share has those of each; their size tells the levels apart.
    """

    def __init__(self, norm: nn.GroupNorm):
        self.norm = norm
        self.samples: Counter[torch.Size] = Counter()
        self.moments: dict[torch.Size, Tensor] = {}

    def record(self, norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        size = inputs[0].shape[2:]
        groups = inputs[0].float().reshape(len(inputs[0]), self.norm.num_groups, -1)
        moments = torch.stack([groups.mean(2), groups.square().mean(2)]).sum(1)
        self.moments[size] = self.moments[size] + moments if size in self.moments else moments
        self.samples[size] += len(groups)

    def replace(self, norm: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Any:
        size = next(iter(self.moments)) if len(self.moments) == 1 else inputs[0].shape[2:]
        if size not in self.moments:
            return output
        mean, square = (self.moments[size] / self.samples[size]).repeat_interleave(
            self.norm.num_channels // self.norm.num_groups, dim=1
        )
        scale = ((square - mean.square()).clamp_min(0) + self.norm.eps).rsqrt() * self.norm.weight
        shift = self.norm.bias - mean * scale
        normed = torch.addcmul(shift[:, None, None], inputs[0].float(), scale[:, None, None]).to(output.dtype)
        # timm's layers end with their activation
        return self.norm.act(self.norm.drop(normed)) if isinstance(self.norm, GroupNormAct) else normed
