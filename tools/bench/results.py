"""Under which conditions a bench was made, and how its JSON is written. Needs no torch.

Rows that stay in a JSON from one call to the next carry their own `when()`.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "bench"


def when() -> dict[str, str]:
    """The day (UTC) and the commit, with a + where the code differs from it; "unknown" without git."""
    commit = _git("rev-parse", "--short=9", "HEAD")
    changed = _git("diff", "--quiet", "HEAD", "--", "hires", "configs", "tools").returncode == 1
    said = commit.stdout.strip() + "+" * changed if commit.returncode == 0 else "unknown"
    return {"date": datetime.now(UTC).date().isoformat(), "commit": said}


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    except OSError:  # there is no git
        return subprocess.CompletedProcess(words, 127, "", "")


def conditions() -> dict[str, Any]:
    """Date, commit, versions and machine; the threads of torch where it is loaded."""
    torch = sys.modules.get("torch")
    threads = {"threads": torch.get_num_threads()} if torch else {}
    return {
        **when(),
        "torch": version("torch"),
        **threads,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def read(path: Path, default: Any = None) -> Any:
    """A JSON, or the default where there is none."""
    return json.loads(path.read_text()) if path.exists() else default


def said(content: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] = ()) -> str:
    """When and how a JSON, or the rows of it, came about: day, torch, threads, load where it was noted."""
    words = [made(rows if any(map(_day, rows)) else [content])]
    if "torch" in content:
        words.append(f"torch {content['torch'].partition('+')[0]}")
    if threads := content.get("threads"):
        words.append(f"{threads} thread{'s' * (threads != 1)}")
    if load := content.get("load_average"):
        first, *after = load.values() if isinstance(load, Mapping) else load if isinstance(load, list) else [load]
        words.append(", ".join([f"load average {first:.1f}", *(f"afterwards {end:.1f}" for end in after)]))
    return ", ".join(words)


def made(rows: Sequence[Mapping[str, Any]]) -> str:
    """The days on which rows were made; of those from before days were noted, by when they were committed."""
    days = sorted(filter(None, map(_day, rows)))
    if not days:
        return "day not recorded"
    if any("date" not in row for row in rows):
        return f"made by {days[-1]}" + ", some on days not recorded" * (len(days) < len(rows))
    return f"made {' to '.join(dict.fromkeys((days[0], days[-1])))}"


def _day(row: Mapping[str, Any]) -> str:
    return row.get("date") or row.get("committed") or ""
