"""Files that globs match; no folder is entered from within itself, wherever links lead."""

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path


class Found:
    """Paths relative to `root`, sorted, that a glob matches, and the links that were not followed for it.

    A link is not followed if it leads to a folder that it lies in. With `once` neither is one to a folder that
    the glob matches under its own name, too.
    """

    def __init__(self, root: Path, pattern: str, *, once: bool = False):
        self.root, self._real = root, {"": os.path.realpath(root)}
        self._chains: dict[str, tuple[str, ...]] = {}
        self._left: set[str] = set()
        matches = set(_matches(self, "", pattern))
        folders = {folder for folder in map(os.path.dirname, matches) if self.enters(folder)}
        if once:
            folders -= self._again(folders)
        self.paths = sorted(path for path in matches if os.path.dirname(path) in folders)

    @property
    def left(self) -> list[str]:
        """The links that were not followed, relative to root, sorted; of those within others the outermost."""
        return sorted(a for a in self._left if not any(a.startswith(f"{b}{os.sep}") for b in self._left))

    def enters(self, folder: str) -> bool:
        """Whether no link on the way to a folder leads back."""
        if not folder or os.path.isabs(folder):
            return True
        parent = os.path.dirname(folder)
        if folder not in self._chains:
            self._chains[folder] = self._chain(folder) if self.enters(parent) else ()
        return bool(self._chains[folder])

    def _chain(self, folder: str) -> tuple[str, ...]:
        """The real paths of the folders from root to this one; none if it is a link that leads back."""
        parent = os.path.dirname(folder)
        above = self._chains[parent] if parent else (self._real[""],)
        path = os.path.join(self.root, folder)
        if os.path.basename(folder) in (os.curdir, os.pardir):  # the pattern says so, and its parts are few
            return (os.path.realpath(path),)
        if not os.path.islink(path):
            real = os.path.normpath(os.path.join(above[-1], os.path.basename(folder)))
            return () if real in above else (*above, real)
        real = os.path.realpath(path)
        inside = real.rstrip(os.sep) + os.sep
        if any(f"{one}{os.sep}".startswith(inside) for one in above):
            self._left.add(folder)
            return ()
        return (*above, real)

    def _again(self, folders: Iterable[str]) -> set[str]:
        """Folders that are others of these by a link."""
        real = {folder: os.path.realpath(os.path.join(self.root, folder)) for folder in folders}
        base = self._real[""]
        own = {path for folder, path in real.items() if path == os.path.normpath(os.path.join(base, folder))}
        again = {
            folder
            for folder, path in real.items()
            if path in own and path != os.path.normpath(os.path.join(base, folder))
        }
        self._left.update(self._link(folder) for folder in again)
        return again

    def _link(self, folder: str) -> str:
        """The first link on the way to a folder."""
        parent = os.path.dirname(folder)
        above = self._link(parent) if parent and parent != folder else ""
        return above or (folder if os.path.islink(os.path.join(self.root, folder)) else "")


def _matches(found: Found, folder: str, pattern: str) -> Iterator[str]:
    """What matches below a folder; `**` is walked here, since glob follows links in circles."""
    parts = pattern.split("/")
    top = os.path.join(found.root, folder)
    if "**" not in parts:
        yield from (os.path.join(folder, path) for path in glob.glob(pattern, root_dir=top))
        return
    at = parts.index("**")
    before, after = "/".join(parts[:at]), "/".join(parts[at + 1 :])
    for start in glob.glob(before, root_dir=top) if before else [""]:
        for below in _folders(found, os.path.join(folder, start) if start else folder):
            if after:
                yield from _matches(found, below, after)
            else:
                yield from (os.path.join(below, name) for name in _names(found, below, folders=False))


def _folders(found: Found, folder: str) -> Iterator[str]:
    """A folder and all below it that are not hidden."""
    waiting = [folder]
    while waiting:
        folder = waiting.pop()
        if not found.enters(folder):
            continue
        yield folder
        waiting += [os.path.join(folder, name) for name in _names(found, folder, folders=True)]


def _names(found: Found, folder: str, *, folders: bool) -> list[str]:
    top = os.path.join(found.root, folder)
    try:
        names = os.listdir(top)
    except OSError:  # as glob does with what may not be read
        return []
    return [name for name in names if name[0] != "." and os.path.isdir(os.path.join(top, name)) == folders]
