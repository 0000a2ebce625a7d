"""Compares settings: `python tools/compare.py overrides...` is `hires compare overrides...`."""

import sys

sys.path.pop(0)  # this folder: its profile.py would hide the one of Python

from hires.cli import run_command

if __name__ == "__main__":
    sys.exit(run_command("compare", sys.argv[1:]))
