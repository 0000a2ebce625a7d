"""What a resumed run may have otherwise, and how it is told."""

import logging

import pytest
import yaml
from omegaconf import OmegaConf

from hires import resuming
from hires.interfaces import ConfigError

KEPT = {
    "data": {"root": None, "cache_dir": None},
    "backbone": {"weights": None, "name": "resnet18"},
    "data_dir": "/data",
    "init_from": None,
    "seed": 0,
    "optimizer": {"lr": 0.1, "weight_decay": 0.0},
    "run_dir": None,
    "resume": None,
}


def changed(*overrides):
    given = OmegaConf.merge(OmegaConf.create(KEPT), OmegaConf.from_dotlist(list(overrides)))
    keys = [override.partition("=")[0] for override in overrides]
    return resuming._changed(OmegaConf.create(KEPT), given, keys)


def test_all_that_may_not_change_is_told_at_once():
    with pytest.raises(ConfigError) as caught:
        changed("seed=3", "optimizer.lr=0.2", "backbone.name=resnet50", "optimizer.lrr=1")
    assert str(caught.value).startswith(
        "seed: got 3, but the run has 0; backbone.name: got resnet50, but the run has resnet18; "
        "optimizer.lrr: got 1, but the run has no such key, which resuming cannot change "
        "(it can change optimizer.lr); start another run with init_from=; what may change: trainer.*, "
    )


def test_what_may_change_does_and_the_rest_stays():
    cfg = changed("optimizer.lr=0.2", "seed=0", "run_dir=elsewhere")
    assert (cfg.optimizer.lr, cfg.optimizer.weight_decay, cfg.seed, cfg.run_dir) == (0.2, 0.0, 0, None)


def test_a_key_that_is_newer_than_the_run_counts_where_it_is_named():
    given = OmegaConf.merge(OmegaConf.create(KEPT), {"backbone": {"newer": 1}, "optimizer": {"newer": 1}})
    cfg = resuming._changed(OmegaConf.create(KEPT), given, ["backbone", "optimizer", "optimizer.lr"])
    assert cfg == KEPT
    with pytest.raises(ConfigError, match="optimizer.newer: got 1, but the run has no such key"):
        resuming._changed(OmegaConf.create(KEPT), given, ["optimizer.newer"])


@pytest.mark.parametrize(("said", "stays"), [(16, True), (4, True), (2, False)])
def test_what_a_plan_lowered_is_not_raised_by_the_same_command_line(said, stays):
    auto = {"image_size": "auto", "micro_batch_size": "auto", "batch_size": 8}
    memory = {"maximize": None, "plan": None, "budget": "auto", "scale_batch_size": False}
    memory["activation_checkpointing"] = "auto"
    cfg = OmegaConf.create({**auto, "memory": memory, "evaluation": {"batch_size": said}})
    found = resuming._found_by_plan(cfg, OmegaConf.create({"evaluation": {"batch_size": 4}}))
    assert ("evaluation.batch_size" in found or said == 4) == stays


def test_what_has_changed_is_told_in_one_line(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("hires"), "propagate", True)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(KEPT))
    with caplog.at_level(logging.INFO, "hires.resuming"):
        resuming.tell_changes(tmp_path, OmegaConf.create(KEPT))
        assert not caplog.messages
        resuming.tell_changes(tmp_path, changed("optimizer.lr=0.2", "optimizer.weight_decay=0.5"))
    assert caplog.messages == ["From now on: optimizer.lr=0.2 (was 0.1), optimizer.weight_decay=0.5 (was 0.0)"]
