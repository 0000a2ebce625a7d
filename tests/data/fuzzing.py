"""Reads damaged images in a process of its own, under a limit of memory and time.

As a script, `fuzzing.py COUNT SEED FIRST FOLDER` prints one JSON line for each mutation; the file `number` in the
folder says which one is being read.
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mutations import mutated

SECONDS, GROWTH = 10, 2 * 2**30  # of one mutation; bytes above what imports take
_EXTREMES = b"\x00\x01\x7f\x80\xfe\xff"


class Outcome(NamedTuple):
    """What mutations led to: read, refused by a DataError, and everything that must not be."""

    read: int
    refused: int
    findings: list[str]
    peak: int  # bytes of memory used above what imports take, at most
    slowest: float  # seconds


def damaged(files: dict[str, bytes], seed: int, number: int) -> tuple[str, bytes]:
    """The mutation of that number: the name of the file it began as, and its bytes."""
    draw = random.Random(seed << 32 | number)
    names = sorted(files)
    name, others = draw.choice(names), [files[other] for other in draw.sample(names, 2)]
    data = files[name]
    if draw.random() < 0.5:
        data = draw.choice((_extremes, _number))(data, draw)
    return name, mutated(data, others, draw.getrandbits(32)) if draw.random() < 0.7 else data


def _extremes(data: bytes, draw: random.Random) -> bytes:
    """Bytes of the beginning or of the end, where the directories of TIFF are."""
    changed, low = bytearray(data), draw.choice((0, max(0, len(data) - 400)))
    for _ in range(draw.randint(1, 4)):
        changed[draw.randrange(low, min(len(data), low + 400))] = draw.choice(_EXTREMES)
    return bytes(changed)


def _number(data: bytes, draw: random.Random) -> bytes:
    """A number of two or four bytes, likely a large one, in the first kilobyte or the last."""
    width, low = draw.choice((2, 4)), draw.choice((0, max(0, len(data) - 1024)))
    at = draw.randrange(low, min(len(data), low + 1024))
    value = draw.getrandbits(8 * width).to_bytes(width, draw.choice(("little", "big")))
    return data[:at] + value + data[at + width :]


def fuzz(count: int, seed: int, folder: Path) -> Outcome:
    """Reads `count` mutations; a process that dies is a finding, and another goes on after it."""
    read = refused = first = peak = 0
    slowest, findings = 0.0, []
    while first < count:
        lines, code, errors = _child(count, seed, first, folder)
        for line in lines:
            told = json.loads(line)
            read, refused = read + told["read"], refused + (not told["read"])
            peak, slowest = max(peak, told["peak"]), max(slowest, told["seconds"])
            findings += told["findings"]
        if code == 0:
            break
        first = int((folder / "number").read_text() or first) if (folder / "number").exists() else count
        how = f"took more than {SECONDS} s" if code == -signal.SIGALRM else f"ended the process ({code}): {errors}"
        findings.append(f"mutation {first} of seed {seed} {how}")
        first += 1
    return Outcome(read, refused, findings, peak, slowest)


def _child(count: int, seed: int, first: int, folder: Path) -> tuple[list[str], int, str]:
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, __file__, str(count), str(seed), str(first), str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return result.stdout.splitlines(), result.returncode, result.stderr[-400:]


def _main(count: int, seed: int, first: int, folder: Path) -> None:
    from fuzz_images import attempt, files

    sound, path = files(), folder / "damaged"
    for data in sound.values():  # what decoders load when they are first used is no growth
        path.write_bytes(data)
        attempt(path)
    limit = _memory("VmSize") + GROWTH
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    before = _memory("VmRSS")
    with open(folder / "number", "w") as progress:
        for number in range(first, count):
            progress.seek(0)
            progress.write(f"{number:>9}")
            progress.flush()
            name, data = damaged(sound, seed, number)
            path.write_bytes(data)
            print(json.dumps(_outcome(path, f"mutation {number} of seed {seed} ({name})", before)), flush=True)


def _outcome(path: Path, name: str, before: int) -> dict[str, object]:
    from fuzz_images import attempt

    from hires.interfaces import DataError

    start, read, findings = time.monotonic(), False, []
    signal.alarm(SECONDS)  # not handled: it ends the process, even within a decoder
    try:
        attempt(path)
        read = True
    except DataError as error:
        if not str(error).startswith(f"{path}: ") or "\n" in str(error):
            findings = [f"{name}: the error does not name the file in one line: {error}"]
        if "not fit into memory" in str(error):  # what ran into the limit, and was caught
            findings = [f"{name}: wanted more than {GROWTH >> 20} MiB"]
    except BaseException as error:
        findings = [f"{name}: {error!r}"]
    signal.alarm(0)
    return {
        "read": read,
        "findings": findings,
        "peak": _memory("VmHWM") - before,
        "seconds": time.monotonic() - start,
    }


def _memory(name: str) -> int:
    """Bytes of this process by a name of /proc."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) * 1024


def _arguments(told: Sequence[str]) -> None:
    _main(int(told[0]), int(told[1]), int(told[2]), Path(told[3]))


if __name__ == "__main__":
    _arguments(sys.argv[1:])
