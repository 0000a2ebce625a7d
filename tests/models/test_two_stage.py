"""Faster R-CNN and Mask R-CNN against torchvision's, in evaluation and training."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torchvision.models.detection import FasterRCNN, MaskRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator

from hires.losses.two_stage import FasterRcnnLossSettings, MaskRcnnLossSettings
from hires.models.backbone import BackboneSettings
from hires.models.detection.anchors import AnchorSettings
from hires.models.detection.faster_rcnn import FasterRcnnSettings
from hires.models.detection.mask_rcnn import MaskRcnnSettings
from hires.models.detection.neck import NeckSettings
from hires.models.detection.proposals import ProposalSettings
from hires.models.detection.regions import RegionSettings
from hires.models.trial import Trial
from hires.ops.dense import Choice
from hires.settings import SettingError
from tests import detectors
from tests.detectors import SIDE, Features, as_they_are, assert_same, assert_stages_cover, images

CHOICE = Choice(score=0.2, candidates=100_000, iou=0.5, most=20)
PARTS = {
    "neck": NeckSettings(levels=(2, 3, 4, 5), extra_levels=1, extra="pool", channels=32),
    "anchors": AnchorSettings(size_in_strides=4.0, scales=(1.0,)),
    "proposals": ProposalSettings(
        candidates=150, proposals=120, evaluation_candidates=100, evaluation_proposals=80, samples=64
    ),
    "regions": RegionSettings(hidden=64, samples=40),
}
LOSSES = {
    "objectness": "loss_objectness",
    "proposal_box": "loss_rpn_box_reg",
    "classification": "loss_classifier",
    "box": "loss_box_reg",
    "mask": "loss_mask",
}


class WithBackground(nn.Module):
    """A mask predictor with the background class that torchvision counts."""

    def __init__(self, predictor):
        super().__init__()
        self.predictor = predictor

    def forward(self, x):
        return F.pad(self.predictor(x), (0, 0, 0, 0, 1, 0))


def make(settings):
    torch.manual_seed(0)
    small = {"mask_convs": 2, "mask_channels": 16} if settings is MaskRcnnSettings else {}
    backbone = BackboneSettings("resnet10t", pretrained=False).build((SIDE, SIDE))
    network = settings(norm="group", **PARTS, **small).build(backbone, 3)
    torch.manual_seed(1)  # random outputs of all sizes and scores, the same with and without masks
    nn.init.normal_(network.head["rpn"].bbox_pred.weight, std=0.2)
    nn.init.normal_(network.head["rpn"].cls_logits.weight, std=0.5)
    nn.init.normal_(network.head["box"].predictor.cls_score.weight, std=1)
    nn.init.normal_(network.head["box"].predictor.bbox_pred.weight, std=1)
    return network.eval()


@pytest.fixture(params=[FasterRcnnSettings, MaskRcnnSettings], ids=["faster", "mask"])
def network(request):
    return make(request.param)


def reference(network):
    proposals, regions, head = PARTS["proposals"], PARTS["regions"], network.head
    kind, heads = FasterRCNN, {}
    if "mask" in head:
        kind = MaskRCNN
        heads = {
            "mask_roi_pool": head["mask"].pool,
            "mask_head": head["mask"].layers,
            "mask_predictor": WithBackground(head["mask"].predictor),
        }
    model = kind(
        Features(network),
        **heads,
        **as_they_are(),
        rpn_anchor_generator=AnchorGenerator(
            tuple((4 * s,) for s in network.neck.strides), ((0.5, 1.0, 2.0),) * len(network.neck.strides)
        ),
        rpn_head=head["rpn"],
        rpn_pre_nms_top_n_train=proposals.candidates,
        rpn_post_nms_top_n_train=proposals.proposals,
        rpn_pre_nms_top_n_test=proposals.evaluation_candidates,
        rpn_post_nms_top_n_test=proposals.evaluation_proposals,
        rpn_batch_size_per_image=proposals.samples,
        box_roi_pool=head["box"].pool,
        box_head=head["box"].layers,
        box_predictor=head["box"].predictor,
        box_score_thresh=CHOICE.score,
        box_nms_thresh=CHOICE.iou,
        box_detections_per_img=CHOICE.most,
        box_batch_size_per_image=regions.samples,
    )
    model.transform.torch_choice = lambda sizes: sizes[0]  # the original draws from the generator
    model.transform.postprocess = lambda found, *_: found  # which would paint the masks
    return model


def target(count, ignored=False, seed=2):
    rng = torch.Generator().manual_seed(seed)
    truth = detectors.target(rng, count, ignored)
    return truth | {"masks": torch.randint(2, (count, SIDE, SIDE), generator=rng, dtype=torch.uint8)}


@torch.no_grad()
def test_same_detections_as_torchvision(network):
    expected = reference(network).eval()(list(images(2)))
    found = network.detect(network(images(2)), (SIDE, SIDE), CHOICE)
    for ours, theirs in zip(found, expected, strict=True):
        assert 5 < len(ours.boxes) <= CHOICE.most
        assert_same(ours, theirs, background=1)
        if "masks" in theirs:
            torch.testing.assert_close(ours.masks, theirs["masks"][:, 0], atol=1e-4, rtol=1e-4)
            assert torch.equal(ours.frames, ours.boxes)


def losses(network, targets, seed=0):
    kind = MaskRcnnLossSettings if "mask" in network.head else FasterRcnnLossSettings
    loss = kind().build()
    torch.manual_seed(seed)
    outputs = network(images(len(targets)), targets)
    return loss(outputs, targets, loss.normalizers(targets, network.anchors_of))


@torch.no_grad()
@pytest.mark.parametrize("count", [0, 6, 40])
def test_same_losses_as_torchvision(network, count):
    model, truth = reference(network).train(), target(count)
    torch.manual_seed(0)
    expected = model(list(images(1)), [{**truth, "labels": truth["labels"] + 1}])
    found = losses(network, [truth])
    assert len(found) == len(expected)
    for name, value in found.items():
        assert value > 0 or count == 0
        torch.testing.assert_close(value, expected[LOSSES[name]], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_images_count_alike(network):
    both = [target(3), target(9, seed=3)]
    whole = losses(network, both)
    torch.manual_seed(0)
    outputs = network(images(2), both)
    for name in ("anchors", "boxes"):
        weights = getattr(outputs, name).weights
        torch.testing.assert_close(weights.sum(), torch.tensor(2.0))
    assert all(torch.isfinite(value) for value in whole.values())


@torch.no_grad()
def test_ignored_objects_are_not_learnt(network):
    crowd = target(12, ignored=True)
    outputs = network(images(1), [crowd])
    assert not outputs.anchors.labels.any()
    assert not outputs.boxes.labels.any()
    settings = network.settings
    anchors = network.anchors_of((SIDE, SIDE))
    for drawn in (settings.proposals.draw(anchors, crowd), settings.regions.draw(torch.cat(anchors), crowd)):
        assert len(drawn.boxes) > 0
        overlap = torch.minimum(drawn.boxes[:, None, 2:], crowd["boxes"][:, 2:]) - torch.maximum(
            drawn.boxes[:, None, :2], crowd["boxes"][:, :2]
        )
        area = (drawn.boxes[:, 2:] - drawn.boxes[:, :2]).prod(1)
        assert (overlap.clamp(min=0).prod(-1).amax(1) < 0.5 * area).all()


def test_every_parameter_learns(network):
    sum(losses(network.train(), [target(8)]).values()).backward()
    assert {name for name, p in network.named_parameters() if p.grad is None} == set()


def test_images_without_objects_train(network):
    found = losses(network.train(), [target(0), target(0)])
    sum(found.values()).backward()
    assert found["box"] == 0
    assert found["proposal_box"] == 0
    assert found["classification"] > 0
    assert network.head["rpn"].cls_logits.weight.grad.any()


def test_shapes_can_be_tried(network, caplog):
    with caplog.at_level("INFO"):
        network.check([Trial("image_size", (64, 96), 2, True), Trial("evaluation.window", (64, 64), 1, False)])
    assert not caplog.records
    assert not network.training


def test_stages_cover_every_parameter(network):
    stages = network.stages()
    assert list(stages) == ["stem", "stage1", "stage2", "stage3", "stage4", "neck", "head"]
    assert stages["head"] == tuple(f"head.{name}" for name in ("rpn", "box", "mask") if name in network.head)
    assert_stages_cover(network)


def test_boxes_stay_float32_under_autocast(network):
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        outputs = network(images(1))
        (found,) = network.detect(outputs, (SIDE, SIDE), CHOICE)
        learnt = network(images(1), [target(5)])
        losses = FasterRcnnLossSettings().build()(learnt, [target(5)], {"images": torch.tensor(1)})
    assert outputs.logits.dtype == torch.bfloat16
    parts = [*outputs.proposals, found.boxes, found.scores, *losses.values()]
    parts += [learnt.anchors.deltas, learnt.anchors.wanted, learnt.boxes.logits, learnt.boxes.wanted]
    assert {part.dtype for part in parts} == {torch.float32}


@torch.no_grad()
def test_nothing_found(network):
    (found,) = network.detect(network(images(1)), (SIDE, SIDE), CHOICE._replace(score=1.0))
    assert found.boxes.shape == (0, 4)
    assert found.masks is None or found.masks.shape == (0, 28, 28)


def test_thresholds_in_order():
    with pytest.raises(SettingError, match="^background_iou: got 0.8"):
        ProposalSettings(background_iou=0.8)
