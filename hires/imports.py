"""Imports torch and what works with it, without looking for garbage meanwhile.

`python -m hires.imports MODULE ...` runs the `main` of a module that it imports so; it finds the rest in sys.argv.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module


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


if __name__ == "__main__":
    with without_collections():
        module = import_module(sys.argv[1])
    module.main()
