"""What kernels take for themselves on the CPU is measured in small, and right in large."""

import pytest
import torch
from torch.nn import functional

from hires.memory.meter import Recorder
from hires.memory.timeline import WORKSPACE
from hires.memory.workspace import MeasuredWorkspace, measure
from hires.memory.workspace_cuda import CudaWorkspace

aten = torch.ops.aten


def extras(run):
    """Bytes of workspace of the operations of a run, by the name of the operation."""
    return {kind.function.overloadpacket.__name__: extra for kind, _, extra in measure(run)}


def test_an_operation_without_workspace():
    x = torch.ones(1000)
    assert extras(lambda: x + x) == {"add": 0}


def test_the_copy_that_another_type_needs():
    """float32 times bool: the kernel first makes numbers of the booleans."""
    x, mask = torch.ones(64, 1000), torch.ones(64, 1000, dtype=torch.bool)
    assert extras(lambda: x * mask)["mul"] == pytest.approx(4 * mask.numel(), abs=1024)


def test_the_copy_that_another_layout_needs():
    x = torch.randn(2, 16, 64, 64)
    turned = x.permute(0, 2, 3, 1).reshape(-1, 16).t()
    assert extras(lambda: functional.layer_norm(turned, turned.shape[1:]))["native_layer_norm"] >= 4 * x.numel()


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("channels_last", [False, True])
def test_a_convolution_four_times_as_large(precision, channels_last):
    layout = torch.channels_last if channels_last else torch.contiguous_format
    weight = torch.randn(32, 16, 3, 3, dtype=precision).contiguous(memory_format=layout)

    def run(side):
        image = torch.randn(2, 16, side, side, dtype=precision).contiguous(memory_format=layout)
        weight.requires_grad_()
        functional.conv2d(image.requires_grad_(), weight, padding=1).sum().backward()

    def convolutions(side):
        run(side)  # what is done once, the first time
        found = measure(lambda: run(side))
        return {
            kind.function: (kind, size, extra)
            for kind, size, extra in found
            if kind.function in (aten.convolution.default, aten.convolution_backward.default)
        }

    predict = MeasuredWorkspace([each for side in (32, 64) for each in convolutions(side).values()])
    large = convolutions(128)
    assert len(large) == 2
    for function, (_, size, extra) in large.items():
        predicted = _predicted(predict, function, side=128, weight=weight, layout=layout)
        assert predicted == pytest.approx(extra, rel=0.02, abs=4096), function
        assert predicted < 4 * size


def _predicted(predict, function, *, side, weight, layout):
    image = torch.empty(2, 16, side, side, dtype=weight.dtype).contiguous(memory_format=layout)
    result = torch.empty(2, 32, side, side, dtype=weight.dtype).contiguous(memory_format=layout)
    strides = [1, 1], [1, 1], [1, 1], False, [0, 0], 1
    if function is aten.convolution.default:
        return predict(function, (image, weight, None, *strides), result)
    # the gradient of a sum is one number, spread out
    gradient = torch.ones((), dtype=weight.dtype).expand(result.shape)
    return predict(function, (gradient, image, weight, [0], *strides, [True, True, False]), (image, weight, None))


def line(*points, function=aten.neg.default):
    """What is predicted for tensors of some sizes from points of (numbers, bytes of workspace)."""
    operations = []
    for count, extra in points:
        ((kind, size, _),) = measure(lambda count=count: torch.ones(count).neg())[1:]
        operations.append((kind, size, extra))
    predict = MeasuredWorkspace(operations)
    return lambda count: predict(function, (torch.empty(count),), torch.empty(count))


def test_between_and_beyond_the_points():
    predict = line((100, 1000), (200, 3000))
    assert [predict(count) for count in (100, 150, 200, 400)] == [1000, 2000, 3000, 7000]


def test_it_is_not_less_than_nothing_and_does_not_fall():
    assert line((100, 1000), (200, 3000))(1) == 0
    assert line((100, 3000), (200, 1000))(400) >= 1000


def test_one_point():
    predict = line((100, 1000))
    assert predict(50) == 500
    assert predict(100) == 1000


def test_unknown_operations_take_nothing():
    assert line((100, 1000), function=aten.exp.default)(100) == 0
    assert MeasuredWorkspace([])(aten.neg.default, (torch.ones(3),), torch.ones(3)) == 0
    assert MeasuredWorkspace([]).fixed == 0


def test_other_types_are_other_operations():
    predict = MeasuredWorkspace(measure(lambda: torch.ones(1000) * torch.ones(1000, dtype=torch.bool)))
    both = torch.ones(1000)
    assert predict(aten.mul.Tensor, (both, both), both) == 0
    assert predict(aten.mul.Tensor, (both, both.bool()), both) > 3000


def test_a_recorded_step_has_it():
    x, mask = torch.ones(1000), torch.ones(1000, dtype=torch.bool)
    with Recorder(torch.device("cpu"), MeasuredWorkspace(measure(lambda: x * mask))) as recorder:
        x * mask
    (block,) = (block for block in recorder.timeline.blocks if block.category == WORKSPACE)
    assert block.size == pytest.approx(4000, abs=256)
    assert block.died == block.born + 1


def cuda_extra(image, weight, groups=1, backward=False):
    """Of a convolution, the copies of its input, its weights and its result."""
    predict, result = CudaWorkspace(), torch.empty(2, len(weight), *image.shape[2:], dtype=image.dtype)
    strides = [1, 1], [1, 1], [1, 1], False, [0, 0], groups
    if backward:
        arguments = (result, image, weight, None, *strides, [True, True, True])
        return predict(aten.convolution_backward.default, arguments, (image, weight, None))
    return predict(aten.convolution.default, (image, weight, None, *strides), result)


def test_cuda_copies_what_is_not_channels_last():
    image, weight = torch.empty(2, 16, 8, 8, dtype=torch.half), torch.empty(32, 16, 3, 3, dtype=torch.half)
    assert cuda_extra(image, weight) == 2 * (image.numel() + weight.numel() + 2 * 32 * 8 * 8)
    assert cuda_extra(image, weight, backward=True) >= 2 * (image.numel() + 2 * 32 * 8 * 8)
    assert cuda_extra(image.contiguous(memory_format=torch.channels_last), weight) == 0
    assert cuda_extra(image, torch.empty(16, 1, 3, 3), groups=16) == 0
    assert CudaWorkspace()(aten.neg.default, (image,), image) == 0
    assert CudaWorkspace.fixed == 8 * 2**20 + 2**17
