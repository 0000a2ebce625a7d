"""Help and completion: every key, every command, at once."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hires import cli
from hires.request import config_dir
from tests.command_lines import Hires, python, wrong


def test_shell_completion(hires: Hires, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", "hires tr")
    assert hires("-sc", "query=bash")[1].split() == list(cli.COMMANDS)
    monkeypatch.setenv("COMP_LINE", "hires train trainer.max_")
    keys = ["trainer.max_epochs=", "trainer.max_skipped=", "trainer.max_steps="]
    assert hires("-sc", "query=bash")[1].split() == keys
    monkeypatch.delenv("COMP_LINE")
    assert "complete" in hires("-sc", "install=bash")[1]


def keys_of(node: Any, prefix: str = "") -> list[str]:
    """Dotted keys of a YAML file; a mapping within a line is one value."""
    if not isinstance(node, yaml.MappingNode) or (node.flow_style and prefix):
        return [prefix.rstrip(".")]
    pairs = [(k.value, v) for k, v in node.value if k.value not in ("_target_", "defaults", "hydra")]
    return [key for name, value in pairs for key in keys_of(value, f"{prefix}{name}.")]


@pytest.mark.parametrize("columns", ["70", "100"])
def test_help_shows_every_key(columns: str, hires: Hires, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    _, out, _ = hires("train", "--help")
    assert max(map(len, out.splitlines())) <= max(int(columns), 100)
    for path in [config_dir() / "train.yaml", *config_dir().glob("*/*.yaml")]:
        group = "" if path.stem == "train" else f"{path.parent.name}."
        if group in ("experiment.", "launcher."):
            continue
        for key in keys_of(yaml.compose(path.read_text()), group):
            parent = key.rpartition(".")[0]
            assert f"\n  {key}=" in out or f"\n  {parent}={{" in out or key.rstrip(".") == group.rstrip("."), key


def test_help_of_a_command(hires: Hires) -> None:
    code, out, _ = hires("train", "--help")
    assert code == 0
    assert out.startswith(cli.COMMANDS["train"])
    assert "Usage: hires train [GROUP=OPTION ...] [KEY=VALUE ...]" in out
    words = " ".join(out.split())
    assert "model=unet * U-Net decoder (segmentation-models-pytorch) on any backbone." in words
    assert "optimizer=sgd SGD with Nesterov momentum" in words
    assert "optimizer.lr=0.001 Peak learning rate." in words
    assert "data.window.focus=0.5 Share of the windows that contain a rare class, or with boxes" in words
    assert "_target_:" not in out.replace("[{_target_: ", "")


def test_help_honours_choices(hires: Hires) -> None:
    words = " ".join(hires("train", "optimizer=sgd", "experiment=demo", "--help")[1].split())
    assert "optimizer=sgd *" in words
    assert "optimizer.name=nesterov timm optimizer name." in words
    assert "evaluation.window=512 Side of a window" in words
    assert wrong(hires("train", "--help", "optimizer=sdg")).startswith("optimizer: got sdg; did you mean ")


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_help_has_three_examples(name: str, hires: Hires) -> None:
    _, out, _ = hires(name, "--help")
    examples = out.partition("\nExamples:\n")[2].partition("\n\n")[0]
    assert sum(line.startswith(f"  hires {name} ") for line in examples.splitlines()) == 3


def test_help_of_evaluate(hires: Hires) -> None:
    _, out, _ = hires("evaluate", "--help")
    for key in keys_of(yaml.compose((config_dir() / "evaluate.yaml").read_text())):
        assert f"\n  {key}=" in out
    assert "Groups" not in out


def test_help_of_compare(hires: Hires) -> None:
    _, out, _ = hires("compare", "--help")
    for key in (
        "runs",
        "settings",
        "steps",
        "evaluate",
        "measure_memory",
        "run_dir",
        "trainer.max_steps",
        "image_size",
    ):
        assert f"\n  {key}=" in out


def test_help_and_mistakes_need_no_torch(tmp_path: Path) -> None:
    setting = ["compare", "settings={a: [], b: [trainer.max_stepz=5]}"]
    mistakes = (["train", "trainer.max_stepz=5"], ["evaluate"], setting)
    for arguments in (["--help"], ["train", "--help"], *mistakes):
        code = f"""
import sys
sys.argv = ["hires", *{arguments!r}]
from hires import cli
cli.main()
heavy = [m for m in ("torch", "cv2", "numpy", "albumentations", "lightning_fabric") if m in sys.modules]
sys.exit(f"imported {{heavy}}" if heavy else 0)
"""
        done = python("-c", code, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
