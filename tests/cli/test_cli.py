"""The command line: what reaches a command, and how one ends."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hires import cli
from hires.errors import ConfigError, DataError
from tests.command_lines import Calls, Hires, python, wrong

ROOT = Path(__file__).resolve().parents[2]


def test_without_a_command_one_line_each(hires: Hires) -> None:
    for arguments in ((), ("--help",), ("-h",)):
        code, out, _ = hires(*arguments)
        assert code == 0
        for name, text in cli.COMMANDS.items():
            assert any(name in line and text in line for line in out.splitlines())


def test_version(hires: Hires) -> None:
    assert hires("--version")[1].startswith("hires 0.")


def test_unknown_command(hires: Hires) -> None:
    message = f"trian: no such command; did you mean train? allowed: {', '.join(cli.COMMANDS)}"
    assert wrong(hires("trian", "seed=1")) == message


def test_a_command_gets_its_configuration_and_the_full_command_line(hires: Hires, calls: Calls) -> None:
    assert hires("train", "experiment=demo", "trainer.max_steps=7")[0] == 0
    (name, cfg, argv) = calls[0]
    assert (name, cfg["trainer"]["max_steps"], cfg["image_size"]) == ("train", 7, 256)
    assert argv == ["hires", "train", "experiment=demo", "trainer.max_steps=7"]
    assert "hydra" not in cfg
    assert os.listdir() == []


def test_flags_and_overrides_in_any_order(hires: Hires, calls: Calls) -> None:
    assert hires("evaluate", "run=x", "-m", "split=val,test", "evaluation.window=64,128")[0] == 0
    given = [(cfg["split"], cfg["evaluation"]["window"]) for _, cfg, _ in calls]
    assert given == [("val", 64), ("val", 128), ("test", 64), ("test", 128)]
    assert all(argv[1] == "evaluate" for _, _, argv in calls)


def test_a_users_own_experiment(hires: Hires, calls: Calls, tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "experiment"
    folder.mkdir(parents=True)
    (folder / "own.yaml").write_text("# @package _global_\n# Mine.\nbatch_size: 3\n")
    assert hires("train", "--config-dir", "mine", "experiment=own")[0] == 0
    assert calls[0][1]["batch_size"] == 3
    out = hires("train", "experiment=own", "--config-dir", "mine", "--help")[1]
    assert "experiment=own *" in out
    assert "Mine." in out
    assert "\n  batch_size=3\n" in out
    near = wrong(hires("train", "experiment=owm", "--config-dir", "mine"))
    assert near.startswith("experiment: got owm; did you mean experiment=own? allowed: ")
    assert near.endswith(", own")


def test_errors_of_a_command(hires: Hires, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: BaseException) -> Callable[[Any], None]:
        def raising(cfg: Any) -> None:
            raise error

        return raising

    monkeypatch.setattr(calls, "then", fail(ConfigError("trainer.max_steps: got 0\nallowed: more")))
    assert wrong(hires("evaluate", "run=x")) == "trainer.max_steps: got 0 allowed: more"
    monkeypatch.setattr(calls, "then", fail(DataError("a.png: truncated")))
    assert wrong(hires("evaluate", "run=x"), code=1) == "a.png: truncated"
    monkeypatch.setattr(calls, "then", fail(KeyboardInterrupt()))
    assert hires("evaluate", "run=x") == (130, "", "")
    for bug in (ValueError("a bug"), KeyError("a bug")):
        monkeypatch.setattr(calls, "then", fail(bug))
        with pytest.raises(type(bug), match="a bug"):
            hires("evaluate", "run=x")
    assert "HYDRA_FULL_ERROR" not in os.environ


def test_one_wrong_job_does_not_stop_a_sweep(hires: Hires, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(cfg: Any) -> None:
        if cfg.split == "b":
            raise ConfigError("split: got b")

    monkeypatch.setattr(calls, "then", odd)
    code, _, err = hires("evaluate", "-m", "run=x", "split=a,b,c")
    assert (code, err) == (2, "job 1: split: got b\n")
    assert [cfg["split"] for _, cfg, _ in calls] == ["a", "b", "c"]
    (sweep,) = Path("runs/sweeps").iterdir()
    assert os.listdir(sweep) == ["multirun.yaml"], "directories are made by the jobs that need one"


SHORT = [
    (MemoryError(), "MemoryError"),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory:\n12 bytes."), "can't allocate memory: 12 bytes;"),
]


@pytest.mark.parametrize(("error", "message"), SHORT)
def test_short_memory_ends_in_a_line(
    error: Exception, message: str, hires: Hires, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch  # noqa: F401  what cannot be told without it is told where a command has imported it

    def fail(cfg: Any) -> None:
        if cfg.split != "b":
            raise error

    monkeypatch.setattr(calls, "then", fail)
    said = wrong(hires("evaluate", "run=x"), code=1)
    assert said.startswith("memory ran out: ")
    assert message in said
    code, _, err = hires("evaluate", "-m", "run=x", "split=a,b")
    assert (code, err) == (1, f"job 0: {said}\n")
    assert len(calls) == 3
    monkeypatch.setenv("HIRES_DEBUG", "1")
    assert "Traceback" in hires("evaluate", "run=x")[2]


@pytest.mark.parametrize("variable", ["HYDRA_FULL_ERROR", "HIRES_DEBUG"])
def test_a_traceback_on_request(variable: str, hires: Hires, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    code, _, err = hires("train", "trainer.max_stepz=5")
    assert code == 2
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("trainer.max_stepz: no such key")
    assert os.environ[variable] == "1"


def test_the_users_environment_in_a_command(hires: Hires, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []
    monkeypatch.setattr(calls, "then", lambda cfg: seen.append(os.environ.get("HYDRA_FULL_ERROR")))
    hires("evaluate", "run=x")
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    hires("evaluate", "run=x")
    assert seen == [None, "1"]


def test_hydras_own_flags(hires: Hires) -> None:
    code, out, _ = hires("train", "--cfg", "job", "-p", "trainer", "trainer.max_steps=5")
    assert code == 0
    assert yaml.safe_load(out)["max_steps"] == 5
    code, out, _ = hires("train", "--hydra-help")
    assert code == 0
    assert "--shell-completion" in out


def test_real_processes(tmp_path: Path) -> None:
    for script in (["-m", "hires.cli", "train"], [str(ROOT / "tools" / "train.py")]):
        done = python(*script, "trainer.max_stepz=5", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith("trainer.max_stepz: no such key; did you mean trainer.max_steps?")
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""
    done = python(str(ROOT / "tools" / "train.py"), "--info", "defaults", "model=unet", cwd=tmp_path)
    assert done.returncode == 0
    assert "trainer/default" in done.stdout
    done = python(str(ROOT / "tools" / "evaluate.py"), "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "hires evaluate" in done.stdout
    assert os.listdir(tmp_path) == []


def test_a_wrong_value_ends_the_real_command(tmp_path: Path) -> None:
    done = python("-m", "hires.cli", "train", "trainer.max_steps=abc", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "trainer.max_steps: got 'abc', allowed: a whole number" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_is_a_script_too(name):
    script = ROOT / "tools" / f"{name.replace('-', '_')}.py"
    assert f'run_command("{name}"' in script.read_text()
