"""The command line in these tests calls commands that only note how they are called."""

from pathlib import Path

import pytest

from tests.command_lines import Calls, Hires, stand_in, typed


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return stand_in(monkeypatch)


@pytest.fixture
def hires(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Hires:
    return typed(monkeypatch, tmp_path, capsys)
