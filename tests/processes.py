"""Processes that train together, as torchrun starts them: forked, so that nothing has to be imported again."""

import contextlib
import io
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from hires.engine.ranks import Several

COMMANDS = 12  # that one group of processes may run, each with a port of its own


class Answer(NamedTuple):
    """What a command ended with, in this process."""

    code: int
    output: str
    error: str


class Group:
    """A process of a group, which runs functions and commands together with the others."""

    def __init__(self, rank: int, size: int, ports: list[int]):
        self.rank, self.size = rank, size
        self._ports = iter(ports)

    def hires(self, *arguments: str) -> Answer:
        """The command line, in this process; all processes of the group have to run the same ones."""
        from hires.cli import main

        self._surround()
        sys.argv = ["hires", *arguments]
        output, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
            try:
                code = main()
            except SystemExit as end:
                code = end.code
        return Answer(code, output.getvalue(), error.getvalue())

    def joined(self) -> Several:
        """The processes without a training."""
        self._surround()
        dist.init_process_group("gloo")
        return Several(self.rank, self.size)

    def _surround(self) -> None:
        port = next(self._ports)
        if self.size > 1:
            names = ("RANK", "LOCAL_RANK"), ("WORLD_SIZE", "LOCAL_WORLD_SIZE")
            for values, value in zip(names, (self.rank, self.size), strict=True):
                os.environ.update(dict.fromkeys(values, str(value)))
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCHELASTIC_RUN_ID="1")
            os.environ.update(GROUP_RANK="0", TORCHELASTIC_USE_AGENT_STORE="False")


def in_processes(size: int, check: Callable[[Group], Any]) -> None:
    """Runs `check` in so many processes; raises what fails in one of them.

    Not in a process in which autograd has run: its threads are not there in a fork.
    """
    free = [socket.socket() for _ in range(COMMANDS)]
    for one in free:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in free]
    for one in free:
        one.close()
    mp.start_processes(_process, (check, size, ports), nprocs=size, start_method="fork")


def _process(rank: int, check: Callable[[Group], Any], size: int, ports: list[int]) -> None:
    torch.set_num_threads(1)
    check(Group(rank, size, ports))
