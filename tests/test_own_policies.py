"""Policies of a user's own package: those that the command line allows work, all else is refused."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml

from hires import build
from hires.errors import ConfigError
from hires.instantiate import allowed_function
from hires.interfaces import MemoryPlan
from hires.memory.kinds import KINDS
from hires.own_policies import know_those_of_settings
from tests.command_lines import Hires

OWN = "guest_policies.convolutions"
ALLOWED = "allow_targets=[guest_policies.]"


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module whose import leaves a file, and that is forgotten afterwards."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "guest_policies.py").write_text(
        "from pathlib import Path\n"
        "import os\n"
        "from torch import nn\n"
        "from hires.memory.forwards import keep_input\n"
        f"Path({str(tmp_path / 'imported')!r}).touch()\n"
        "def convolutions(module):\n"
        "    return ((part, keep_input) for part in module.modules() if isinstance(part, nn.Conv2d))\n"
    )
    monkeypatch.syspath_prepend(folder)
    yield
    sys.modules.pop("guest_policies", None)


def of_command_line(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr("sys.argv", ["hires", "train", *words])


@pytest.mark.parametrize(
    ("memory", "key"),
    [
        ({"activation_checkpointing": OWN}, "memory.activation_checkpointing"),
        ({"activation_checkpointing": {"stage1": "full", "loss": OWN}}, "memory.activation_checkpointing"),
        ({"choices": ["none", OWN]}, "memory.choices"),
    ],
)
def test_nothing_is_imported_that_the_command_line_does_not_allow(
    memory: dict[str, Any], key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_command_line(monkeypatch)
    with pytest.raises(ConfigError, match=f"^{key}: {OWN} is not allowed: allow_targets="):
        know_those_of_settings(memory)
    assert OWN not in KINDS
    assert not (tmp_path / "imported").exists()
    of_command_line(monkeypatch, ALLOWED)
    know_those_of_settings(memory)
    assert OWN in KINDS
    assert (tmp_path / "imported").exists()


def test_every_process_knows_those_of_a_plan_that_another_read(monkeypatch: pytest.MonkeyPatch) -> None:
    of_command_line(monkeypatch, ALLOWED)
    rung = MemoryPlan(2, 1, (64, 64), "32-true", {"stage1": OWN})
    plan = replace(rung, policies={"stage1": "none"}, rungs=(rung,))
    answers = iter([False, ("configuration", plan)])  # whether to search; the plan
    ranks = SimpleNamespace(by_main=lambda _: next(answers), together=lambda call: call())
    assert build._agreed(None, None, None, None, ranks) == ("configuration", plan)
    assert OWN in KINDS


@pytest.mark.parametrize(
    "name", ["os.system", "guest_policies.os.system", "hires.memory.kinds.recompute_all", "2.5"]
)
def test_what_is_defined_elsewhere_is_no_policy(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^memory.choices: '?{name}'? is not allowed"):
        allowed_function(name, "memory.choices", ["guest_policies."])


def test_a_typing_mistake_is_told_with_its_key() -> None:
    with pytest.raises(
        ConfigError, match="^memory.choices: .*convolution does not exist; did you mean .*convolutions"
    ):
        allowed_function("guest_policies.convolution", "memory.choices", ["guest_policies"])


def test_a_training_ends_in_the_same_bits_and_its_plan_needs_the_package(
    hires: Hires, shapes_overrides: list[str], tmp_path: Path
) -> None:
    run, said = tmp_path / "run", f"memory.activation_checkpointing={{stage1: {OWN}, decoder: {OWN}}}"

    def weights(*more: str) -> dict[str, Any]:
        code, _, error = hires("train", *shapes_overrides, *more)
        assert code == 0, error
        shutil.copy(run / "plan.yaml", tmp_path / "plan.yaml")
        task: dict[str, Any] = torch.load(run / "checkpoints" / "last.pt", weights_only=True)["task"]
        shutil.rmtree(run)
        return task

    plain = weights()
    own = weights(said, ALLOWED, "memory.verify=true")
    policies = yaml.safe_load((tmp_path / "plan.yaml").read_text())["policies"]
    assert {policies["stage1"], policies["stem"]} == {OWN, "none"}
    tensors = {key: value for key, value in plain.items() if isinstance(value, torch.Tensor)}
    assert tensors
    assert all(torch.equal(value, own[key]) for key, value in tensors.items())

    del KINDS[OWN]  # as in another process
    planned = [*shapes_overrides, f"memory.plan={tmp_path / 'plan.yaml'}"]
    code, _, error = hires("train", *planned)
    assert (code, len(error.splitlines())) == (2, 1)
    assert error.startswith(f"memory.plan: {OWN} is not allowed")
    code, _, error = hires("train", *planned, ALLOWED)
    assert code == 0, error
