"""Evaluates a run: `python tools/evaluate.py overrides...` is `hires evaluate overrides...`."""

import sys

sys.path.pop(0)  # this folder: its profile.py would hide the one of Python

from hires.cli import run_command

if __name__ == "__main__":
    sys.exit(run_command("evaluate", sys.argv[1:]))
