"""The terminal: one line that moves, or plain lines; colours and words as they are wanted."""

import io
import logging
import re
from pathlib import Path

import pytest

from hires import verbosity
from hires.engine.display import Display, Terminal, log_to, memory_text, short_memory, show_summary
from hires.interfaces import ConfigError

VALUES = {"loss": 0.53217, "lr": 0.003, "images/s": 8.4, "nothing": None}
OUTCOME = {
    "best": {"metric": "mIoU", "value": 0.5, "step": 20},
    "steps": 40,
    "peak_bytes": {"predicted": {"allocated": None, "reserved": 2**31}, "allocated": None, "reserved": 3 * 2**29},
    "seconds_per_step": 0.25,
    "images_per_second": 16.0,
}


@pytest.fixture(autouse=True)
def _level():
    yield
    verbosity.choose("info")


def terminal(width=100, **options):
    return Terminal(file=io.StringIO(), force_terminal=True, width=width, **options)


def shown(console):
    """What is on the terminal at the end, without what moves the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "\n", re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue()))


@pytest.mark.parametrize("width", [80, 160])
def test_a_training_is_one_line_with_the_time_left_at_its_end(width):
    console = terminal(width)
    with Display(console, 40, memory=lambda: (2**29, 2**30, 2**33)) as display:
        display.stepped(10)
        display.trained(10, VALUES)
    lines = [line for line in shown(console).splitlines() if "loss" in line]
    assert lines
    assert all(len(line) <= width for line in lines)
    memory = "0.50/1.00/8.00 GiB" if width == 80 else "512.0 MiB allocated, 1.00 GiB reserved of 8.00 GiB"
    assert re.fullmatch(
        rf"training .*10/40 loss 0\.5322  lr 0\.003  images/s 8\.4  {memory} +(\d:\d\d:\d\d|-:--:--)", lines[-1]
    )


def test_plain_lines_where_there_is_no_terminal(capsys):
    console = Terminal()
    log_to(console, None)
    with Display(console, 40, memory=lambda: (None, 2**30, None)) as display:
        display.stepped(10)
        display.trained(10, VALUES)
    out = capsys.readouterr().out
    assert re.fullmatch(
        r"step 10/40  loss 0.5322  lr 0.003  images/s 8.4  1.00 GiB reserved  left \d:\d\d:\d\d\n", out
    )


def test_an_evaluation_tells_where_it_is_now_and_then(monkeypatch, capsys):
    console, clock = Terminal(), iter([0.0, 0.0, 1.0, 12.0, 13.0, 40.0, 45.0, 100.0, 101.0])
    log_to(console, None)
    with Display(console, 40, split="test") as display:
        monkeypatch.setattr("hires.engine.display.time.monotonic", lambda: next(clock))
        for done in (0, 0, 0, 0, 1, 2, 4, 0, 1):
            display.evaluating(done, 4)
    assert capsys.readouterr().out.splitlines() == [
        "evaluating test: 0/4 images",
        "evaluating test: 2/4 images, 0:00:40 left",
    ]


def test_a_dumb_terminal_gets_plain_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    console = terminal()
    log_to(console, None)
    with Display(console, 40) as display:
        display.trained(10, VALUES)
    assert "\x1b[" not in console.file.getvalue().replace("\x1b[0m", "")
    assert "loss 0.5322" in console.file.getvalue()


@pytest.mark.parametrize("without", [True, False])
def test_no_color(monkeypatch, without):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.setenv("NO_COLOR", "1" if without else "")
    console = terminal()
    with Display(console, 40) as display:
        display.stepped(40)
        display.trained(40, VALUES)
    coloured = re.search(r"\x1b\[[0-9;]*(3[0-8]|9[0-7])[0-9;]*m", console.file.getvalue())
    assert (coloured is None) == without


def test_quiet_shows_warnings_alone_and_the_file_has_all(tmp_path, capsys):
    verbosity.choose("warning")
    console = Terminal(force_terminal=True)
    log_to(console, tmp_path / "train.log")
    log = logging.getLogger("hires.test")
    log.info("said")
    log.warning("warned")
    with Display(console, 40) as display:
        display.stepped(1)
        display.trained(10, VALUES)
    show_summary(console, OUTCOME, {})
    out, err = capsys.readouterr()
    assert (out, err) == ("", "warned\n")
    assert "said" in (tmp_path / "train.log").read_text()


def test_verbose_names_steps(capsys):
    verbosity.choose("debug")
    console = Terminal()
    log_to(console, None)
    with Display(console, 40) as display:
        display.stepped(7)
    assert "DEBUG hires.engine.display: step 7/40 is done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("bytes_", "text"),
    [
        ((None, None, None), ""),
        ((None, 2**30, 2**31), "1.00 GiB reserved of 2.00 GiB"),
        ((2**20, 2**21, None), "1.0 MiB allocated, 2.0 MiB reserved"),
        ((None, None, 2**30), ""),
    ],
)
def test_memory_as_far_as_it_is_known(bytes_, text):
    assert memory_text(*bytes_) == text
    assert bool(short_memory(*bytes_)) == bool(text)


def test_the_summary():
    console = Terminal(file=io.StringIO(), width=100)
    show_summary(console, OUTCOME, {"report": Path("runs/[red]x/report.html")})
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert [re.split(r"  +", line) for line in lines] == [
        ["best mIoU", "0.5000 at step 20 of 40"],
        ["peak reserved", "1.50 GiB, predicted 2.00 GiB"],
        ["a step", "250 ms, 16 images a second, without waiting for data"],
        ["report: runs/[red]x/report.html"],
    ]


def test_a_level_that_there_is_not():
    with pytest.raises(ConfigError, match="log_level: got 'loud', allowed: warning, info, debug"):
        verbosity.choose("loud")
