"""The processes that read a data set for a survey."""

import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
from functools import partial

import pytest
from image_files import noise, save

from hires.data.checks.examine import Examiner, examine
from hires.data.pairs import Pair
from tests.forks import forked

_SURVEY = """
import os, sys, time
from pathlib import Path
from hires.data.checks import examine
from hires.data.pairs import Pair

class Slow(examine.Examiner):
    def __call__(self, pair):
        os.write(1, b"%d\\n" % os.getpid())  # in one piece, beside the other process
        time.sleep(120)

pairs = [Pair(name, name, "") for name in ("0.png", "1.png")]
examine.examine(Slow(Path(sys.argv[1]), None), pairs, 2, lambda done: None)
"""


def test_other_processes_of_a_program_are_left_alone(tmp_path):
    for index in range(2):
        save(tmp_path / f"{index}.png", noise(8, 8))
    other = forked(threading.Event().wait)

    def interrupted(done):
        raise KeyboardInterrupt

    pairs = [Pair(name, name, "") for name in ("0.png", "1.png")]
    with pytest.raises(KeyboardInterrupt):
        examine(Examiner(tmp_path, None), pairs, 1, interrupted)
    os.kill(other.pid, signal.SIGKILL)
    assert other.wait(30) == -signal.SIGKILL  # and not of the SIGTERM that readers get


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs process descriptors of Linux")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_readers_end_when_the_process_that_they_read_for_is_ended(tmp_path, number):
    for index in range(2):
        save(tmp_path / f"{index}.png", noise(8, 8))
    command = [sys.executable, "-c", _SURVEY, str(tmp_path)]
    default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell may have it ignored
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=default) as main:
        readers = [os.pidfd_open(int(main.stdout.readline())) for _ in range(2)]
        main.send_signal(number)
    ended = [bool(select.select([reader], [], [], 30)[0]) for reader in readers]
    for reader, over in zip(readers, ended, strict=True):
        if not over:
            signal.pidfd_send_signal(reader, signal.SIGKILL)
        os.close(reader)
    assert ended == [True, True]


@pytest.fixture
def six(tmp_path):
    """A folder, and the pairs of its six images."""
    for index in range(6):
        save(tmp_path / f"{index}.png", noise(8, 8, seed=index))
    return tmp_path, [Pair(str(index), f"{index}.png", "") for index in range(6)]


class Fatal(Examiner):
    """Ends its process for one file."""

    def __call__(self, pair):
        if pair.image == "2.png":
            os._exit(9)
        return super().__call__(pair)


def test_a_file_that_ends_its_process_is_named_and_the_others_are_read(six):
    root, pairs = six
    told = []
    records = examine(Fatal(root, None), pairs, 2, told.append)
    assert [bool(record.image) for record in records] == [True, True, False, True, True, True]
    assert "ends the process" in records[2].problem
    assert told[-1] == 6


class Early(Fatal):
    """Has ended the processes before the fourth file is given to them."""

    def cost(self, pair):
        if pair.key == "3":
            for process in multiprocessing.active_children():
                process.join()
        return super().cost(pair)


def test_processes_that_end_before_they_get_a_file(six):
    root, pairs = six
    records = examine(Early(root, None), pairs, 2, lambda done: None)
    assert [bool(record.problem) for record in records] == [False, False, True, False, False, False]
