"""Which images a prediction is of, and what its files are called."""

import glob
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hires.data.globbing import Found
from hires.data.pairs import is_image_name
from hires.interfaces import ConfigError, DataError

Source = str | Path | Sequence[str | Path]


class Input(NamedTuple):
    """An image to predict."""

    root: Path  # what its name is relative to
    name: str  # path below the root
    output: str  # path, without ending, of the files that are written of it

    @property
    def path(self) -> Path:
        return self.root / self.name


def find_inputs(source: Source, but: Path) -> list[Input]:
    """The images of a file, a folder, a glob, a .txt list, or a list of paths, by name; none below `but`.

    Raises DataError where there are none, ConfigError for an empty source.
    """
    if isinstance(source, (str, Path)):
        root, names = _found(str(source))
    else:
        root, names = _listed([str(path) for path in source])
    beyond = os.path.join(os.path.abspath(but), "")
    names = [name for name in names if not os.path.abspath(root / name).startswith(beyond)]
    if not names:
        raise DataError(f"source={source}: no images there; give an image, a folder, a glob, or a .txt list")
    return [Input(root, name, output) for name, output in zip(names, output_names(names), strict=True)]


def _found(source: str) -> tuple[Path, list[str]]:
    path = Path(source).expanduser()
    if not source.strip():
        raise ConfigError("source: got an empty text, allowed: an image, a folder, a glob, or a .txt list")
    if path.is_dir():
        return path, [name for name in Found(path, "**/*", once=True).paths if is_image_name(name)]
    if path.is_file() and path.suffix.lower() == ".txt":
        return _listed(_lines(path), path.parent)
    if path.exists():
        return path.parent, [path.name]
    if glob.has_magic(source):
        root, pattern = _parted(str(path))
        names = [name for name in Found(root, pattern).paths if (root / name).is_file()]
        if any(
            os.pardir in Path(name).parts for name in names
        ):  # they may lie beside root, and twice under two names
            return _listed(
                [os.path.join(os.path.realpath((root / name).parent), Path(name).name) for name in names]
            )
        return root, names
    raise DataError(f"{source}: no such file or folder; check source=")


def _parted(pattern: str) -> tuple[Path, str]:
    """The folder that a glob starts in, and what of it is left."""
    parts = Path(pattern).parts
    first = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:first]), "/".join(parts[first:])


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as a list of paths ({error}); save it as UTF-8 text") from None
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _listed(paths: list[str], folder: Path = Path()) -> tuple[Path, list[str]]:
    """Listed paths, relative ones from a folder, each once; named below the folder that all of them share."""
    whole = dict.fromkeys(os.path.abspath(folder / Path(path).expanduser()) for path in paths)
    if not whole:
        return folder, []
    root = os.path.commonpath([os.path.dirname(path) for path in whole])
    return Path(root), [os.path.relpath(path, root) for path in whole]


def output_names(names: Sequence[str]) -> list[str]:
    """A name without ending for each, all different: where two would have the same, they keep their endings."""
    chosen = [os.path.splitext(name)[0] for name in names]
    while True:
        counts = Counter(chosen)
        if max(counts.values(), default=1) == 1:
            return chosen
        chosen = [name if counts[short] > 1 else short for name, short in zip(names, chosen, strict=True)]


def source_name(source: Source) -> str | None:
    """What a prediction of it is called; None of a glob or a list of paths."""
    if not isinstance(source, (str, Path)) or (glob.has_magic(str(source)) and not Path(str(source)).exists()):
        return None
    path = Path(os.path.abspath(Path(str(source)).expanduser()))
    return (path.name if path.is_dir() else path.stem) or None
