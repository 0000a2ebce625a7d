"""Rows of logits in chunks: which they are, that scaling and gradients are those of the whole."""

import pytest
import torch
from torch.nn import functional as F

from hires.losses import chunks
from hires.losses.chunks import row_chunks, take_rows, upsample_rows


@pytest.fixture
def most(monkeypatch):
    """Sets how many rows of logits a chunk of the shapes (2, 3, h, w) has at most."""

    def set_most(rows, factor, width):
        monkeypatch.setattr(chunks, "CHUNK_ELEMENTS", 2 * 3 * rows * factor * width)

    return set_most


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize(
    ("shape", "size", "heights"),
    [
        ((2, 19, 128, 128), (512, 512), [172, 172, 168]),
        ((2, 2, 1024, 1024), (1024, 1024), [1024]),
        ((4, 2, 1025, 1024), (1025, 1024), [342, 342, 341]),
        ((16, 100, 5, 512), (40, 4096), [8] * 5),  # more than the bound already
        ((16, 100, 5, 512), (41, 4096), [41]),  # 5 does not divide 41
        ((16, 100, 50, 50), (25, 25), [25]),
    ],
)
def test_heights_follow_from_shapes(shape, size, heights):
    found = row_chunks(torch.Size(shape), torch.Size(size))
    assert [chunk.height for chunk in found] == heights
    assert [chunk.top for chunk in found] == [sum(heights[:i]) for i in range(len(heights))]
    assert len(row_chunks(torch.Size(shape), torch.Size(size), whole=True)) == 1


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 13])
@pytest.mark.parametrize("factor", [1, 2, 4, 8, 3, 6])
def test_scaled_rows_are_those_of_the_whole(most, factor, count, rows):
    """To the bit, where factors are powers of two."""
    logits, size = random(2, 3, count, 5), torch.Size((count * factor, 5 * factor))
    most(rows, factor, 5 * factor)
    whole = F.interpolate(logits, size=size, mode="bilinear", align_corners=False)
    found, rest = [], logits
    for chunk in row_chunks(logits.shape, size):
        taken, rest = take_rows(rest, chunk)
        found.append(upsample_rows(taken, chunk.scaled, chunk.crop, torch.Size((chunk.height, size[1]))))
    assert len(found) >= count / rows
    if factor in (3, 6):
        torch.testing.assert_close(torch.cat(found, 2), whole)
    else:
        assert torch.equal(torch.cat(found, 2), whole)


@pytest.mark.parametrize("skipped", [(), (0,), (2,), (-1,), (1, 2), (-2, -1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("count", "rows", "factor"), [(11, 3, 4), (11, 2, 1), (5, 1, 2), (3, 1, 4), (2, 1, 4)])
def test_gradients_are_those_of_plain_slices(most, count, rows, factor, layout, dtype, skipped):
    """Also where chunks have none; whole numbers, so that the order of sums does not matter."""
    most(rows, factor, 5 * factor)
    logits = random(2, 3, count, 5, dtype=dtype).to(memory_format=layout).requires_grad_()
    found = row_chunks(logits.shape, torch.Size((count * factor, 5 * factor)))
    slopes = [random(2, 3, chunk.rows, 5).mul(4).round().to(dtype) for chunk in found]
    counted = set(range(len(found))) - {i % len(found) for i in skipped} or {0}
    plain = [logits[:, :, chunk.first : chunk.first + chunk.rows] for chunk in found]
    (expected,) = torch.autograd.grad(sum((plain[i] * slopes[i]).sum() for i in counted), logits)
    rest, total = logits, 0
    for i, chunk in enumerate(found):
        taken, rest = take_rows(rest, chunk)
        assert torch.equal(taken, plain[i])
        total = total + (taken * slopes[i]).sum() if i in counted else total
    for _ in range(2):  # a graph that is kept gives the same again
        (gradient,) = torch.autograd.grad(total, logits, retain_graph=True)
        assert torch.equal(gradient, expected)
        assert gradient.is_contiguous(memory_format=layout)
