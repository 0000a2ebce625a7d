"""Policies from the command line: a training under them ends in the same bits; what is wrong is said."""

import pytest
import torch
import yaml


@pytest.fixture
def weights(hires, shapes_overrides, tmp_path):
    def train(name, *more):
        overrides = [o for o in shapes_overrides if not o.startswith("run_dir=")]
        settings = ["trainer.max_steps=3", "trainer.ema_decay=0.9", "backbone.drop_path_rate=0.2"]
        code, _, error = hires("train", *overrides, *settings, f"run_dir={tmp_path / name}", *more)
        assert code == 0, error
        return torch.load(tmp_path / name / "checkpoints" / "last.pt", weights_only=True)

    return train


def test_a_training_under_policies_ends_in_the_same_bits(weights, tmp_path):
    plain = weights("none")
    said = "memory.activation_checkpointing={stem: full, stage1: selective, decoder: full@stage, loss: full}"
    other = weights("mixed", said, "memory.verify=true")
    for part in ("task", "ema"):
        assert plain[part].keys() == other[part].keys()
        assert all(
            torch.equal(value, other[part][key]) for key, value in plain[part].items() if hasattr(value, "shape")
        )
    plan = yaml.safe_load((tmp_path / "mixed" / "plan.yaml").read_text())
    assert plan["policies"]["stem"] == "full"
    assert plan["policies"]["head"] == "none"
    assert {policy for name, policy in plan["policies"].items() if name.startswith("decoder")} == {"full@stage"}


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param("none", "memory.activation_checkpointing={stage1: full, loss: full}", marks=pytest.mark.slow),
        ("{stage1: full}", "++memory.activation_checkpointing.stage2=full"),
        pytest.param(
            "{stage1: full, stem: selective}", "memory.activation_checkpointing=full", marks=pytest.mark.slow
        ),
    ],
)
def test_a_run_resumes_under_another_policy(first, then, weights, tmp_path, hires):
    uninterrupted = weights("six", "trainer.max_steps=6", "scheduler=constant")
    weights("three", "scheduler=constant", f"memory.activation_checkpointing={first}")
    code, _, error = hires("train", f"resume={tmp_path / 'three'}", "trainer.max_steps=6", then)
    assert code == 0, error
    resumed = torch.load(tmp_path / "three" / "checkpoints" / "last.pt", weights_only=True)
    assert all(torch.equal(value, resumed["task"][key]) for key, value in uninterrupted["task"].items())


def test_verify_names_the_unit(hires, shapes_overrides, monkeypatch):
    """A backbone whose blocks count their calls."""
    from timm.models.resnet import BasicBlock

    original = BasicBlock.forward

    def counting(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return original(self, x) * (1 + 0.1 * self.calls)

    monkeypatch.setattr(BasicBlock, "forward", counting)
    code, _, error = hires("train", *shapes_overrides, "memory.verify=true")
    assert code == 2
    assert error.startswith("memory.verify: run twice, these units do not do the same: stage1 (network.backbone")
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "memory.activation_checkpointing=al",
            "memory.activation_checkpointing: got al, allowed: none, selective",
        ),
        ("memory.activation_checkpointing={stage7: full}", "no such stage; did you mean stage"),
        (
            "memory.activation_checkpointing.stage2=full",
            "++memory.activation_checkpointing.stage2=... makes it one",
        ),
        ("memory.offload_dir=''", "memory.offload_dir: got '', allowed: a folder or null"),
        ("memory.grad_checkpointing=true", "hires calls this activation checkpointing: set memory.activation_che"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(hires, override, message):
    given = ["model=fpn", "backbone.name=resnet10t", "backbone.pretrained=false", "model.num_classes=4", override]
    code, _, error = hires("profile", *given)
    assert code == 2
    assert message in error
    assert len(error.splitlines()) == 1


def test_a_policy_of_a_stage_does_not_replace_that_of_all(hires, tmp_path):
    (tmp_path / "experiment").mkdir()
    lines = ["# @package _global_", "memory: {activation_checkpointing: full}"]
    (tmp_path / "experiment" / "mine.yaml").write_text("\n".join(lines))
    code, _, error = hires(
        "profile",
        f"--config-dir={tmp_path}",
        "experiment=mine",
        "model.num_classes=3",
        "++memory.activation_checkpointing.loss=none",
    )
    assert code == 2
    assert "memory.activation_checkpointing.loss: one policy, full, is set for all; give all in one" in error


def test_a_recompute_that_fails_ends_in_a_line(hires, shapes_overrides, monkeypatch):
    from timm.models.resnet import BasicBlock

    original = BasicBlock.forward

    def doing_less(self, x):
        self.calls = getattr(self, "calls", 0) + torch.is_grad_enabled()  # shapes are tried without
        return original(self, x).exp() if self.calls == 1 else original(self, x)

    monkeypatch.setattr(BasicBlock, "forward", doing_less)
    code, _, error = hires("train", *shapes_overrides, "memory.activation_checkpointing=full")
    assert code == 1
    assert "run again, it saved" in error
    assert len(error.splitlines()) == 1
