"""hires: train segmentation and detection models on images too big for the memory at hand."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hires.api import Run as Run
    from hires.api import load_run as load_run
    from hires.api import plan as plan
    from hires.api import predict as predict
    from hires.api import train as train

__version__ = "0.1.0"
__all__ = ["Run", "load_run", "plan", "predict", "train"]


def __getattr__(name: str) -> Any:
    """The functions for notebooks, when they are asked for: importing hires takes no time."""
    if name in __all__:
        return getattr(import_module("hires.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
