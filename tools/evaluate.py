"""Evaluates a run: `python tools/evaluate.py overrides...` is `hires evaluate overrides...`."""

import sys

from hires.cli import run_command

if __name__ == "__main__":
    sys.exit(run_command("evaluate", sys.argv[1:]))
