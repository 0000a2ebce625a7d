"""Tensors that are exchanged several at a time."""

import torch

from hires.engine import buckets
from hires.engine.buckets import Buckets


def test_every_value_is_exchanged_once():
    torch.manual_seed(0)
    tensors = [
        torch.randn(3, 4),
        torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        torch.randn(()),
        torch.arange(5),
        torch.randn(7).bfloat16(),
        torch.randn(0),
        torch.randn(6)[::2],
    ]
    expected = [2 * tensor for tensor in tensors]
    Buckets(tensors).exchange(lambda flat: flat.mul_(2))
    for tensor, doubled in zip(tensors, expected, strict=True):
        assert torch.equal(tensor, doubled)


def test_buckets_are_of_bounded_size(monkeypatch):
    monkeypatch.setattr(buckets, "BYTES", 40)
    sizes = []
    Buckets([torch.zeros(n) for n in (4, 5, 2, 30, 1, 1)]).exchange(lambda flat: sizes.append(flat.numel()))
    assert sizes == [9, 2, 30, 2]  # a tensor that is larger has a bucket for itself


def test_the_order_depends_on_shapes_alone(monkeypatch):
    monkeypatch.setattr(buckets, "BYTES", 40)

    def seen(value: float) -> list[tuple[torch.dtype, int]]:
        tensors = [torch.full((n,), value, dtype=kind) for n in (3, 9) for kind in (torch.float, torch.double)]
        found = []
        Buckets(tensors).exchange(lambda flat: found.append((flat.dtype, flat.numel())))
        return found

    assert seen(0.0) == seen(1.0) == [(torch.float, 3), (torch.double, 3), (torch.float, 9), (torch.double, 9)]
