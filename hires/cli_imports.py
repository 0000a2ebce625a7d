"""Imports of the libraries that a command works with."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Python does not look for garbage while torch and what works with it are imported.

    It would look through all objects again and again while they grow in number, which takes a quarter of the
    time of these imports and finds next to nothing. What they have made stays out of later collections too:
    those of each `gc.collect`, of the end of the process, and of forked workers, which then share its memory.
    Where torch has been imported already nothing changes: what is there may well be garbage later.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
