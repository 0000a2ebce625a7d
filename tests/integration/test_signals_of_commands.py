"""Signals that come to the command line while no training listens to them."""

import signal

import pytest

from hires.cli.job import Run
from hires.request import parse
from tests.forks import forked

SECONDS = 120
BOTH = pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1], ids=lambda number: number.name
)


@BOTH
@pytest.mark.parametrize("ignored", [False, True], ids=["heard", "ignored"])
def test_what_is_ignored_from_the_start_stays_so(hires, monkeypatch, number, ignored):
    """As by nohup; else the command ends by it."""
    monkeypatch.setattr(Run, "_work", lambda self, cfg: signal.raise_signal(number))
    before = signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        assert hires("train")[0] == (0 if ignored else 128 + number)
    finally:
        signal.signal(number, before)


@BOTH
def test_the_job_of_a_launcher_ends_in_order(number):
    """Where a copy of the command runs in another process: no default action ends it, no result is left."""

    def job():
        run = Run(parse("train", []), "sweep")
        run.__setstate__({})  # what makes it a copy
        run._work = lambda cfg: signal.raise_signal(number)
        signal.signal(number, signal.SIG_DFL)
        run.job(None)

    assert forked(job).wait(SECONDS) == 128 + number
