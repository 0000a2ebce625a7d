"""`run_config=` outside of `hires train`: in other commands, and from Python."""

import pytest
from omegaconf import OmegaConf

from hires.api import _composed
from hires.cli.compared import compose_settings
from hires.cli.repeat import loosened
from hires.interfaces import ConfigError
from hires.request import parse
from hires.runs import save_config


@pytest.fixture
def kept(tmp_path):
    """The configuration of a run that is not the default one."""
    overrides = ("optimizer=sgd", "optimizer.lr=0.25", "trainer.max_steps=7", "data=mask_folder", "seed=3")
    needed = ("data.root=/data/x", "data.classes={a: 0, b: 1}")
    with _composed("train", (*overrides, *needed)) as cfg:
        save_config(cfg, tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["train", "profile", "autobatch", "check-data"])
def test_a_run_is_the_start_of_every_command_that_takes_settings_of_a_training(kept, command):
    with _composed(command, (f"run_config={kept}", "trainer.max_steps=9", "data.classes={a: 0, c: 5}")) as cfg:
        assert (cfg.optimizer.name, cfg.optimizer.lr, cfg.seed, cfg.trainer.max_steps) == ("nesterov", 0.25, 3, 9)
        assert cfg.data.classes == {"a": 0, "c": 5}
        assert cfg.run_config is None
        maximize = "batch" if command == "autobatch" else None
        assert (cfg.memory.maximize, cfg.image_size) == (maximize, "auto")


def test_settings_are_compared_on_top_of_a_run(kept):
    given = ("settings={one: [optimizer.lr=0.5], other: [optimizer=adamw]}", "steps=2", f"run_config={kept}")
    request = parse("compare", given)
    with _composed("compare", given) as cfg:
        found = compose_settings(cfg, loosened(request))
    optimizers = [(each.cfg.optimizer.name, each.cfg.optimizer.lr) for each in found.values()]
    assert optimizers == [("nesterov", 0.5), ("adamw", 0.001)]
    assert {each.cfg.seed for each in found.values()} == {3}
    assert (cfg.steps, cfg.optimizer.name) == (2, "nesterov")


def test_keys_that_a_run_lacks_are_refused_unless_they_are_added(kept):
    with (
        pytest.raises(ConfigError, match="data.imagess: no such key"),
        _composed("profile", (f"run_config={kept}", "data.imagess=1")),
    ):
        pass
    with _composed("profile", (f"run_config={kept}", "++optimizer.arguments.weight_decouple=true")) as cfg:
        assert OmegaConf.select(cfg, "optimizer.arguments.weight_decouple") is True


def test_how_much_is_said_is_of_the_command_line(kept, tmp_path):
    with _composed("train", (f"run_config={kept}", "log_level=debug")) as cfg:
        save_config(cfg, tmp_path)
    with _composed("train", (f"run_config={tmp_path}",)) as cfg:
        assert cfg.log_level == "info"
