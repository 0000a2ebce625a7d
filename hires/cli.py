"""The `hires` command: `hires NAME overrides...` runs one @hydra.main function a command."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from hires import (
    __version__,
    cli_check,
    cli_errors,
    cli_help,
    cli_launchers,
    cli_repeat,
    cli_settings,
    instantiate,
    verbosity,
)
from hires.cli_compose import Request, parse
from hires.cli_signals import ended_by_signals
from hires.errors import ConfigError, HiresError, Interrupted
from hires.imports import without_collections
from hires.ops.printable import printable

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
"""What each command does; its name is that of its config file and of its function in hires.build."""
_OWN = ("autobatch", "compare", "profile", "export", "report", "check-data")
MODULES = {name: f"hires.{name.replace('-', '_')}" for name in _OWN}
MODULES["predict"] = "hires.prediction"  # hires.predict is left to the Python interface
"""Commands whose functions are elsewhere."""

_FULL_ERROR = "HYDRA_FULL_ERROR"


def main() -> int:
    """Runs what sys.argv asks for.

    Exit codes: 0, 1 (error, or memory ran out), 2 (wrong key or value), 128 + n (ended by signal n).
    """
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        _show(cli_help.overview(COMMANDS))
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
    cli_launchers.quiet()
    run: _Run | None = None
    request: Request | None = None
    try:
        request = parse(name, arguments)
        cli_errors.check_overrides(request)
        if request.flags.help:
            _show(cli_help.command_help(request, COMMANDS[name]))
            return 0
        request = cli_repeat.loosened(request)
        sweep_dir = None
        if not (request.flags.shell_completion or request.flags.hydra_help):
            sweep_dir = cli_launchers.sweep_dir(cli_check.check_hydra(request), request)
        run = _Run(request, sweep_dir)
        with ended_by_signals():
            return run()
    except KeyboardInterrupt:
        return 130
    except Interrupted as end:
        return end.code
    except HiresError as error:
        return _report(error, str(error), _code(error))
    except cli_errors.CONFIG_ERRORS as error:
        if request is None or (run and run.failed):
            raise
        return _report(error, cli_errors.explain(error, request), 2)
    except MemoryError as error:
        return _report(error, cli_errors.out_of_memory(error), 1)


class _Run:
    """One call of hydra.main, which may run several jobs: those of `sweep_dir` by copies in other processes."""

    def __init__(self, request: Request, sweep_dir: str | None = None):
        self.request, self.sweep_dir = request, sweep_dir
        self.argv, self.full_error = sys.argv, os.environ.get(_FULL_ERROR)
        self.copied = False
        self.code = 0
        self.failed = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, copied=True)
        cli_launchers.quiet()

    def __call__(self) -> int:
        start = hydra.main(
            version_base="1.3", config_path=str(self.request.folders[0]), config_name=self.request.config_name
        )
        # Hydra reads sys.argv and knows no command name; what it raises is explained by us.
        arguments = [self.argv[0], *self.request.arguments()]
        if self.sweep_dir is not None:
            return self._elsewhere([*arguments, cli_launchers.as_override(self.sweep_dir)], start(self.job))
        with _process(arguments, "1"):
            start(self.job)()
        return self.code

    def _elsewhere(self, arguments: list[str], start: Callable[[], None]) -> int:
        assert self.sweep_dir is not None
        cli_launchers.expect_failures(self.sweep_dir)
        print(f"The jobs write to {self.sweep_dir}")
        try:
            with _process(arguments, "1"), cli_launchers.explained():
                start()
        finally:
            for code, message in cli_launchers.failures(self.sweep_dir):
                self.code = max(self.code, code)
                print(message, file=sys.stderr)
        return self.code

    def job(self, cfg: DictConfig) -> None:
        # Process launchers replay sys.argv: it is the user's again before any work starts.
        with _process(self.argv, self.full_error):
            try:
                with ended_by_signals():  # again, for copies; a launcher's own handlers would end the process
                    self._work(cfg)
            except HiresError as error:
                self._end(error, str(error), _code(error))
            except Exception as error:
                if _is_out_of_memory(error):
                    self._end(error, cli_errors.out_of_memory(error), 1)
                elif self.copied:
                    traceback.print_exception(error)
                    self._end(error, f"{type(error).__name__}: {error} (its traceback is in the job's log)", 1)
                else:
                    self.failed = True
                    raise
            except BaseException as end:
                if not self.copied or isinstance(end, SystemExit):
                    raise
                # A signal: no result is left, so that the launcher waits for the job where it is queued again.
                raise SystemExit(getattr(end, "code", 130)) from None

    def _end(self, error: Exception, message: str, code: int) -> None:
        """Says how a job ended; the other jobs of a sweep go on."""
        job = f"job {HydraConfig.get().job.num}: " if self.request.flags.multirun else ""
        self.code = max(self.code, _report(error, f"{job}{message}", code))
        if self.copied:
            cli_launchers.report_failure(str(self.sweep_dir), HydraConfig.get().job.num, code, f"{job}{message}")

    def _work(self, cfg: DictConfig) -> None:
        cfg = cli_repeat.repeated(cfg, HydraConfig.get(), self.request)
        cli_check.check(cfg, self.request)
        verbosity.choose(cfg.get("log_level", "info"))
        name = self.request.command
        is_to_train = name == "compare" and cfg.get("runs") is None
        settings = cli_settings.compose_settings(cfg, self.request) if is_to_train else {}
        with without_collections():
            instantiate.check(cfg, "", instantiate.allowed_on_command_line())
            for setting, (_, composed) in settings.items():
                with cli_settings.named(setting):
                    instantiate.check(composed, "", instantiate.allowed_on_command_line())
            module = import_module(MODULES.get(name, "hires.build"))
        arguments = (cfg, settings) if settings else (cfg,)
        getattr(module, name.replace("-", "_"))(*arguments)


@contextmanager
def _process(argv: list[str], full_error: str | None) -> Iterator[None]:
    """The process's command line and hydra's error mode, for a while."""
    before = sys.argv, os.environ.get(_FULL_ERROR)
    sys.argv = argv
    _set_full_error(full_error)
    try:
        yield
    finally:
        sys.argv = before[0]
        _set_full_error(before[1])


def _set_full_error(value: str | None) -> None:
    if value is None:
        os.environ.pop(_FULL_ERROR, None)
    else:
        os.environ[_FULL_ERROR] = value


def _code(error: HiresError) -> int:
    return 2 if isinstance(error, ConfigError) else 1


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; torch is not imported to tell."""
    if "torch" not in sys.modules:
        return isinstance(error, MemoryError)
    return bool(import_module("hires.ops.out_of_memory").is_out_of_memory(error))


def _report(error: Exception, message: str, code: int) -> int:
    """Prints one line, after the traceback where that was asked for, and gives the exit code back."""
    if "1" in (os.environ.get(_FULL_ERROR), os.environ.get("HIRES_DEBUG")) or verbosity.is_verbose():
        traceback.print_exception(error)
    print(printable(" ".join(message.split())), file=sys.stderr)
    return code


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


if __name__ == "__main__":
    # What launchers send to other processes is found there by the name of its module, which is not __main__.
    sys.exit(import_module("hires.cli").main())
