"""Trains a model: `python tools/train.py overrides...` is `hires train overrides...`."""

import sys

from hires.cli import run_command

if __name__ == "__main__":
    sys.exit(run_command("train", sys.argv[1:]))
