"""The one line that a mistake on the command line gets, and what is none."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from hires.cli import errors
from hires.errors import ConfigError
from hires.request import parse
from tests.command_lines import Calls, Hires, wrong


def test_a_mistyped_key_of_an_experiment_file(hires: Hires, tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "experiment"
    folder.mkdir(parents=True)
    (folder / "top.yaml").write_text("# @package _global_\nbach_size: 3\n")
    (folder / "deep.yaml").write_text("# @package _global_\ntrainer: {max_stepz: 3}\n")
    (folder / "broken.yaml").write_text("# @package _global_\ntrainer: {max_steps: 3\n")
    (folder / "choice.yaml").write_text("# @package _global_\ndefaults:\n  - override /data: demmo\n")
    one = wrong(hires("train", "--config-dir", "mine", "experiment=top"))
    assert one.startswith("bach_size: no such key; did you mean batch_size? allowed: ")
    two = wrong(hires("train", "--config-dir", "mine", "experiment=deep"))
    assert two.startswith("trainer.max_stepz: no such key; did you mean trainer.max_steps?")
    assert "broken.yaml" in wrong(hires("train", "--config-dir", "mine", "experiment=broken"))
    four = wrong(hires("train", "--config-dir", "mine", "experiment=choice"))
    assert "data: got demmo; did you mean data=demo?" in four


TOP = "allowed: allow_targets, augmentation, backbone, batch_size, data, data_dir"


@pytest.mark.parametrize(
    ("override", "start"),
    [
        (
            "trainer.max_stepz=5",
            "trainer.max_stepz: no such key; did you mean trainer.max_steps? allowed in trainer: accel",
        ),
        ("max_steps=5", f"max_steps: no such key; did you mean trainer.max_steps? {TOP}"),
        ("trainr.max_steps=5", f"trainr.max_steps: no such key; did you mean trainer.max_steps? {TOP}"),
        ("trainer.max_steps.x=5", "trainer.max_steps.x: no such key; trainer.max_steps is not a mapping"),
        ("trainer={max_stepz: 5}", "trainer.max_stepz: no such key; did you mean trainer.max_steps?"),
        ("modle=unet", f"modle: no such key; did you mean model? {TOP}"),
        ("model=unett", "model: got unett; did you mean model=unet? allowed: "),
        ("model=null", "model: got null; allowed: "),
        ("trainer=5", "trainer: got 5; allowed: default"),
        ("data=base", "data: got base; "),
        ("experiment=dema", "experiment: got dema; did you mean experiment=demo? allowed: "),
        ("+experiment=demo", "experiment: is chosen already; leave out the +"),
        ("++experiment=demo", "force-add of config groups is not supported: '++experiment=demo'"),
        ("~foo", "foo: no such key; "),
        ("~trainer", "trainer: has been removed, but is needed"),
        ('data.root="b', 'data.root: got "b, which cannot be read; are all quotes closed?'),
        ('data.classes={"a": 1}', 'data.classes: got {"a": 1}, which cannot be read; keys of a mapping take no '),
        ("foo", "foo: got no value; write KEY=VALUE"),
        ("=5", "=5: got no key; write KEY=VALUE"),
        (
            "data.classes={a",
            "data.classes: got {a, which cannot be read; are all brackets and quotes closed?",
        ),
        ("batch_size=1,2", "batch_size: got 1,2, several values; -m sweeps over them"),
        ("batch_size=${nope}", "batch_size: Interpolation key 'nope' not found"),
        ("batch_size=${oc.env:HIRES_NOPE}", "batch_size: KeyError raised while resolving interpolation"),
        ("data=mask_folder", "data.root: must be given, for example data.root="),
        ("+foo=1", f"foo: no such key; {TOP}"),
        ("++foo=1", f"foo: no such key; {TOP}"),
        ("+bach_size=1", f"bach_size: no such key; did you mean batch_size? {TOP}"),
        (
            "+trainer.max_stepz=5",
            "trainer.max_stepz: no such key; did you mean trainer.max_steps? allowed in ",
        ),
        (
            "++trainer.max_stepz=5",
            "trainer.max_stepz: no such key; did you mean trainer.max_steps? allowed in ",
        ),
        ("++trainer={max_stepz: 5}", "trainer.max_stepz: no such key; did you mean trainer.max_steps? "),
        ("+task.loss.dicee=5", "task.loss.dicee: no such key; did you mean task.loss.dice? "),
        ("+augmentation.transforms.0.q=1", "augmentation.transforms.0.q: no such key; allowed in "),
        ("+logger.mine=3", "logger.mine: got 3, allowed: a mapping with _target_"),
        (
            "grad_checkpointing=true",
            "grad_checkpointing: no such key; hires calls this activation checkpointing: ",
        ),
        (
            "+backbone.grad_checkpointing=true",
            "backbone.grad_checkpointing: no such key; hires calls this activ",
        ),
        (
            "++optimizer.arguments={gradient_checkpointing: true}",
            "optimizer.arguments: no such key; hires calls",
        ),
        ("hydra.foo=1", "hydra.foo: no such key; allowed in hydra: callbacks, "),
        ("--foo", "--foo: no such flag; did you mean "),
        ("--config-dir=nope", "--config-dir: got nope, which is not a directory"),
        ("--cfg=jobb", "hires train: argument --cfg/-c: invalid choice: 'jobb'"),
        ("--resolve", "The --resolve flag can only be used in conjunction with --cfg"),
    ],
)
def test_mistakes(override: str, start: str, hires: Hires, calls: Calls) -> None:
    assert wrong(hires("train", override)).startswith(start)
    assert calls == []


def test_a_text_needs_no_quotes(hires: Hires, calls: Calls) -> None:
    assert hires("train", "resume=runs/\u00fc=[b]")[0] == 0
    assert hires("train", 'resume="runs/\u00fc=[b]"')[0] == 0
    assert [call[1]["resume"] for call in calls] == 2 * ["runs/\u00fc=[b]"]


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("++trainer.max_steps=5", "trainer.max_steps", 5),
        ("+data.classes.crack=7", "data.classes.crack", 7),
        ("+optimizer.arguments.amsgrad=true", "optimizer.arguments.amsgrad", True),
        ("++optimizer.arguments={betas: [0.9, 0.95]}", "optimizer.arguments.betas", [0.9, 0.95]),
        ("+data.splits.extra=0.1", "data.splits.extra", 0.1),
        ("augmentation.transforms.0.p=0.5", "augmentation.transforms.0.p", 0.5),
        ("+logger.b={_target_: lightning_fabric.loggers.CSVLogger, root_dir: x}", "logger.b.root_dir", "x"),
        ("run_dir=runs/grad_checkpointing", "run_dir", "runs/grad_checkpointing"),
        ("~logger.csv", "logger.csv", None),
    ],
)
def test_what_may_be_changed_or_added(override: str, key: str, value: Any, hires: Hires, calls: Calls) -> None:
    assert hires("train", override)[0] == 0
    assert OmegaConf.select(OmegaConf.create(calls[0][1]), key) == value


@pytest.mark.slow
def test_every_option_of_every_group_passes_the_checks(hires: Hires, calls: Calls) -> None:
    formats = ("coco", "coco_masks", "csv", "labelme", "labelme_masks", "voc", "xyxy", "yolo")
    given = dict.fromkeys(formats, ["data.root=x"])
    given |= dict.fromkeys(("geojson", "geojson_masks"), ["data.root=x", "data.classes=[a]"])
    given |= {"mask_folder": ["data.root=x", "data.classes={a: 0}"]}
    given |= {"mask_parts": ["data.root=x", "data.classes={a: '*.png'}"]}
    given |= {"instance_masks": ["data.root=x", "data.classes=[a]"]}
    for group, options in parse("train", []).groups().items():
        for option in options if group != "hydra" else ():
            code, _, err = hires("train", f"{group}={option}", *given.get(option, ()))
            assert code == 0, err


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        ([], "run: must be given, for example run=runs/"),
        (["run=x", "model=unet"], "model: no such key; allowed: allow_targets, checkpoint"),
        (["run=x", "+model=unet"], "model: no such key; allowed: allow_targets, checkpoint"),
        (["run=x", "evaluation.fitt=1"], "evaluation.fitt: no such key; did you mean evaluation.fit? "),
        (["run=x", "+evaluation.foo=1"], "evaluation.foo: no such key; allowed in evaluation: batch_size"),
    ],
)
def test_mistakes_in_evaluate(arguments: list[str], start: str, hires: Hires, calls: Calls) -> None:
    assert wrong(hires("evaluate", *arguments)).startswith(start)
    assert calls == []


def test_the_checkpointing_hint_stays_true() -> None:
    """Once the memory group has the key, the hint says to set it."""
    request = parse("train", ["grad_checkpointing=true"])
    with pytest.raises(ConfigError, match="memory.activation_checkpointing"):
        errors.check_overrides(request)
    base = OmegaConf.create({"memory": {"activation_checkpointing": "none"}})
    (hint,) = errors.checkpointing("grad_checkpointing=true", base)
    assert hint.endswith("activation checkpointing: set memory.activation_checkpointing")
