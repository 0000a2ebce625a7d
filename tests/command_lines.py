"""The command line with commands that only note how they are called."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from omegaconf import OmegaConf

from hires import cli

Hires = Callable[..., tuple[int, str, str]]


class Calls(list[tuple[str, Any, list[str]]]):
    """(command, configuration, sys.argv) of every call of a command; `then` happens in each.

    `settings` are those of the last `compare`.
    """

    settings: Any = None

    def then(self, cfg: Any) -> None: ...


def stand_in(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Stands in for hires.build, and for the modules of commands that have their own."""
    made, module = Calls(), ModuleType("hires.build")

    def command(name: str) -> Callable[..., None]:
        def call(cfg: Any, settings: Any = None) -> None:
            made.append((name, OmegaConf.to_container(cfg, resolve=True), list(sys.argv)))
            made.settings = settings
            made.then(cfg)

        return call

    for name in cli.COMMANDS:
        setattr(module, name.replace("-", "_"), command(name))
    for place in ("hires.build", *cli.MODULES.values()):
        monkeypatch.setitem(sys.modules, place, module)
    return made


def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Hires:
    """Runs `hires ...` in an empty directory: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    for name in ("HYDRA_FULL_ERROR", "HIRES_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        argv = ["hires", *arguments]
        monkeypatch.setattr(sys, "argv", argv)
        try:
            code = cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        assert sys.argv is argv
        return code, *capsys.readouterr()

    return run


def wrong(result: tuple[int, str, str], code: int = 2) -> str:
    """The one line on stderr of a call that failed."""
    given, out, err = result
    assert (given, out) == (code, ""), err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err.rstrip("\n")


def python(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
