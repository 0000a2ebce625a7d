"""Backbones: strides, stages, freezing, channels and weights of timm models."""

import logging

import pytest
import timm
import torch

from hires.interfaces import ConfigError
from hires.models.backbone import BackboneSettings

NAMES = [
    "test_resnet",
    "resnet10t",
    "convnext_atto",
    "test_efficientnet",
    "mobilenetv3_small_050",
    "mobilenetv4_conv_small_035",
    "regnety_002",
    "dla46_c",
    "hrnet_w18_small",
]


def make(name, **settings):
    torch.manual_seed(0)
    return BackboneSettings(name=name, pretrained=False, **settings).build()


@pytest.mark.parametrize("name", NAMES)
def test_feature_maps_have_the_strides_and_channels_that_are_said(name):
    backbone = make(name).eval()
    features = backbone(torch.rand(1, 3, 64, 96))
    assert backbone.strides[-4:] == (4, 8, 16, 32)
    for feature, stride, channels in zip(features, backbone.strides, backbone.channels, strict=True):
        assert feature.shape == (1, channels, 64 // stride, 96 // stride)


@pytest.mark.parametrize("name", NAMES)
def test_stages_name_every_module_with_parameters_once(name):
    backbone = make(name)
    stages = backbone.stages()
    assert list(stages) == ["stem", "stage1", "stage2", "stage3", "stage4"]
    assert all(stages.values())
    modules = [backbone.get_submodule(n) for names in stages.values() for n in names]
    covered = [id(p) for module in modules for p in module.parameters()]
    assert len(covered) == len(set(covered))
    x = torch.rand(2, 3, 64, 64)
    sum(f.mean() for f in backbone(x)).backward()
    used = {id(p) for p in backbone.parameters() if p.grad is not None}
    assert used <= set(covered)


def test_frozen_stages_do_not_train_and_keep_their_statistics():
    backbone = make("test_resnet", freeze=["stem", "stage2"])  # in training mode, as modules are when made
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    sum(f.mean() for f in backbone(torch.rand(2, 3, 64, 64))).backward()
    frozen = [n for stage in ("stem", "stage2") for n in backbone.stages()[stage]]
    for name, parameter in backbone.named_parameters():
        inside = any(name.startswith(f"{prefix}.") for prefix in frozen)
        assert inside == (parameter.grad is None), name
    for name, value in backbone.state_dict().items():
        if any(name.startswith(f"{prefix}.") for prefix in frozen):
            assert torch.equal(value, before[name]), name
    assert any(not torch.equal(v, before[n]) for n, v in backbone.state_dict().items() if "running_mean" in n)


@pytest.mark.parametrize("channels", [1, 4])
def test_other_input_channels(channels):
    backbone = make("test_resnet", in_channels=channels)
    assert len(backbone.eval()(torch.rand(1, channels, 32, 32))) == 5
    assert len(backbone.mean) == len(backbone.std) == channels


@pytest.mark.parametrize("channels", [1, 3])
def test_weights_from_a_file(tmp_path, channels):
    model = timm.create_model("test_resnet", pretrained=False)
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    backbone = make("test_resnet", weights=str(tmp_path / "weights.pth"), in_channels=channels)
    own = backbone.net.model.layer1[0].conv1.weight
    assert torch.equal(own, model.layer1[0].conv1.weight)


def test_wrong_weights_file(tmp_path):
    with pytest.raises(ConfigError, match="backbone.weights: .*missing.pth is not a file"):
        make("test_resnet", weights=str(tmp_path / "missing.pth"))
    (tmp_path / "text.pth").write_text("no weights")
    with pytest.raises(ConfigError, match=r"backbone.weights: .*text.pth does not load into test_resnet"):
        make("test_resnet", weights=str(tmp_path / "text.pth"))


def test_weights_of_something_else(tmp_path):
    """timm would load none of them and go on with random weights."""
    other = {f"backbone.{name}": value for name, value in make("test_resnet").net.model.state_dict().items()}
    torch.save(other, tmp_path / "other.pth")
    with pytest.raises(ConfigError, match=r"other.pth has only 0 of \d+ weight tensors"):
        make("test_resnet", weights=str(tmp_path / "other.pth"))


@pytest.mark.parametrize(
    ("licence", "warns"), [("apache-2.0", False), ("cc-by-nc-4.0", True), ("sanctuary", False)]
)
def test_licence_of_pretrained_weights_is_told(monkeypatch, caplog, licence, warns):
    create = timm.create_model

    def offline(name, pretrained, **arguments):
        net = create(name, pretrained=False, **arguments)
        net.model.pretrained_cfg["license"] = licence
        return net

    monkeypatch.setattr("timm.create_model", offline)
    monkeypatch.setattr(logging.getLogger("hires"), "propagate", True)
    with caplog.at_level("INFO", logger="hires.models.pretrained"):
        BackboneSettings(name="test_resnet").build()
    assert licence in caplog.text
    assert ("forbids commercial use" in caplog.text) == warns


def test_unknown_name_has_a_suggestion():
    with pytest.raises(ConfigError, match="timm has no model 'resnet81'; did you mean resnet18"):
        make("resnet81")


def test_no_network_says_what_to_set(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("We couldn't connect\nto the hub")

    monkeypatch.setattr("timm.create_model", refuse)
    with pytest.raises(ConfigError) as error:
        BackboneSettings(name="test_resnet").build()
    message = str(error.value)
    assert "\n" not in message
    assert all(key in message for key in ("backbone.pretrained=false", "backbone.weights=FILE", "init_from=RUN"))


def test_model_without_the_strides_is_refused():
    """A model whose maps begin at stride 16 has nothing fine enough."""
    with pytest.raises(ConfigError, match="strides"):
        make("levit_128s")


def test_model_whose_stages_cannot_be_told():
    with pytest.raises(ConfigError, match="backbone.name: the stages of twins_svt_small cannot be told"):
        make("twins_svt_small", freeze=["stem"])


def test_what_is_no_failed_download_is_not_called_one(monkeypatch):
    create = timm.create_model
    monkeypatch.setattr("timm.create_model", lambda *args, pretrained, **more: create(*args, **more))
    with pytest.raises(ConfigError, match=r"^backbone.name: convmixer_768_32 cannot be built"):
        BackboneSettings(name="convmixer_768_32", pretrained=True).build()


def test_short_memory_is_not_called_a_wrong_name(monkeypatch):
    def short(*args, **kwargs):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes")

    monkeypatch.setattr("timm.create_model", short)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        make("test_resnet")
