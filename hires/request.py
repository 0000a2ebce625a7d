"""What was asked on a command line, and its configuration composed outside of hydra.main.

Help and error messages need the configuration without running anything; nothing here imports torch.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig

from hires.errors import ConfigError
from hires.quotes import quote_elements, quote_text, read_all_letters

read_all_letters()

_NO_GROUPS = ("hydra", "launcher")
"""Folders of options of Hydra's own, and of files for programs that rent machines."""


_composed: dict[tuple[Any, ...], DictConfig] = {}
_MOST_COMPOSED = 16


def config_dir() -> Path:
    """The folder of the configs: inside the package when installed from a wheel, else the checkout's."""
    package = Path(__file__).resolve().parent
    packaged = package / "_configs"
    return packaged if packaged.is_dir() else package.parent / "configs"


@dataclass(frozen=True)
class Request:
    """A command with its arguments."""

    command: str
    flags: Namespace
    parser: ArgumentParser

    @property
    def overrides(self) -> list[str]:
        return list(self.flags.overrides)

    @property
    def config_name(self) -> str:
        return self.flags.config_name or self.command.replace("-", "_")

    @property
    def folders(self) -> list[Path]:
        """Where config files are looked for, the first one wins."""
        given = (self.flags.config_path or config_dir(), self.flags.config_dir)
        return [Path(folder).resolve() for folder in given if folder]

    def arguments(self) -> list[str]:
        """The arguments with flags first: hydra's parser refuses overrides after a flag."""
        words: list[str] = []
        for action in self.parser._actions:
            value = getattr(self.flags, action.dest, action.default)
            if action.option_strings and value != action.default and action.dest != "config_path":
                words += [action.option_strings[0]] + ([] if value is True else [str(value)])
        return words + self.overrides

    def file(self, config: str) -> Path | None:
        """The YAML file of a config such as `trainer/default`."""
        found = (folder / f"{config}.yaml" for folder in self.folders)
        return next((path for path in found if path.is_file()), None)

    @contextmanager
    def loader(self) -> Iterator[ConfigLoader]:
        """Hydra's config loader on the folders of this request."""
        running, GlobalHydra.instance().hydra = GlobalHydra.instance().hydra, None
        try:
            with hydra.initialize_config_dir(str(self.folders[0]), version_base="1.3"):
                yield GlobalHydra.instance().config_loader()
        finally:
            GlobalHydra.instance().hydra = running

    def compose(self, overrides: Sequence[str]) -> DictConfig:
        """The composed configuration, with hydra's own node. Raises hydra's exceptions.

        A command asks for the defaults several times, and composing takes a fifth of a second.
        """
        key = (Path.cwd(), self.config_name, *overrides, *self._stamps)
        if key not in _composed:
            with self.loader():
                made = hydra.compose(self.config_name, self._searched(overrides), return_hydra_config=True)
            while len(_composed) >= _MOST_COMPOSED:
                del _composed[next(iter(_composed))]
            _composed[key] = made
        return deepcopy(_composed[key])

    @cached_property
    def _stamps(self) -> tuple[tuple[Path, int], ...]:
        """The files of options, and when they changed last; 0: it is not there, such as the end of a link."""
        depths = ("*.yaml", "*/*.yaml", "*/*/*.yaml")
        paths = (path for folder in self.folders for depth in depths for path in sorted(folder.glob(depth)))
        return tuple((path, path.stat().st_mtime_ns if path.exists() else 0) for path in paths)

    def parts(self, overrides: Sequence[str]) -> list[tuple[str, str]]:
        """(config, package) of every file of a composition, in the order in which they are merged."""
        with self.loader() as loader:
            result = loader.compute_defaults_list(self.config_name, self._searched(overrides), RunMode.RUN)
        return [(d.config_path, d.package or "") for d in result.defaults if d.config_path]

    def groups(self) -> dict[str, list[str]]:
        """Group: options. Files named `base` or `base_...` are parts of others, not options."""
        roots = [root for root in self.folders if root.is_dir()]
        folders = [path for root in roots for path in sorted(root.iterdir()) if path.name not in _NO_GROUPS]
        return {
            name: sorted({f.stem for p in folders if p.name == name for f in p.glob("*.yaml") if not _is_part(f)})
            for name in sorted({p.name for p in folders if p.is_dir()})
        }

    def _searched(self, overrides: Sequence[str]) -> list[str]:
        extra = [f"hydra.searchpath=['file://{folder}']" for folder in self.folders[1:]]
        return [*extra, *overrides]


def parse(command: str, arguments: Sequence[str]) -> Request:
    """Reads a command's arguments as hydra would, in any order. Raises ConfigError for a wrong flag."""
    parser = get_args_parser()
    flags = [option for action in parser._actions for option in action.option_strings]

    def error(message: str) -> NoReturn:
        words = message.removeprefix("unrecognized arguments: ").split()
        if not message.startswith("unrecognized") or not words[0].startswith("-"):
            raise ConfigError(f"hires {command}: {message}")
        near = get_close_matches(words[0], flags, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        name = words[0].strip("-").partition("=")[0]
        raise ConfigError(
            f"{words[0]}: no such flag; {hint}settings have no dashes: {name}=VALUE; allowed: {', '.join(flags)}"
        )

    parser.error = error  # type: ignore[method-assign]
    words = [quote_elements(word) if word.lstrip("+").startswith("settings") else word for word in arguments]
    parsed = parser.parse_intermixed_args(words)
    parsed.overrides = [quote_text(word) for word in parsed.overrides]
    asked = [name for name in ("run", "multirun", "cfg", "info", "shell_completion") if getattr(parsed, name)]
    if len(asked) > 1:
        raise ConfigError(f"{' and '.join(f'--{name}' for name in asked)}: do not go together; give one of them")
    for option, folder in (("--config-dir", parsed.config_dir), ("--config-path", parsed.config_path)):
        if folder and not Path(folder).is_dir():
            raise ConfigError(f"{option}: got {folder}, which is not a directory")
    return Request(command, parsed, parser)


def _is_part(file: Path) -> bool:
    return file.stem.partition("_")[0] == "base"
