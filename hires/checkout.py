"""Which code of hires runs: a hash of it, and what git knows of its checkout, if there is one."""

import hashlib
import subprocess
from pathlib import Path
from typing import Any

from hires.request import config_dir

_SECONDS = 10  # that git may take


def _package() -> Path:
    return Path(__file__).resolve().parent


def code() -> str:
    """SHA-256 of the package's modules and of the configs, by their names and contents."""
    digest = hashlib.sha256()
    for folder, pattern in ((_package(), "*.py"), (config_dir(), "*.yaml")):
        for path in sorted(folder.rglob(pattern)):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def git_state(root: Path | None = None) -> dict[str, Any] | None:
    """The commit of a checkout, by default the package's, and whether its files differ from it; None without one.

    Whether they differ is not known where there is no git to ask.
    """
    root = root or _package().parent
    if not (root / ".git").exists():
        return None
    commit = _git(root, "rev-parse", "HEAD")
    difference = _git(root, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--binary")
    return {
        "commit": commit.decode().strip() if commit else _head(root),
        "dirty": None if difference is None else bool(difference),
        "diff_sha256": hashlib.sha256(difference).hexdigest() if difference else None,
    }


def _git(root: Path, *arguments: str) -> bytes | None:
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True, timeout=_SECONDS).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _head(root: Path) -> str | None:
    """The commit as git's files say it: HEAD names a branch, which has a file, or a line among packed ones."""
    try:
        folder = root / ".git"
        if folder.is_file():  # of a worktree
            folder = root / folder.read_text().partition("gitdir:")[2].strip()
        head = (folder / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head
        name, common = head.removeprefix("ref:").strip(), folder / "commondir"
        home = folder / common.read_text().strip() if common.exists() else folder
        if (home / name).is_file():
            return (home / name).read_text().strip()
        lines = (home / "packed-refs").read_text().splitlines()
        return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)
    except OSError:
        return None
