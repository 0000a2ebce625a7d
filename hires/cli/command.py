"""The `hires` command: `hires NAME overrides...` runs one @hydra.main function a command."""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches

from hires import __version__
from hires.cli import launchers
from hires.cli.check import check_hydra
from hires.cli.errors import CONFIG_ERRORS, check_overrides, explain, out_of_memory
from hires.cli.help import command_help, overview
from hires.cli.job import Run, code_of, reported
from hires.cli.repeat import loosened
from hires.cli.signals import ended_by_signals
from hires.errors import HiresError, Interrupted
from hires.request import Request, parse

COMMANDS = {
    "train": "Train a model, or continue a stopped run.",
    "evaluate": "Evaluate a trained run on whole images at native resolution.",
    "predict": "Write masks or boxes of any images with a trained run, at native resolution.",
    "autobatch": "Find the plan that fits a budget: the largest micro-batch or image size, or the fastest.",
    "profile": "Predict what a training step occupies, on any device, and what policies would change.",
    "compare": "Train under several settings side by side, or set finished runs side by side (runs=[A,B]).",
    "export": "Write the model of a run as ONNX or torch.export, and check that it does the same.",
    "report": "Write the report of a run again, from its files.",
    "check-data": "Read every file of a data set and report what is broken, odd, or asks for other settings.",
}
"""What each command does; its name is that of its config file and of its function."""


def main() -> int:
    """Runs what sys.argv asks for.

    Exit codes: 0, 1 (error, or memory ran out), 2 (wrong key or value), 128 + n (ended by signal n).
    """
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        _show(overview(COMMANDS))
        return 0
    if name == "--version":
        print(f"hires {__version__}")
        return 0
    if name in ("-sc", "--shell-completion"):
        return _complete([name, *arguments])
    if name not in COMMANDS:
        near = get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        print(f"{name}: no such command; {hint}allowed: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return run_command(name, arguments)


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Runs one command with its overrides and flags. A bug's exception passes; all others end in a line."""
    # Segments that grow waste less of a device; torch reads this when it is imported.
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    launchers.quiet()
    run: Run | None = None
    request: Request | None = None
    try:
        request = parse(name, arguments)
        check_overrides(request)
        if request.flags.help:
            _show(command_help(request, COMMANDS[name]))
            return 0
        request = loosened(request)
        sweep_dir = None
        if not (request.flags.shell_completion or request.flags.hydra_help):
            sweep_dir = launchers.sweep_dir(check_hydra(request), request)
        run = Run(request, sweep_dir)
        with ended_by_signals():
            return run()
    except KeyboardInterrupt:
        return 130
    except Interrupted as end:
        return end.code
    except HiresError as error:
        return reported(error, str(error), code_of(error))
    except CONFIG_ERRORS as error:
        if request is None or (run and run.failed):
            raise
        return reported(error, explain(error, request), 2)
    except MemoryError as error:
        return reported(error, out_of_memory(error), 1)


def _show(text: str) -> None:
    """Prints a text, of which the reader (`hires train --help | head`) need not want all."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still in the buffer


def _complete(arguments: list[str]) -> int:
    """Shell completion: hydra's script asks `hires -sc query=SHELL` with the line in COMP_LINE."""
    executable, *words = os.environ.get("COMP_LINE", "hires").split(" ")
    if "query" in arguments[-1] and (not words or words[0] not in COMMANDS):
        print(" ".join(COMMANDS))
        return 0
    name = words[0] if words else next(iter(COMMANDS))
    os.environ["COMP_LINE"] = " ".join([executable, *words[1:]])
    return run_command(name, arguments)
