"""Checkpoints: everything that a run needs to continue to the same bits."""

import errno
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from hires.engine import checkpoint_file
from hires.engine.checkpoint_file import read
from hires.engine.files import also_as, give_way, remove_unfinished
from hires.engine.ranks import Alone, Ranks
from hires.interfaces import DataError, TrainingError
from hires.ops.random_state import global_state, set_global_state

log = logging.getLogger(__name__)

LAST, BEFORE = "last", "last.previous"
_OTHERS = "random_of_others"
"""Key of the random states of all processes but the main one."""


class Stateful(Protocol):
    """A part of a training. With the attribute `collective = True` its state is asked for on all processes, in
    the order of the parts, so that they can gather it; else on the main one."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any) -> Any: ...


class Checkpointer:
    """Writes and reads the state of `parts` below a folder; random states travel along.

    A checkpoint may lack what is `optional`, which then stays as it is. Of several processes all save and load at
    the same time; the main one writes its parts, and the random states of all. Of parts whose attribute
    `collective` is true all processes ask for the state at the same time. `level` first gives the others what
    the main one has.
    """

    def __init__(
        self,
        folder: Path,
        parts: Mapping[str, Stateful],
        optional: Collection[str] = (),
        ranks: Ranks | None = None,
        level: Callable[[], None] = lambda: None,
    ):
        self.level = level
        self.folder, self.parts, self.optional = folder, parts, optional
        self.ranks = ranks or Alone()
        self.failed: dict[str, str] = {}
        """Why a file is not that of its last save, by name; empty when all is on disk."""
        self._newest: Path | None = None  # that is known to be whole, and its step
        self._step = 0
        self.witness: Path | None = None
        """A file without which nothing is written, as when the folder of a run has been moved away."""
        if self.ranks.main:
            remove_unfinished(folder)

    def save(self, *names: str) -> None:
        """Writes one file for each name (`last`, `best`): `<folder>/<name>.pt`, whole or not at all.

        The `last` before stays as `last.previous.pt`. What cannot be written is logged and remembered in
        `failed`, and the training goes on: the next save tries again.
        """
        self.level()
        own, *others = self.ranks.gather(global_state())
        asked = self.parts if self.ranks.main else [n for n, p in self.parts.items() if _is_collective(p)]
        state: dict[str, Any] = {name: self.parts[name].state_dict() for name in asked}
        if not self.ranks.main:
            return
        state["random"] = own
        if others:
            state[_OTHERS] = others
        try:
            self._write(state, *names)
        except OSError as error:
            self._tell_failed(names, _step_of(state), error)
        else:
            self.failed = {name: why for name, why in self.failed.items() if name not in names}
            self._newest, self._step = self.path(names[0]), _step_of(state)

    def _write(self, state: Mapping[str, Any], name: str, *others: str) -> None:
        """One file under all the names, the first one last: who finds it there finds the others as well."""
        path = self.path(name)
        if self.witness and not self.witness.exists():
            raise FileNotFoundError(errno.ENOENT, f"{self.witness.parent} is not the run's directory any more")

        def prepare(beside: Path) -> None:
            for other in others:
                also_as(beside, self.path(other))
            if name == LAST and self._newest == path and path.exists():  # a broken one must not replace the other
                give_way(path, self.path(BEFORE))

        checkpoint_file.write(path, state, prepare)

    def _tell_failed(self, names: tuple[str, ...], step: int, error: OSError) -> None:
        files = " and ".join(str(self.path(name)) for name in names)
        why = f"{files}: cannot be written ({error.strerror or error})"
        self.failed |= dict.fromkeys(names, f"{why}, so that the weights of step {step} are not on disk")
        lost = "1 step is" if step - self._step == 1 else f"{step - self._step} steps are"
        log.error("%s; %s; %s not on disk; the next save tries again", why, self.kept, lost)

    @property
    def kept(self) -> str:
        """What is on disk, in words."""
        if self._newest is None:
            return f"there is no {LAST}.pt yet"
        return f"{self._newest.name} is still that of step {self._step}"

    def gives_up(self, name: str) -> bool:
        """Whether the last save of a file failed, which then is not owed any more; the same in all processes."""
        return self.ranks.by_main(lambda: self.failed.pop(name, None) is not None)

    def raise_failed(self) -> None:
        """Raises TrainingError where the state of the last save is not on disk."""
        if self.failed:
            what = "; ".join(dict.fromkeys(self.failed.values()))
            raise TrainingError(f"{what}; {self.kept}; make room, then let resume=RUN go on from there")

    def path(self, name: str) -> Path:
        return path_of(self.folder, name)

    def load(self, path: Path) -> None:
        """Restores the parts and the random states. Raises DataError for a file that is not such a checkpoint."""
        state = read(path)
        present = {name: part for name, part in self.parts.items() if name in state}
        missing = [name for name in self.parts if name not in {*present, *self.optional}]
        if missing:
            raise DataError(f"{path}: lacks {', '.join(missing)}, so training cannot continue from it")
        for name, part in present.items():
            with _fitting(path, name):
                part.load_state_dict(state[name])
        with _fitting(path, "random numbers"):
            self._set_random([state["random"], *state.get(_OTHERS, [])])
        self._newest, self._step = path, _step_of(state)

    def _set_random(self, states: list[Any]) -> None:
        if len(states) != self.ranks.size:
            what = "The checkpoint is of %d processes, this training of %d: its random numbers go on otherwise"
            log.info(what, len(states), self.ranks.size)
        if self.ranks.rank < len(states):
            set_global_state(states[self.ranks.rank])


def path_of(folder: Path, name: str) -> Path:
    """The file of a checkpoint."""
    return folder / f"{name}.pt"


def to_continue(folder: Path) -> Path | None:
    """The checkpoint that a training goes on from: the last one, or the one before where that is broken.

    None where there is none; DataError where what is there is broken.
    """
    last, before = (path_of(folder, name) for name in (LAST, BEFORE))
    if not last.exists() and not before.exists():
        return None
    if last.exists() and not last.is_file():  # nothing could be saved there
        raise DataError(f"{last}: not a file; move it away")
    broken = _problem(last)
    if broken is None:
        return last
    older = _problem(before)
    if older is not None:
        raise DataError(
            f"{broken}, and the one before cannot be used either: {older}; put a copy there, or start another run"
        )
    log.warning("%s; going on from the one before, %s", broken, before.name)
    return before


def _problem(path: Path) -> str | None:
    try:
        checkpoint_file.check(path)
    except DataError as error:
        return str(error)
    return None


@contextmanager
def _fitting(path: Path, name: str) -> Iterator[None]:
    """Raises DataError for a state that does not fit, or is not one at all."""
    try:
        yield
    except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"{path}: its {name} does not fit this configuration: {reason}") from error


def _is_collective(part: Any) -> bool:
    return getattr(part, "collective", False)


def _step_of(state: Mapping[str, Any]) -> int:
    return state.get("progress", {}).get("step", 0)


def weights(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The weights to evaluate: averaged ones if there are, else the trained ones."""
    return state.get("ema") or state["task"]


def load_matching(module: nn.Module, state: Mapping[str, torch.Tensor], name: str) -> None:
    """Loads what has the same name and shape; the rest, such as a head for other classes, stays as it is.

    Raises DataError when nothing fits.
    """
    own = module.state_dict()
    fitting = {key: value for key, value in state.items() if key in own and own[key].shape == value.shape}
    if not fitting:
        raise DataError(f"init_from: {name} has no weights that fit this model")
    module.load_state_dict({**own, **fitting})
    other = sorted(set(own) - set(fitting))
    left = f"; left as initialised: {', '.join(other[:5])}{' ...' if len(other) > 5 else ''}" if other else ""
    log.info("%s: %d of %d tensors loaded%s", name, len(fitting), len(own), left)
