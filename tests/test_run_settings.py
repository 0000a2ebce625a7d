"""What a run was made with, beside the defaults and beside others."""

import pytest
from omegaconf import OmegaConf

from hires.request import parse
from hires.run_settings import differences, differing


def composed(*overrides):
    cfg = parse("train", []).compose(list(overrides))
    plain = OmegaConf.to_container(cfg, resolve=False)
    plain.pop("hydra")
    return OmegaConf.create(plain)


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({"model": "unet", "optimizer": "adamw"}, {}),
        ({"model": "fcos_light", "optimizer": "sgd", "data": "voc", "memory": "auto"}, {"batch_size": "3"}),
        ({"backbone": "convnext_tiny", "scheduler": "poly", "logger": "none"}, {"optimizer.lr": "0.5"}),
    ],
)
def test_the_options_are_found_again_with_what_was_changed(options, more):
    chosen, rows = differing(composed(*(f"{key}={value}" for key, value in {**options, **more}.items())))
    assert {group: chosen[group] for group in options} == options
    assert {key: value for key, value, _ in rows} == more


def test_values_are_as_on_a_command_line_and_paths_name_nobodys_folders():
    given = [
        "data=mask_folder",
        "data.root=/home/jane doe/scans",
        "data.classes={a: 0, b: 1}",
        "data.images=[/home/jane doe/scans/*.png,more/*.png]",
        "data.splits={val: /home/jane doe/val.txt}",
        "init_from=/home/jane doe/best.pt",
        "image_size=[64,96]",
    ]
    _, rows = differing(composed(*given, "memory.activation_checkpointing={stem: full}", "run_dir=/home/x"))
    shown = {key: value for key, value, _ in rows}
    assert shown == {
        "data.root": "scans",
        "data.images": "['*.png', more/*.png]",
        "data.splits": "{train: null, val: val.txt, test: null}",
        "init_from": "best.pt",
        "data.classes": "{a: 0, b: 1}",
        "image_size": "[64, 96]",
        "memory.activation_checkpointing": "a policy for each of 1 stages or units",
    }


def test_a_run_of_another_version_has_other_keys():
    cfg = composed()
    cfg.trainer.gone = 5
    del cfg.trainer.patience
    _, rows = differing(cfg)
    assert rows == [("trainer.gone", "5", "–")]


def test_differences_of_runs():
    found = differences({"a": composed(), "b": composed("optimizer.lr=0.5", "seed=3"), "c": composed("seed=3")})
    assert found["seed"] == {"a": "0", "b": "3", "c": "3"}
    assert found["optimizer.lr"] == {"a": "0.001", "b": "0.5", "c": "0.001"}
    assert len(found) == 2
    assert differences({"a": composed(), "b": composed("run_dir=x", "data_dir=y")}) == {}
