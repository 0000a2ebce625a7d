"""What others have published of memory in training on CUDA, and the networks and batches behind the figures."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from published_backbones import ConvNext, MixTransformer, ResNet, Unet, Vit
from published_models import (
    AsppHead,
    FcnHead,
    PspHead,
    RetinaNet,
    SegformerHead,
    Segmentor,
    SemanticFpnHead,
    TorchvisionFcn,
    Tsn,
    UperHead,
)
from torch import Tensor, nn

RESNET = (256, 512, 1024, 2048)
MMSEG = "https://github.com/open-mmlab/mmsegmentation/blob/"
SOURCES = {
    "fcn": MMSEG + "02e04cc213fa7fe5313258e27fcca6c8d4ef8e23/configs/fcn/README.md",
    "pspnet": MMSEG + "02e04cc213fa7fe5313258e27fcca6c8d4ef8e23/configs/pspnet/README.md",
    "deeplabv3plus": MMSEG + "0999c55813344b9f3d1471d6ce9f570081370514/configs/deeplabv3plus/README.md",
    "upernet": MMSEG + "0b127a561528062ea1086ccb80808da46be3639f/configs/upernet/README.md",
    "sem_fpn": MMSEG + "0b127a561528062ea1086ccb80808da46be3639f/configs/sem_fpn/README.md",
    "unet": MMSEG + "0b127a561528062ea1086ccb80808da46be3639f/configs/unet/README.md",
    "convnext": MMSEG + "104429be008d84cd4ca7f162e2fd04f93c77e8ad/configs/convnext/README.md",
    "vit": MMSEG + "08272b620840977398b4cc88d65621faa81dc915/configs/vit/README.md",
    "segformer": MMSEG + "02e04cc213fa7fe5313258e27fcca6c8d4ef8e23/configs/segformer/README.md",
    "retinanet": "https://github.com/open-mmlab/mmdetection/blob/"
    "10e91fd224d83c1a49ef6474cd36e70d0295b1aa/configs/retinanet/README.md",
    "torchvision": "https://github.com/pytorch/vision/pull/4994",
    "tsn": "https://github.com/open-mmlab/mmaction2/blob/"
    "01f8899ab71c550bac09d4914e0423a042991e23/configs/recognition/tsn/README.md",
}
EVIDENCE = {
    "MMSegmentation: max_memory_allocated without cudnn.benchmark; speed on V100, PyTorch 1.5, cuDNN 7.6": MMSEG
    + "94f9cb4e1dbffa13323dde65ce13b8af61e5ff07/docs/en/model_zoo.md",
    "MMSegmentation: GB is MiB / 1024": "https://github.com/open-mmlab/mmsegmentation/issues/1215",
    "MMDetection: max_memory_allocated": "https://github.com/open-mmlab/mmdetection/blob/"
    "10e91fd224d83c1a49ef6474cd36e70d0295b1aa/docs/en/model_zoo.md",
    "softmax kept its input": "https://github.com/pytorch/pytorch/issues/64000",
    "until October 2021": "https://github.com/pytorch/pytorch/pull/66018",
    "cuBLAS's workspace was not of torch's allocator": "https://github.com/pytorch/pytorch/issues/95668",
    "cuDNN's default algorithms on V100": "https://github.com/pytorch/pytorch/issues/13412",
    "93 boxes in one image of COCO": "https://github.com/fchollet/deep-learning-with-python-notebooks/issues/299",
}

Batch = Callable[[], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Published:
    """A figure as printed, and the step behind it."""

    name: str
    stated: str  # GB are read as GiB
    source: str
    build: Callable[[], nn.Module]
    batch: Batch
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD
    half: bool = False  # float16 by autocast

    @property
    def bytes(self) -> int:
        number, unit = self.stated.split()
        return round(float(number) * {"GB": 2**30, "MiB": 2**20}[unit])


def images(count: int, height: int, width: int) -> Batch:
    """Images and a label for every pixel."""
    return lambda: (torch.empty(count, 3, height, width), torch.empty(count, height, width, dtype=torch.long))


def boxes() -> Batch:
    """Two of the largest images of COCO, resized to 800 x 1333 and padded, with the most boxes that one has."""
    return lambda: (torch.empty(2, 3, 800, 1344), torch.empty(2, 93, 4))


def videos() -> Batch:
    return lambda: (torch.empty(32, 3, 3, 224, 224), torch.empty(32, dtype=torch.long))


def auxiliary(width: int, classes: int) -> FcnHead:
    return FcnHead(width, 256, classes, level=2)


def dilated(depth: int, head: Callable[[int, int], nn.Module], classes: int = 19) -> Callable[[], nn.Module]:
    return lambda: Segmentor(ResNet(depth, dilated=True), head(2048, classes), auxiliary(1024, classes))


def fcn_head(inputs: int, classes: int) -> FcnHead:
    return FcnHead(inputs, 512, classes, level=3, count=2, joined=True)


def upernet(depth: int, classes: int = 19) -> Callable[[], nn.Module]:
    return lambda: Segmentor(ResNet(depth), UperHead(RESNET, classes), auxiliary(1024, classes))


def semantic_fpn(depth: int, classes: int = 19) -> Callable[[], nn.Module]:
    return lambda: Segmentor(ResNet(depth), SemanticFpnHead(RESNET, classes))


def unet() -> nn.Module:
    return Segmentor(Unet(), FcnHead(64, 64, 2, level=4), FcnHead(128, 64, 2, level=3))


def convnext(size: str, width: int, drop_path: float = 0.4) -> Callable[[], nn.Module]:
    widths = [width * 2**level for level in range(4)]
    return lambda: Segmentor(
        ConvNext(f"convnext_{size}", drop_path), UperHead(widths, 150), auxiliary(widths[2], 150)
    )


def vit() -> nn.Module:
    return Segmentor(Vit(), UperHead([768] * 4, 150), FcnHead(768, 256, 150, level=3))


def segformer() -> nn.Module:
    return Segmentor(MixTransformer(), SegformerHead(MixTransformer.WIDTHS, 150))


CITY, ADE = images(2, 512, 1024), images(4, 512, 512)
PAIR, LARGE = images(2, 512, 512), images(2, 640, 640)
ADAM, HALF = {"optimizer": torch.optim.AdamW}, {"optimizer": torch.optim.AdamW, "half": True}
FIGURES: list[Published] = [
    Published("FCN R-50-D8, 2 x 512x1024", "5.7 GB", "fcn", dilated(50, fcn_head), CITY),
    Published("PSPNet R-101-D8, 2 x 512x1024", "9.6 GB", "pspnet", dilated(101, PspHead), CITY),
    Published("DeepLabV3+ R-50-D8, 4 x 512x512", "10.6 GB", "deeplabv3plus", dilated(50, AsppHead, 150), ADE),
    Published("UPerNet R-50, 2 x 512x1024", "6.4 GB", "upernet", upernet(50), CITY),
    Published("Semantic FPN R-50, 2 x 512x1024", "2.8 GB", "sem_fpn", semantic_fpn(50), CITY),
    Published("UNet-S5-D16, 4 x 256x256", "2.525 GB", "unet", unet, images(4, 256, 256)),
    Published("UPerNet ConvNeXt-T fp16, 2 x 512x512", "4.23 GB", "convnext", convnext("tiny", 96), PAIR, **HALF),
    Published("UPerNet ViT-B + MLN, 2 x 512x512", "9.20 GB", "vit", vit, PAIR, **ADAM),
    Published("SegFormer MiT-B2, 2 x 512x512", "3.6 GB", "segformer", segformer, PAIR, **ADAM),
    Published("RetinaNet R-50 FPN, 2 x 800x1333", "3.8 GB", "retinanet", RetinaNet, boxes()),
    Published("FCN R-50 torchvision, 4 x 480x480", "4723 MiB", "torchvision", TorchvisionFcn, images(4, 480, 480)),
    Published("TSN R-50, 32 x 3 x 224x224", "8344 MiB", "tsn", Tsn, videos()),
]
MORE: list[Published] = [
    Published("FCN R-50-D8, 2 x 769x769", "6.5 GB", "fcn", dilated(50, fcn_head), images(2, 769, 769)),
    Published("FCN R-101-D8, 2 x 512x1024", "9.2 GB", "fcn", dilated(101, fcn_head), CITY),
    Published("PSPNet R-50-D8, 2 x 512x1024", "6.1 GB", "pspnet", dilated(50, PspHead), CITY),
    Published("DeepLabV3+ R-50-D8, 2 x 512x1024", "7.5 GB", "deeplabv3plus", dilated(50, AsppHead), CITY),
    Published("DeepLabV3+ R-101-D8, 4 x 512x512", "14.1 GB", "deeplabv3plus", dilated(101, AsppHead, 150), ADE),
    Published("UPerNet R-101, 2 x 512x1024", "7.4 GB", "upernet", upernet(101), CITY),
    Published("UPerNet R-50, 4 x 512x512, 150 classes", "8.1 GB", "upernet", upernet(50, 150), ADE),
    Published("UPerNet R-50, 4 x 512x512, 21 classes", "6.4 GB", "upernet", upernet(50, 21), ADE),
    Published("Semantic FPN R-101, 2 x 512x1024", "3.9 GB", "sem_fpn", semantic_fpn(101), CITY),
    Published("Semantic FPN R-50, 4 x 512x512", "4.9 GB", "sem_fpn", semantic_fpn(50, 150), ADE),
    Published("UNet-S5-D16, 4 x 128x128", "0.968 GB", "unet", unet, images(4, 128, 128)),
    Published("UNet-S5-D16, 4 x 64x64", "0.680 GB", "unet", unet, images(4, 64, 64)),
    Published(
        "UPerNet ConvNeXt-S fp16, 2 x 512x512", "5.16 GB", "convnext", convnext("small", 96, 0.3), PAIR, **HALF
    ),
    Published("UPerNet ConvNeXt-B fp16, 2 x 512x512", "6.33 GB", "convnext", convnext("base", 128), PAIR, **HALF),
    Published("UPerNet ConvNeXt-B fp16, 2 x 640x640", "8.53 GB", "convnext", convnext("base", 128), LARGE, **HALF),
    Published("RetinaNet R-18 FPN, 2 x 800x1333", "1.7 GB", "retinanet", lambda: RetinaNet(18), boxes()),
    Published("RetinaNet R-101 FPN, 2 x 800x1333", "5.7 GB", "retinanet", lambda: RetinaNet(101), boxes()),
    Published("TSN R-50, 32 x 3 x 224x224, 101 classes", "8332 MiB", "tsn", lambda: Tsn(101), videos()),
]
"""More figures of the same networks, to see whether what was concluded from the first ones holds."""
