"""Every network on every kind of backbone: builds, trains a step, evaluates any size, or says why not."""

import numpy as np
import pytest
import torch

from hires.engine.evaluate import FittingViews, evaluate
from hires.engine.step import train_step
from hires.engine.views import Views
from hires.interfaces import ConfigError, Sample
from hires.models.backbone import BackboneSettings
from hires.models.segmentation.deeplabv3plus import DeepLabV3PlusSettings
from hires.models.segmentation.fpn import FpnSettings
from hires.models.segmentation.segformer import SegformerSettings
from hires.models.segmentation.unet import UnetSettings
from hires.models.segmentation.upernet import UpernetSettings
from hires.models.trial import Trial
from hires.tasks.segmentation import SegmentationSettings

NETWORKS = {
    "unet": UnetSettings(norm="group", decoder_channels=(32, 16, 16, 8, 8)),
    "fpn": FpnSettings(norm="group", pyramid_channels=32, segmentation_channels=32),
    "upernet": UpernetSettings(norm="group", decoder_channels=32),
    "deeplabv3plus": DeepLabV3PlusSettings(norm="group", decoder_channels=32),
    "segformer": SegformerSettings(norm="group", decoder_channels=32),
}
BACKBONES = [
    "resnet18",
    "convnext_atto",
    "efficientnet_b0",
    "mobilenetv4_conv_small",
    "regnety_002",
    "swin_tiny_patch4_window7_224",
    "pvt_v2_b0",
    "maxvit_rmlp_pico_rw_256",
    "mit_b0",
    "vit_tiny_patch16_224",
    "test_resnet",
    "test_efficientnet",
    "test_convnext",
    "test_vit",
]
CLASSES = 3
SIZE = (64, 64)


class Source:
    """Two images whose sides are multiples of nothing."""

    classes = ("a", "b", "c")

    def __init__(self):
        rng = np.random.default_rng(0)
        self.images = [rng.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in ((70, 101), (33, 50))]

    def __len__(self):
        return len(self.images)

    def read(self, index, window=None):
        image = self.images[index]
        return image, {"mask": (image[..., 0] // 86).astype(np.uint8)}


def make_task(network, backbone):
    torch.manual_seed(0)
    built = NETWORKS[network].build(BackboneSettings(name=backbone, pretrained=False).build(SIZE), CLASSES)
    built.check([Trial("image_size", SIZE, 1, True), Trial("evaluation.window", SIZE, 1, False)])
    return SegmentationSettings().build(built, CLASSES)


def samples(count):
    rng = np.random.default_rng(1)
    for _ in range(count):
        image = torch.from_numpy(rng.integers(0, 256, (3, *SIZE), dtype=np.uint8))
        yield Sample(image, {"mask": image[0] // 86}, "generated")


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("network", NETWORKS)
def test_trains_a_step_and_evaluates_any_size(network, backbone):
    task = make_task(network, backbone)
    before = [parameter.detach().clone() for parameter in task.parameters()]
    optimizer = torch.optim.SGD(task.parameters(), lr=0.01)
    for _ in range(2):  # the last norm of a residual block may begin at zero: what is before it waits a step
        losses = train_step(task, list(samples(1)), optimizer=optimizer, micro_batch_size=1)
    assert all(np.isfinite(float(value)) for value in losses.values())
    moved = [not torch.equal(a, b) for a, b in zip(before, task.parameters(), strict=True)]
    assert np.mean(moved) > 0.7
    source = Source()
    evaluator = SegmentationSettings().evaluator(source.classes)
    evaluate(task, source, evaluator, FittingViews(Views("window", SIZE)))
    assert evaluator.confusion.counts.sum() == 70 * 101 + 33 * 50


@pytest.mark.parametrize("backbone", BACKBONES)
def test_stages_hold_every_parameter_once(backbone):
    task = make_task("unet", backbone)
    stages = task.stages()
    assert [s for s in stages if s != "neck"] == [
        "stem", "stage1", "stage2", "stage3", "stage4", "decoder", "head", "loss",
    ]  # fmt: skip
    inside = [id(p) for names in stages.values() for n in names for p in task.get_submodule(n).parameters()]
    assert len(inside) == len(set(inside))
    loose = [n for n, p in task.named_parameters() if id(p) not in set(inside)]
    assert all("pos_embed" in n or "cls_token" in n or "reg_token" in n for n in loose), loose


@pytest.mark.parametrize(
    ("backbone", "reason"),
    [
        ("levit_128s", "strides"),
        ("vit_tiny_patch99", "timm has no model"),
        ("convmixer_768_32", "cannot be built"),
    ],
)
def test_what_cannot_be_is_refused(backbone, reason):
    with pytest.raises(ConfigError, match=reason):
        make_task("unet", backbone)


@pytest.mark.parametrize("network", ["upernet", "deeplabv3plus"])
def test_batch_norm_of_one_value_is_told_before_the_first_step(network):
    settings = type(NETWORKS[network])()
    built = settings.build(BackboneSettings(name="test_resnet", pretrained=False).build(SIZE), CLASSES)
    before = {name: value.clone() for name, value in built.state_dict().items()}
    random = torch.get_rng_state()
    with pytest.raises(ConfigError, match=r"^model.norm: BatchNorm .* model.norm=group"):
        built.check([Trial("image_size", SIZE, 1, True)])
    built.check([Trial("image_size", SIZE, 2, True)])
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in built.state_dict().items())


def test_another_evaluation_window_than_a_model_can_is_told():
    backbone = BackboneSettings(name="maxvit_rmlp_pico_rw_256", pretrained=False).build(SIZE)
    built = NETWORKS["unet"].build(backbone, CLASSES)
    with pytest.raises(ConfigError, match=r"^evaluation.window: .*leave evaluation.window at null"):
        built.check([Trial("evaluation.window", (96, 96), 1, False)])


@pytest.mark.parametrize("backbone", ["swin_tiny_patch4_window7_224", "vit_tiny_patch16_224", "mixer_s16_224"])
def test_models_made_for_one_size_take_other_windows_or_say_so(backbone):
    built = NETWORKS["fpn"].build(BackboneSettings(name=backbone, pretrained=False).build(SIZE), CLASSES).eval()
    other = Trial("evaluation.window", (96, 160), 1, False)
    if backbone.startswith("mixer"):
        with pytest.raises(ConfigError, match="leave evaluation.window at null"):
            built.check([other])
        return
    built.check([other])
    with torch.inference_mode():
        assert built(torch.rand(1, 3, 96, 160)).shape[:2] == (1, CLASSES)


def test_patches_of_14_pixels_become_16():
    backbone = BackboneSettings(name="vit_small_patch14_dinov2", pretrained=False).build(SIZE)
    assert backbone.strides == (4, 8, 16, 32)
    assert backbone.eval()(torch.rand(1, 3, *SIZE))[2].shape[-2:] == (4, 4)
