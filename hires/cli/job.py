"""One call of hydra.main: a command gets its configuration, and what a job ends with becomes a line."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from hires import instantiate, verbosity
from hires.cli import launchers
from hires.cli.check import check
from hires.cli.compared import compose_settings
from hires.cli.errors import out_of_memory
from hires.cli.repeat import repeated
from hires.cli.signals import ended_by_signals
from hires.compare_settings import named
from hires.errors import ConfigError, HiresError
from hires.imports import without_collections
from hires.ops.printable import printable
from hires.request import Request

_OWN = ("autobatch", "compare", "profile", "export", "report", "check-data")
MODULES = {name: f"hires.{name.replace('-', '_')}" for name in _OWN}
MODULES["predict"] = "hires.predict_images"  # hires.predict is left to the Python interface
"""Commands whose functions are not in hires.build."""

_FULL_ERROR = "HYDRA_FULL_ERROR"


class Run:
    """One call of hydra.main, which may run several jobs: those of `sweep_dir` by copies in other processes."""

    def __init__(self, request: Request, sweep_dir: str | None = None):
        self.request, self.sweep_dir = request, sweep_dir
        self.argv, self.full_error = sys.argv, os.environ.get(_FULL_ERROR)
        self.copied = False
        self.code = 0
        self.failed = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, copied=True)
        launchers.quiet()

    def __call__(self) -> int:
        start = hydra.main(
            version_base="1.3", config_path=str(self.request.folders[0]), config_name=self.request.config_name
        )
        # Hydra reads sys.argv and knows no command name; what it raises is explained by us.
        arguments = [self.argv[0], *self.request.arguments()]
        if self.sweep_dir is not None:
            return self._elsewhere([*arguments, launchers.as_override(self.sweep_dir)], start(self.job))
        with _process(arguments, "1"):
            start(self.job)()
        return self.code

    def _elsewhere(self, arguments: list[str], start: Callable[[], None]) -> int:
        assert self.sweep_dir is not None
        launchers.expect_failures(self.sweep_dir)
        print(f"The jobs write to {self.sweep_dir}")
        try:
            with _process(arguments, "1"), launchers.explained():
                start()
        finally:
            for code, message in launchers.failures(self.sweep_dir):
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
                self._end(error, str(error), code_of(error))
            except Exception as error:
                if _is_out_of_memory(error):
                    self._end(error, out_of_memory(error), 1)
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
        self.code = max(self.code, reported(error, f"{job}{message}", code))
        if self.copied:
            launchers.report_failure(str(self.sweep_dir), HydraConfig.get().job.num, code, f"{job}{message}")

    def _work(self, cfg: DictConfig) -> None:
        cfg = repeated(cfg, HydraConfig.get(), self.request)
        check(cfg, self.request)
        verbosity.choose(cfg.get("log_level", "info"))
        name = self.request.command
        is_to_train = name == "compare" and cfg.get("runs") is None
        settings = compose_settings(cfg, self.request) if is_to_train else {}
        with without_collections():
            instantiate.check(cfg, "", instantiate.allowed_on_command_line())
            for setting, (_, composed) in settings.items():
                with named(setting):
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


def code_of(error: HiresError) -> int:
    """The exit code for an error."""
    return 2 if isinstance(error, ConfigError) else 1


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; torch is not imported to tell."""
    if "torch" not in sys.modules:
        return isinstance(error, MemoryError)
    return bool(import_module("hires.ops.out_of_memory").is_out_of_memory(error))


def reported(error: Exception, message: str, code: int) -> int:
    """Prints one line, after the traceback where that was asked for, and gives the exit code back."""
    if "1" in (os.environ.get(_FULL_ERROR), os.environ.get("HIRES_DEBUG")) or verbosity.is_verbose():
        traceback.print_exception(error)
    print(printable(" ".join(message.split())), file=sys.stderr)
    return code
