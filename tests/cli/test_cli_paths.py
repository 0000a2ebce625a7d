"""Values of paths that Hydra does not read as texts."""

import pytest
from omegaconf import OmegaConf

from hires.cli.paths import as_texts
from tests.command_lines import wrong


def test_numbers_are_names():
    cfg = OmegaConf.create({"run_dir": 2025, "seed": 3, "data": {"root": 7}, "out": "???", "init_from": None})
    as_texts(cfg)
    assert OmegaConf.to_container(cfg) == {
        "run_dir": "2025",
        "seed": 3,
        "data": {"root": "7"},
        "out": "???",
        "init_from": None,
    }


@pytest.mark.parametrize(
    "override",
    [
        "run_dir=1e5",
        "run_dir=true",
        "resume=true",
        "resume=[1]",
        "run_config=true",
        "init_from={a: 1}",
        "data_dir=1.5",
    ],
)
def test_what_is_no_text_is_refused_in_one_line(hires, override):
    code, _, error = hires("train", override)
    (line,) = error.strip().splitlines()
    assert code == 2
    assert line.startswith(f"{override.partition('=')[0]}: got ")


@pytest.mark.parametrize("key", ["resume", "run_config", "init_from"])
def test_an_empty_text_is_not_null(hires, key):
    code, _, error = hires("train", f"{key}=")
    assert (code, error) == (2, f"{key}: got an empty text, allowed: a path, or null\n")


def test_a_number_names_a_run(hires, calls):
    assert hires("train", "resume=2025")[0] == 0
    assert calls[0][1]["resume"] == "2025"
    assert wrong(hires("train", "run_config=2025"), code=1).startswith("2025: cannot be read")


def test_flags_that_do_not_go_together_are_told_before_anything_else(hires):
    code, out, error = hires("train", "--cfg", "hydra", "-m", "hydra/launcher=submitit_slurm", "seed=0,1")
    assert (code, out) == (2, "")
    assert error == "--multirun and --cfg: do not go together; give one of them\n"
