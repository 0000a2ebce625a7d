"""What can be chosen for segmentation goes through the commands: training, evaluation, resume."""

import json

import pytest
import torch

COLOURS = 'data.classes={background: "#000000", disc: "#646464", bar: "#C8C8C8"}'
OPTIONS = {
    "fpn": ["model=fpn", "model.pyramid_channels=16", "model.segmentation_channels=32"],
    "upernet": ["model=upernet", "model.decoder_channels=16"],
    "deeplabv3plus": ["model=deeplabv3plus", "model.decoder_channels=16"],
    "segformer": ["model=segformer", "model.decoder_channels=16"],
    "transformer": [
        "model=segformer",
        "backbone.name=test_vit",
        "optimizer.layer_decay=0.8",
        "backbone.freeze=[stem]",
    ],
    "mix transformer": ["model=segformer", "backbone.name=mit_b0", "optimizer.layer_decay=0.8"],
    "augmented": ["evaluation.tta=[hflip,vflip,0.5]"],
    "resized and flipped": ["evaluation.fit=resize", "evaluation.tta=[hflip]"],
    "statistics of the image": ["model.norm=group", "evaluation.statistics=image"],
    "scales": ["data.scale=[0.5,2.0]"],
    "a fold": ["data.splits={val: 0.2}", "data.fold=1", "data.folds=3"],
    "colours": [COLOURS, 'data.ignore_values=["#FFFFFF"]'],
    "several labels": ["model.multilabel=true", "data.classes={disc: 100, thing: [100, 200]}"],
    "losses": ["task.loss={focal: 1, tversky: 1, lovasz: 1, boundary_weight: 2, class_weights: sqrt_balanced}"],
}


QUICK = ("fpn", "transformer", "augmented", "colours", "several labels")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in OPTIONS]
)
def test_trains_and_evaluates_alike(hires, shapes_overrides, tmp_path, name):
    options = OPTIONS[name]
    replaced = ["data.classes"] if any("data.classes" in option for option in options) else []
    replaced += ["model.decoder_channels"] if options[0].startswith("model=") else []
    usual = [override for override in shapes_overrides if not override.startswith(tuple(replaced))]
    code, _, error = hires("train", *usual, "trainer.max_steps=2", *options)
    assert code == 0, error
    trained = json.loads((tmp_path / "run/result.json").read_text())["metrics"]
    assert 0 <= trained["mIoU"] <= 1
    code, _, error = hires("evaluate", f"run={tmp_path / 'run'}", "checkpoint=last")
    assert code == 0, error
    assert json.loads((tmp_path / "run/evaluate/val-last/result.json").read_text())["metrics"] == trained


def test_resume_with_weights_from_the_data_and_frozen_stages(hires, shapes_overrides, tmp_path):
    """Nothing of what is made at the start of a run differs when it is made again."""
    options = [
        *shapes_overrides[:-1],
        "task.loss.class_weights=balanced",
        "backbone.freeze=[stem,stage1]",
        "evaluation.every=2",
        "scheduler=constant",
    ]
    for name, steps in (("whole", 4), ("parts", 3)):
        code, _, error = hires("train", *options, f"run_dir={tmp_path / name}", f"trainer.max_steps={steps}")
        assert code == 0, error
    code, _, error = hires("train", f"resume={tmp_path / 'parts'}", "trainer.max_steps=4")
    assert code == 0, error
    whole, parts = (
        torch.load(tmp_path / name / "checkpoints/last.pt", weights_only=True)["task"]
        for name in ("whole", "parts")
    )
    assert whole.keys() == parts.keys()
    assert not [key for key in whole if not torch.equal(whole[key], parts[key])]
