"""The loss in chunks of rows is that of all rows, and recomputing chunks changes no bit."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from hires.interfaces import IGNORE
from hires.losses import chunks
from hires.losses.segmentation import LossSettings

WEIGHTS = (0.1, 1.0, 2.0, 5.0)
SUMMED = {"cross_entropy": 1.0, "dice": 1.0, "focal": 1.0, "tversky": 1.0}
EVERYTHING = {"class_weights": WEIGHTS, "boundary_weight": 2.0, "boundary_radius": 2}


def make_case(height, width, size, multilabel=False):
    """Logits (2, 4, height, width) and masks of `size`; their last class is in one row, whole rows are ignored."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(2, 4, height, width, generator=generator)
    masks = torch.randint(8 if multilabel else 3, (2, *size), dtype=torch.uint8, generator=generator)
    masks[:, size[0] // 2] = IGNORE
    masks[:, : size[0] // 4] = IGNORE
    masks[1, -1, :3] = 8 if multilabel else 3
    return logits, masks


def outcome(loss, logits, masks, context=torch.enable_grad):
    """Losses by name and the gradient of their sum."""
    logits = logits.clone().requires_grad_()
    with context():
        values = loss(logits, masks, loss.normalizers(list(masks)))
    sum(values.values()).backward()
    return {name: value.detach() for name, value in values.items()}, logits.grad


def recomputed(loss):
    """The loss, with chunks that are recomputed in backward."""
    for name in loss.unit_names:
        unit = loss.get_submodule(name)
        unit.forward = lambda *inputs, plain=unit.forward: checkpoint(plain, *inputs, use_reentrant=False)
    return loss


@pytest.fixture
def small(monkeypatch):
    """Sets how many elements a chunk has at most."""

    def set_bound(elements):
        monkeypatch.setattr(chunks, "CHUNK_ELEMENTS", elements)

    return set_bound


def seen_heights(loss):
    """The rows of each chunk, as they are made."""
    heights = []
    loss.chunk.register_forward_pre_hook(lambda module, inputs: heights.append(inputs[1].shape[1]))
    return heights


@pytest.mark.parametrize("multilabel", [False, True], ids=["exclusive", "multilabel"])
@pytest.mark.parametrize("further", [{}, EVERYTHING], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    ("height", "width", "size", "number"),
    [
        (33, 20, (33, 20), 5),
        (9, 5, (36, 20), 5),
        (5, 3, (40, 24), 5),
        (7, 5, (21, 15), 3),
        (9, 7, (36, 20), 5),  # scaled by another factor in the rows
        (9, 5, (37, 20), 1),
        (33, 20, (16, 10), 1),
    ],
)
def test_chunks_add_up_to_the_whole(small, height, width, size, number, further, multilabel):
    logits, masks = make_case(height, width, size, multilabel)
    loss = LossSettings(**SUMMED, **further).build(4, multilabel=multilabel)
    heights = seen_heights(loss)
    values, slopes = outcome(loss, logits, masks)
    small(8 * 8 * 20)
    chunked, chunked_slopes = outcome(loss, logits, masks)
    assert heights[0] == size[0]
    assert len(heights[1:]) == number
    assert sum(heights[1:]) == size[0]
    assert list(values) == list(SUMMED)
    for name, value in values.items():
        torch.testing.assert_close(chunked[name], value, rtol=1e-6, atol=0)
    assert slopes.any()
    assert (chunked_slopes - slopes).norm() <= 1e-6 * slopes.norm()


def test_lovasz_sees_all_rows_at_once(small):
    logits, masks = make_case(9, 5, (36, 20))
    loss = LossSettings(**SUMMED, lovasz=1.0).build(4)
    values, slopes = outcome(loss, logits, masks)
    small(1)
    again, slopes_again = outcome(loss, logits, masks)
    assert again == values
    assert torch.equal(slopes_again, slopes)


def bfloat16():
    return torch.autocast("cpu", torch.bfloat16)


@pytest.mark.parametrize("lovasz", [0.0, 1.0])
@pytest.mark.parametrize("context", [torch.enable_grad, bfloat16])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(33, 20), (36, 20), (40, 24)])
def test_recomputing_changes_no_bit(small, shape, layout, context, lovasz):
    factor = {33: 1, 36: 4, 40: 8}[shape[0]]
    logits, masks = make_case(shape[0] // factor, shape[1] // factor, shape)
    logits = (logits.bfloat16() if context is bfloat16 else logits).to(memory_format=layout)
    small(8 * 8 * 20)
    settings = LossSettings(**SUMMED, **EVERYTHING, lovasz=lovasz)
    values, slopes = outcome(settings.build(4), logits, masks, context)
    again, slopes_again = outcome(recomputed(settings.build(4)), logits, masks, context)
    assert slopes.any()
    assert again == values
    assert torch.equal(slopes_again, slopes)


def test_precision_of_logits_does_not_move_chunks(small):
    """Under autocast everything is computed in float32, from the same chunks."""
    logits, masks = make_case(9, 5, (36, 20))
    small(8 * 8 * 20)
    loss = LossSettings(**SUMMED, **EVERYTHING).build(4)
    rounded = logits.bfloat16()
    expected, _ = outcome(loss, rounded.float(), masks)
    values, slopes = outcome(loss, rounded, masks, bfloat16)
    assert values == expected
    assert slopes.dtype == torch.bfloat16


@pytest.mark.parametrize("multilabel", [False, True], ids=["exclusive", "multilabel"])
@pytest.mark.parametrize("factor", [1, 4])
def test_recomputed_chunks_keep_nothing_of_full_resolution(small, factor, multilabel):
    logits, masks = make_case(64 // factor, 64 // factor, (64, 64), multilabel)
    small(8 * 8 * 64)
    loss = recomputed(LossSettings(**SUMMED, **EVERYTHING).build(4, multilabel=multilabel))
    saved = []

    def pack(tensor):
        saved.append(tensor.numel() * tensor.is_floating_point())
        return tensor

    logits.requires_grad_()
    normalizers = loss.normalizers(list(masks))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        losses = loss(logits, masks, normalizers)
    most = {1: 8 * 8 * 64, 4: logits.numel()}[factor]
    assert max(saved) <= most
    sum(losses.values()).backward()
    assert max(saved) <= most
    assert logits.grad.any()


@pytest.mark.slow
@pytest.mark.parametrize("lovasz", [0.0, 1.0])
def test_compiled_chunks_give_the_same(small, lovasz):
    logits, masks = make_case(9, 5, (36, 20))
    small(8 * 8 * 20)
    settings = LossSettings(**SUMMED, **EVERYTHING, lovasz=lovasz)
    expected, expected_slopes = outcome(settings.build(4), logits, masks)
    found = []
    for loss in (settings.build(4), recomputed(settings.build(4))):
        torch.compiler.reset()
        loss.compile(backend="aot_eager")
        values, slopes = outcome(loss, logits, masks)
        torch.testing.assert_close(values, expected)
        torch.testing.assert_close(slopes, expected_slopes)
        found.append((values, slopes))
    if not lovasz:  # which is compiled around: recomputed chunks run without compiler there
        assert found[1][0] == found[0][0]
        assert torch.equal(found[1][1], found[0][1])
