"""Running out of memory as a value that is returned, when nothing of what failed is held any more."""

import gc
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch

from hires.ops.out_of_memory import is_out_of_memory

Result = TypeVar("Result")
_LONGEST = 160  # characters of a reason


class Shortage(NamedTuple):
    """Memory ran out."""

    reason: str  # what the error said, in one line


class CommonShortage(MemoryError):
    """Memory ran out in one process of a training, or in several, and all of them know it."""


def attempt(run: Callable[[], Result]) -> Result | Shortage:
    """What `run` returns, or a Shortage when memory ran out in it; other errors pass.

    Only text is taken from the error: it is gone when this returns, and with it the frames of its traceback,
    whose variables are the tensors that took the memory.
    """
    try:
        return run()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        reason = _reason(error)
        _let_go(error)
    return Shortage(reason)


def in_two_tries(
    run: Callable[[], Any], untouched: Callable[[], bool], restore: Callable[[], None] = lambda: None
) -> tuple[Shortage | None, bool]:
    """Runs once more when memory ran out before anything was changed: what nobody holds is free by then.

    The first shortage, and whether it is done.
    """
    first = attempt(run)
    if not isinstance(first, Shortage):
        return None, True
    if not untouched():
        return first, False
    restore()
    release()
    return first, not isinstance(attempt(run), Shortage)


def release() -> None:
    """Frees what only reference cycles hold, and what CUDA's allocator keeps in blocks that nobody uses."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _reason(error: BaseException) -> str:
    if isinstance(error, CommonShortage):
        return str(error)
    line = next(iter(str(error).splitlines()), type(error).__name__)
    said = line[max(0, line.find("DefaultCPUAllocator")) :]  # before it stands where in torch
    return textwrap.shorten(said, _LONGEST, placeholder=" ...")


def _let_go(error: BaseException) -> None:
    """Takes their tracebacks from an error and from those before it, should anybody still hold one of them."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            waiting += [one.__cause__, one.__context__]
