"""What a configuration from outside may say without anything being called, loaded, or written elsewhere."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.command_lines import Calls, Hires, wrong


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("job: {env_set: {LD_PRELOAD: ./evil.so}}", "job.env_set"),
        ("job: {chdir: true}", "job.chdir"),
        ("run: {dir: elsewhere}", "run.dir"),
        ("output_subdir: traces", "output_subdir"),
    ],
)
def test_a_file_says_nothing_of_where_a_command_runs(
    text: str, key: str, hires: Hires, calls: Calls, tmp_path: Path
) -> None:
    folder = tmp_path / "mine" / "experiment"
    folder.mkdir(parents=True)
    (folder / "e.yaml").write_text(f"# @package _global_\nhydra:\n  {text}\n")
    asked = ["train", "--config-dir", "mine", "experiment=e"]
    assert wrong(hires(*asked)).startswith(f"hydra.{key}: cannot be changed by a file")
    assert wrong(hires(*asked, "hydra.job.name=x")).startswith(f"hydra.{key}: cannot be changed by a file")
    assert calls == []
    assert {path.name for path in tmp_path.iterdir()} == {"mine"}


def test_the_command_line_says_it(hires: Hires, calls: Calls) -> None:
    assert hires("train", "+hydra.job.env_set.HIRES_SAID=yes")[0] == 0
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("data: {x: &x {y: 1}, z: *x}", "has aliases"),
        ("data: " + "[" * 3000, "nested too deeply"),
        ("data: !!python/object/apply:os.mkdir [broken_in]", "not YAML"),
        ("data: {x: '${oc.create:{_target_: os.mkdir, _args_: [broken_in]}}'}", "config.yaml: "),
    ],
)
def test_the_configuration_of_a_run(text: str, told: str, hires: Hires, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    code, _, error = hires("train", "run_config=config.yaml")
    assert code in (1, 2)
    assert told in error
    assert error.count("\n") == 1
    assert calls == []
    assert not (tmp_path / "broken_in").exists()


def test_an_interpolation_of_a_run_stays_in_its_files(hires: Hires, tmp_path: Path, monkeypatch) -> None:
    """What it stands for comes from the environment of who runs the command, and is written nowhere."""
    from hires import run_settings
    from hires.runs import save_config

    monkeypatch.setenv("SECRET", "known")
    cfg = OmegaConf.create(
        {"data": {"root": "a${oc.env:SECRET}"}, "data_dir": "x", "run_dir": None, "resume": None}
    )
    cfg.memory, cfg.backbone = {}, {}
    (tmp_path / "run").mkdir()
    save_config(cfg, tmp_path / "run")
    text = (tmp_path / "run" / "config.yaml").read_text()
    assert "${oc.env:SECRET}" in text
    assert "known" not in text
    shown = run_settings.how_to_train(cfg)
    assert run_settings.text("data.root", shown["data.root"]) == "a${oc.env:SECRET}"
