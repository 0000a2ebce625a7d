"""Checkpoints: everything that a run needs to continue to the same bits."""

import logging
import pickle
import random
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from hires.engine.files import remove_unfinished, whole_file
from hires.engine.ranks import Alone, Ranks
from hires.interfaces import DataError

log = logging.getLogger(__name__)

FORMAT = 1
_OTHERS = "random_of_others"
"""Key of the random states of all processes but the main one."""


class Stateful(Protocol):
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
        if self.ranks.main:
            remove_unfinished(folder)

    def save(self, *names: str) -> None:
        """Writes one file for each name (`last`, `best`): `<folder>/<name>.pt`, whole or not at all."""
        self.level()
        own, *others = self.ranks.gather(random_state())
        state: dict[str, Any] = {
            name: part.state_dict()
            for name, part in self.parts.items()
            if self.ranks.main or getattr(part, "collective", False)
        }
        if not self.ranks.main:
            return
        state |= {"format": FORMAT, "random": own}
        if others:
            state[_OTHERS] = others
        for name in names:
            path = self.folder / f"{name}.pt"
            try:
                with whole_file(path) as file:
                    torch.save(state, file)
            except (OSError, RuntimeError) as error:  # torch's writer hides what the system said
                reason = getattr(error, "strerror", None) or "the disk may be full"
                raise DataError(
                    f"{path}: cannot be written ({reason}); what was there before is unchanged"
                ) from error

    def load(self, path: Path) -> None:
        """Restores the parts and the random states. Raises DataError for a file that is not such a checkpoint."""
        state = read(path)
        present = {name: part for name, part in self.parts.items() if name in state}
        missing = [name for name in self.parts if name not in {*present, *self.optional}]
        if missing:
            raise DataError(f"{path}: lacks {', '.join(missing)}, so training cannot continue from it")
        for name, part in present.items():
            try:
                part.load_state_dict(state[name])
            except (RuntimeError, ValueError, KeyError) as error:
                reason = str(error).splitlines()[0]
                raise DataError(f"{path}: its {name} does not fit this configuration: {reason}") from error
        self._set_random([state["random"], *state.get(_OTHERS, [])])

    def _set_random(self, states: list[Any]) -> None:
        if len(states) != self.ranks.size:
            what = "The checkpoint is of %d processes, this training of %d: its random numbers go on otherwise"
            log.info(what, len(states), self.ranks.size)
        if self.ranks.rank < len(states):
            set_random_state(states[self.ranks.rank])


def read(path: Path) -> dict[str, Any]:
    """A checkpoint as written by `Checkpointer`, on the CPU; only tensors and plain values are ever unpickled."""
    if not path.is_file():
        raise DataError(f"{path}: no such checkpoint")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise DataError(f"{path}: not a whole checkpoint of hires ({type(error).__name__})") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise DataError(f"{path}: not a checkpoint of this version of hires")
    return state


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


def random_state() -> dict[str, Any]:
    """The states of Python's, NumPy's and torch's global generators, as plain values and tensors."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(internal), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys, np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
