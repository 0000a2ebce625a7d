"""The settings of `hires compare` on the command line."""

from pathlib import Path

import pytest

from tests.command_lines import Calls, Hires, wrong


def test_settings_get_the_command_line_and_their_own_overrides(hires: Hires, calls: Calls) -> None:
    policy = "++memory.activation_checkpointing.stage2=full"
    given = f"settings={{a: [], b: [memory=fixed, optimizer=sgd, {policy}], c: ['seed=7']}}"
    assert hires("compare", "-m", given, "seed=3,4", "optimizer.lr=1")[0] == 0
    assert [cfg["seed"] for _, cfg, _ in calls] == [3, 4]
    a, b, c = (setting.cfg for setting in calls.settings.values())
    assert [cfg.seed for cfg in (a, b, c)] == [4, 4, 7]
    assert [cfg.optimizer.name for cfg in (a, b, c)] == ["adamw", "nesterov", "adamw"]
    assert b.memory.activation_checkpointing.stage2 == "full"
    assert b.optimizer.lr == 1
    assert "hydra" not in a
    assert hires("compare")[0] == 0
    policies = {name: setting.cfg.memory.activation_checkpointing for name, setting in calls.settings.items()}
    assert policies == {"none": "none", "full": "full"}


def test_settings_of_a_users_own_experiment(hires: Hires, calls: Calls, tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "experiment"
    folder.mkdir(parents=True)
    text = "# @package _global_\nsettings:\n  '<a>': []\n  b: [trainer.max_steps=7, experiment=demo]\n"
    (folder / "own.yaml").write_text(text)
    assert hires("compare", "--config-dir", "mine", "experiment=own")[0] == 0
    assert [setting.cfg.image_size for setting in calls.settings.values()] == ["auto", 256]
    assert calls.settings["b"].overrides == ["trainer.max_steps=7", "experiment=demo"]


@pytest.mark.parametrize(
    ("override", "start"),
    [
        ("trainer.max_stepz=5", "trainer.max_stepz: no such key; did you mean trainer.max_steps? allowed in trai"),
        ("++trainer.max_stepz=5", "trainer.max_stepz: no such key; did you mean trainer.max_steps? allowed in "),
        ("+bach_size=5", "bach_size: no such key; did you mean batch_size? allowed: "),
        ("optimizer=sdg", "optimizer: got sdg; did you mean optimizer=sgd? allowed: "),
        ("experiment=dema", "experiment: got dema; did you mean experiment=demo? allowed: "),
        ("foo", "foo: got no value; write KEY=VALUE"),
        ("'batch_size=1,2'", "batch_size: got 1,2, several values; "),
        ("data=mask_folder", "data.root: must be given, for example data.root="),
        (
            "grad_checkpointing=true",
            "grad_checkpointing: no such key; hires calls this activation checkpointing: ",
        ),
        ("steps=5", "steps: is the same for all settings; give it on the command line itself"),
        ("allow_targets=[os.]", "allow_targets: is the same for all settings; "),
        ("+hydra.callbacks.x=1", "hydra.callbacks.x: is the same for all settings; "),
    ],
)
def test_mistakes_in_settings(override: str, start: str, hires: Hires, calls: Calls) -> None:
    assert wrong(hires("compare", f"settings={{a: [], b: [{override}]}}")).startswith(f"settings.b: {start}")
    assert calls == []


@pytest.mark.parametrize(
    ("override", "start"),
    [
        (
            "settings=5",
            "settings: got 5, allowed: null, or two and more by name, for example 'settings={none: [], ",
        ),
        ("settings={a: []}", "settings: got 1 of them, allowed: null, or two and more by name"),
        ("settings={a: [], b: x}", "settings.b: got 'x', allowed: a list of overrides, as in 'settings={none: "),
        ("settings={a: [b=1", "settings: got {a: ['b=1', which cannot be read"),
        ("stepz=5", "stepz: no such key; did you mean steps? allowed: allow_targets, augmentation, backbone"),
        ("+foo=5", "foo: no such key; allowed: allow_targets, augmentation, backbone, batch_size, data"),
        ("~trainer", "trainer: has been removed, but is needed"),
    ],
)
def test_mistakes_in_compare(override: str, start: str, hires: Hires, calls: Calls) -> None:
    assert wrong(hires("compare", override)).startswith(start)
    assert calls == []
