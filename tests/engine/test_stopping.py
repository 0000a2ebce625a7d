"""Signals in a training: what the first does, what a second does, what is as before afterwards."""

import os
import signal
import sys
import threading

import numpy as np
import pytest
import torch
from torch import nn

from hires.engine.evaluate import FittingViews, evaluate
from hires.engine.stopping import SIGNALS, Stopping
from hires.engine.views import Views
from hires.interfaces import Interrupted
from tests.forks import forked

ALL = pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)


@ALL
def test_a_signal_is_agreed_on_and_settled(number):
    with Stopping() as stopping:
        assert stopping.agree() == (0, False)
        stopping.settle()
        signal.raise_signal(number)
        assert stopping.agree(True) == (number, True)
        with pytest.raises(Interrupted) as caught:
            stopping.settle()
    assert caught.value.code == 128 + number
    assert str(caught.value) == number.name


def test_handlers_are_as_before():
    def mine(number, frame): ...

    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGUSR1, mine)
    try:
        with Stopping():
            assert signal.getsignal(signal.SIGUSR1) is not mine
        assert signal.getsignal(signal.SIGUSR1) is mine
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "signals" not in [thread.name for thread in threading.enumerate()]


def test_what_was_ignored_stays_so():
    """As in what a shell starts in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Stopping() as stopping:
            signal.raise_signal(signal.SIGINT)
            assert stopping.agree() == (0, False)
    finally:
        signal.signal(signal.SIGINT, before)


def test_beside_the_main_thread_nobody_listens():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def run():
        with Stopping() as stopping:
            seen.append((signal.getsignal(signal.SIGTERM), stopping.agree()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [(before, (0, False))]


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGUSR1], ids=lambda number: number.name)
def test_a_second_signal_ends_at_once(first, monkeypatch):
    """Although the main thread never comes to a step again."""
    monkeypatch.setattr("hires.engine.stopping.APART", 0)

    def hang():
        with Stopping():
            os.kill(os.getpid(), first)
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait()

    assert forked(hang).wait(30) == 128 + signal.SIGTERM


def test_what_is_passed_on_twice_is_one_signal(monkeypatch):
    """Launchers send what the process has got from the terminal too."""
    monkeypatch.setattr("hires.engine.stopping.APART", 60)

    def twice():
        with Stopping() as asked:
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGINT)
            sys.exit(asked.agree()[0])

    assert forked(twice).wait(30) == signal.SIGINT


def test_a_second_request_to_requeue_is_the_same(monkeypatch):
    monkeypatch.setattr("hires.engine.stopping.APART", 0)

    def again():
        with Stopping() as asked:
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGUSR1)
        sys.exit(asked.agree()[0])  # the counting thread has ended, and seen both

    assert forked(again).wait(30) == signal.SIGUSR1


class Bright(nn.Module):
    """Counts the views that it is shown, and asks for the end at the second."""

    def __init__(self):
        super().__init__()
        self.shown = 0

    def predict(self, batch):
        self.shown += len(batch.images)
        if self.shown == 2:
            signal.raise_signal(signal.SIGTERM)
        return list(batch.images)

    def stitch(self, size, predictions):
        yield sum(float(pixels.sum()) for _, pixels in predictions)


class Images:
    def __len__(self):
        return 3

    def read(self, index):
        return np.ones((64, 128, 1), np.uint8), {}


class Adds:
    def __init__(self):
        self.total = 0.0

    def reset(self):
        self.total = 0.0

    def update(self, part, target):
        self.total += part

    def counted(self):
        return self.total

    def merge(self, others):
        pass

    def compute(self):
        return {"sum": self.total}


def test_an_evaluation_ends_between_two_views():
    task = Bright().train()
    with Stopping() as stopping, pytest.raises(Interrupted):
        evaluate(task, Images(), Adds(), FittingViews(Views("window", (64, 32), 0.0)), stopping=stopping)
    assert task.shown == 2  # of the four of the first image
    assert task.training
    whole = evaluate(task, Images(), Adds(), FittingViews(Views("window", (64, 32), 0.0)))
    assert whole == {"sum": 3 * 64 * 128}
    assert torch.is_grad_enabled()
