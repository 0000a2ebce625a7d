"""What `hires export` refuses in one line, and files that it does not keep."""

import cv2
import numpy as np
import pytest
import torch

from hires import export_file
from hires.engine import checkpoint_file, exporting
from tests.made_runs import made_run

FPN = (
    *("model=fpn", "model.pyramid_channels=32", "model.segmentation_channels=32"),
    *("data=mask_folder", "data.root=gone", "data.classes=[background,disc,bar]", "data.splits={val: '*'}"),
)


@pytest.fixture(scope="session")
def kept_run(tmp_path_factory):
    """A run of an FPN that no test changes."""
    run_dir = tmp_path_factory.mktemp("kept") / "run"
    made_run(run_dir, *FPN)
    return run_dir


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["format=tflite"], "format: got 'tflite', allowed: onnx, torch_export"),
        (["format=torch_export", "out=model.onnx"], "out: got model.onnx, allowed: a file that ends in .pt2"),
        (["postprocess=false"], "postprocess: got false, allowed: true"),
        (
            ["input_type=uint8", "normalize=false"],
            "input_type: got uint8, allowed: float32, since normalize is false",
        ),
        (["image_size=100"], "image_size: got [100, 100], allowed: multiples of 32"),
        (["opset=12"], "opset: got 12, allowed: a whole number >= 18 or null"),
    ],
)
def test_what_cannot_be_is_refused(hires, kept_run, overrides, said):
    code, _, error = hires("export", f"run={kept_run}", *overrides)
    assert (code, error.count("\n")) == (2, 1), error
    assert error.startswith(said)
    assert not (kept_run / "export").exists()


def test_onnx_without_its_packages_is_refused(hires, kept_run, monkeypatch):
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    code, _, error = hires("export", f"run={kept_run}")
    assert (code, error.count("\n")) == (2, 1)
    assert "pip install 'hires[onnx]'" in error


def test_a_file_that_does_something_else_is_not_kept(hires, kept_run, tmp_path, monkeypatch):
    def spoiled(graph, *rest):
        network = graph.network.head[0]
        with torch.no_grad():
            network.bias.add_(torch.tensor([0.0, 0.1, 0.0]))
        return trace(graph, *rest)

    trace = export_file.trace
    monkeypatch.setattr(export_file, "trace", spoiled)
    out = tmp_path / "out" / "model.pt2"
    code, _, error = hires("export", f"run={kept_run}", "format=torch_export", "dynamic=true", f"out={out}")
    assert code == 1
    assert "differs by" in error.splitlines()[-1]
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"weights": {}}, "has no weights"),
        ({"task": {"bias": torch.ones(3)}}, "does not fit the run's configuration"),
    ],
)
@pytest.mark.parametrize("command", ["export", "predict"])
def test_a_checkpoint_of_something_else_ends_in_one_line(hires, kept_run, tmp_path, command, state, said):
    path = tmp_path / "other.pt"
    checkpoint_file.write(path, state)
    (tmp_path / "photos").mkdir()
    cv2.imwrite(str(tmp_path / "photos" / "a.png"), np.zeros((64, 64, 3), np.uint8))
    more = () if command == "export" else (f"source={tmp_path / 'photos'}", f"out={tmp_path / 'out'}")
    code, _, error = hires(command, f"run={kept_run}", f"checkpoint={path}", *more)
    assert (code, error.count("\n")) == (1, 1), error
    assert error.startswith(f"{path}: {said}")
