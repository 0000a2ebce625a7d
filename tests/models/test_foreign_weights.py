"""Weights of a backbone from a file: tensors, or a line that names the file; nothing in it is called."""

import os
import pickle

import pytest
import torch

from hires.interfaces import ConfigError
from hires.models.backbone import BackboneSettings


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def _pickled(path, evil):
    path.write_bytes(pickle.dumps({"state_dict": evil}))


def _zipped(path, evil):
    torch.save({"state_dict": {"conv1.weight": evil}}, path)


def _old(path, evil):
    torch.save({"state_dict": evil}, path, _use_new_zipfile_serialization=False)


def _text(path, evil):
    path.write_text("<html>404</html>")


@pytest.mark.parametrize("write", [_pickled, _zipped, _old, _text])
@pytest.mark.parametrize("ending", ["pth", "pt", "safetensors"])
def test_weights_of_strangers_call_nothing(tmp_path, write, ending):
    path = tmp_path / f"weights.{ending}"
    write(path, Evil(tmp_path / "broken_in"))
    with pytest.raises(
        ConfigError, match=r"^backbone.weights: .*weights\.\w+ does not load into test_resnet"
    ) as told:
        BackboneSettings(name="test_resnet", pretrained=False, weights=str(path)).build()
    assert "\n" not in str(told.value)
    assert not (tmp_path / "broken_in").exists()
