"""Nothing but the command line can allow what `hires` does not know to be imported or called."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_lines import Calls, Hires, wrong

TARGETS = ("os.system", "hires.cli.job.os.system", "builtins.eval", "torch.hub.load")
PLACES = (
    "augmentation.transforms=[{{_target_: {0}, _args_: ['touch {1}']}}]",
    "augmentation.transforms.0._target_={0}",
    "++trainer._target_={0}",
    "+logger.mine={{_target_: {0}, _args_: ['touch {1}']}}",
    "++optimizer.arguments.x=[[{{_target_: {0}, _args_: ['touch {1}']}}]]",
)


@pytest.mark.parametrize(
    ("override", "target"),
    [
        pytest.param(place, target, marks=[] if (at - turn) % len(TARGETS) == 0 else pytest.mark.slow)
        for at, place in enumerate(PLACES)
        for turn, target in enumerate(TARGETS)
    ],
)
def test_targets_from_anywhere_are_refused(target: str, override: str, hires: Hires, tmp_path: Path) -> None:
    message = wrong(hires("train", override.format(target, tmp_path / "trace")))
    assert f"'{target}' is not allowed" in message
    assert os.listdir(tmp_path) == []


def test_only_the_command_line_allows_targets(hires: Hires, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "guest.py").write_text("class Logger:\n    def __init__(self, a=1): ...\n")
    folder = tmp_path / "mine" / "experiment"
    folder.mkdir(parents=True)
    text = "# @package _global_\nlogger: {mine: {_target_: guest.Logger}}\n"
    spoofs = ["", "allow_targets: [guest.]\n", "hydra: {overrides: {task: ['allow_targets=[guest.]']}}\n"]
    for number, spoof in enumerate(spoofs):
        (folder / f"e{number}.yaml").write_text(text + spoof)
        asked = ["train", "--config-dir", "mine", f"experiment=e{number}"]
        assert "'guest.Logger' is not allowed" in wrong(hires(*asked))
        assert "guest" not in sys.modules
    assert hires(*asked, "allow_targets=[guest.]")[0] == 0
    sys.modules.pop("guest")


@pytest.mark.parametrize(
    "text",
    [
        "callbacks: {x: {_target_: guest.Callback}}",
        "launcher: {_target_: guest.Callback}",
        "sweeper: {_target_: guest.Callback}",
        "callbacks: {x: '${oc.create:{_target_: guest.Callback}}'}",
        "callbacks: {x: {_target_: hydra.utils.instantiate, config: {_target_: guest.Callback}}}",
        "launcher: {_target_: hydra_plugins.x.os.system}",
        "job_logging: {version: 1, handlers: {x: {class: guest.Callback}}, root: {handlers: [x]}}",
        "job_logging: {handlers: {x: {class: logging.FileHandler, filename: mine/trace, mode: w}}}",
        "hydra_logging: {version: 1, handlers: {x: {(): guest.Callback}}, root: {handlers: [x]}}",
    ],
)
def test_a_file_cannot_make_hydra_call_anything(
    text: str, hires: Hires, calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "guest.py").write_text("raise SystemExit(7)")
    folder = tmp_path / "mine" / "experiment"
    folder.mkdir(parents=True)
    (folder / "e.yaml").write_text(f"# @package _global_\nhydra:\n  {text}\n")
    for mode in ([], ["-m", "seed=1,2"]):
        message = wrong(hires("train", "--config-dir", "mine", "experiment=e", *mode))
        assert "is not allowed; allow_targets=" in message or "cannot be changed" in message
    assert calls == []
    assert not (tmp_path / "mine" / "trace").exists()
