"""The graphs that are exported, run by torch: they do what the networks do."""

import pytest
import torch
from torch import nn

from hires.interfaces import Batch
from hires.models.pooling import WrittenOutPool, write_out_pools
from hires.ops.agreement import detections, numbers
from hires.tasks.graphs import GraphSettings
from tests.integration.test_export import BOXES, DETECTION, model
from tests.made_runs import CLASSES, images, lively_task, suppressed
from tests.recipes import small_recipe


@pytest.mark.parametrize("size", [(2, 3), (6, 6), (7, 20), (13, 5)])
@pytest.mark.parametrize("cells", [(1, 3), (2, 2), (6, 6)])
def test_written_out_pools_are_pools(size, cells):
    x = torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(WrittenOutPool(cells)(x), nn.AdaptiveAvgPool2d(cells)(x))


def test_pools_within_a_module_are_exchanged_but_for_those_of_everything():
    module = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Sequential(nn.AdaptiveAvgPool2d(3)), nn.MaxPool2d(2))
    write_out_pools(module)
    assert isinstance(module[0], nn.AdaptiveAvgPool2d)
    assert isinstance(module[1][0], WrittenOutPool)
    assert module[1][0].cells == (3, 3)


@pytest.mark.parametrize("name", DETECTION)
def test_detectors(name):
    common = ("memory=fixed", "image_size=64", "batch_size=1")
    task = lively_task(small_recipe(*common, *model(name, DETECTION), *BOXES), CLASSES)
    exportable = task.graph(GraphSettings(), "uint8")
    for size in ((64, 96), (96, 64)):
        pixels = images(1, size, seed=3)
        with torch.no_grad():
            found, wanted = exportable.graph(pixels.float()), task.predict(Batch(pixels, []))[0]
            judged, dropped = exportable.judge(pixels, found), suppressed(task, pixels)
        assert len(exportable.outputs) == len(found) == (4 if name == "mask_rcnn" else 3)
        assert min(dropped, len(wanted.scores)) >= 5
        ours = [wanted.boxes, wanted.scores, wanted.labels] + ([wanted.masks] if name == "mask_rcnn" else [])
        agreed = detections(tuple(ours), found, 1e-3)
        assert agreed.unmatched == 0
        assert agreed.difference < 1e-4
        assert judged == agreed


def test_all_anchors_of_a_dense_detector():
    common = ("memory=fixed", "image_size=64", "batch_size=1")
    task = lively_task(small_recipe(*common, *model("fcos", DETECTION), *BOXES), CLASSES)
    exportable = task.graph(GraphSettings(postprocess=False, normalize=False), "uint8")
    pixels = images(2, (64, 96), seed=3)
    with torch.no_grad():
        boxes, scores = exportable.graph(task.normalize(pixels))
        found = task.predict(Batch(pixels, []))
        assert exportable.judge(pixels, (boxes, scores)).difference < 1e-4
        assert not exportable.judge(pixels, (boxes, scores + 0.1)).difference < 1e-3
    anchors = 8 * 12 + 4 * 6 + 2 * 3 + 1 * 2 + 1
    assert (boxes.shape, scores.shape) == ((2, anchors, 4), (2, anchors, 3))
    for image, best in enumerate(found):  # the best detection of all is no other's victim
        place = int(scores[image].amax(1).argmax())
        assert numbers(best.boxes[0], boxes[image, place]).difference < 1e-4
