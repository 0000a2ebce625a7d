"""Mix transformers (SegFormer's encoders, Xie et al. 2021), which timm does not have, in the shape of timm's."""

from typing import Any

from segmentation_models_pytorch.encoders import get_encoder
from segmentation_models_pytorch.encoders.mix_transformer import mix_transformer_encoders
from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.models import FeatureInfo, load_state_dict
from torch import Tensor, nn

NAMES = tuple(mix_transformer_encoders)
_CONFIG = {
    "mean": IMAGENET_DEFAULT_MEAN,
    "std": IMAGENET_DEFAULT_STD,
    "license": "NVIDIA source code licence for SegFormer, non-commercial",
}


class MixTransformer(nn.Module):
    """Feature maps at strides 4, 8, 16, 32. `model` and `feature_info` as those of timm's feature networks.

    `file` holds weights under the library's names. Raises OSError when a download fails.
    """

    def __init__(
        self,
        name: str,
        *,
        pretrained: bool = False,
        in_chans: int = 3,
        file: str | None = None,
        drop_path_rate: float | None = None,
    ):
        super().__init__()
        self.model: Any = get_encoder(name, in_channels=in_chans, weights="imagenet" if pretrained else None)
        if file is not None:
            # the encoder's own method is strict; what is missing is counted by the caller
            nn.Module.load_state_dict(self.model, load_state_dict(file), strict=False)
        if drop_path_rate is not None:
            self.model.reset_drop_path(drop_path_rate)
        self.model.pretrained_cfg = _CONFIG
        self.model.group_matcher = _group_matcher
        widths = self.model.out_channels[2:]
        infos = [
            {"num_chs": width, "reduction": 4 * 2**i, "module": f"norm{i + 1}"} for i, width in enumerate(widths)
        ]
        self.feature_info = FeatureInfo(infos, out_indices=(0, 1, 2, 3))

    def forward(self, x: Tensor) -> list[Tensor]:
        features: list[Tensor] = self.model(x)
        return features[2:]  # before them: the image, and nothing at stride 2


def stages() -> dict[str, tuple[str, ...]]:
    """Children of `model` by stage; they are not made in the order in which they run."""
    later = {f"stage{i}": (f"patch_embed{i}", f"block{i}", f"norm{i}") for i in (2, 3, 4)}
    return {"stem": ("patch_embed1",), "stage1": ("block1", "norm1"), **later}


def _group_matcher(coarse: bool = False) -> dict[str, Any]:
    if coarse:
        return {"stem": r"^patch_embed1", "blocks": r"^(?:patch_embed|block|norm)(\d+)"}
    return {
        "stem": r"^patch_embed1",
        "blocks": [(r"^block(\d+)\.(\d+)", None), (r"^patch_embed(\d+)", (0,)), (r"^norm(\d+)", (99999,))],
    }
