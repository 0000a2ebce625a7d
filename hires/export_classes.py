"""The classes of a run, where its data need not be there any more."""

from typing import Any

from torch import Tensor

from hires.data.settings import DataSettings
from hires.interfaces import ConfigError, DataError, ImageSource
from hires.learner import make_task
from hires.recipe import Recipe

_TRIED = (2, 3)


def source_of(data: DataSettings) -> ImageSource | None:
    """Validation images of a run, or its training images; None where its data is not there."""
    if not data.root_path().is_dir():  # nothing is generated or downloaded for the sake of an export
        return None
    try:
        return data.source("val" if data.has_split("val") else "train")
    except (DataError, ConfigError, OSError):
        return None


def classes_of(
    recipe: Recipe, source: ImageSource | None, state: dict[str, Tensor]
) -> tuple[tuple[str, ...], list[str]]:
    """Names of the classes, of the data or the configuration, or their numbers, and what is to be said of it."""
    if source is not None:
        return source.classes, []
    count = recipe.model.num_classes or _counted(recipe, state)
    given = getattr(recipe.data, "classes", None)
    names = tuple(map(str, given)) if isinstance(given, (dict, list, tuple)) else ()
    if len(names) == count:
        return names, ["The run's data is not there: classes are named as in its configuration."]
    return tuple(map(str, range(count))), [
        "The run's data is not there and its configuration names no classes: they are numbered. Give data.root or "
        "data_dir to have their names."
    ]


def _counted(recipe: Recipe, state: dict[str, Tensor]) -> int:
    """Classes of a checkpoint, from how the sizes of weights grow with the classes. Raises DataError."""
    few, more = (_elements(recipe, count) for count in _TRIED)
    for name, size in few.items():
        if more.get(name, size) > size and name in state:
            return _TRIED[0] + (state[name].numel() - size) // (more[name] - size)
    raise DataError("the number of classes cannot be told from the checkpoint; give data.root or data_dir")


def _elements(recipe: Recipe, count: int) -> dict[str, int]:
    names = tuple(map(str, range(count)))
    task: Any = make_task(recipe, names, training=None, load_pretrained=False)
    return {name: value.numel() for name, value in task.state_dict().items()}
