"""Writes the report of a run again: `python tools/report.py overrides...` is `hires report overrides...`."""

import os
import sys

# without this folder, whose profile.py would hide the one of Python
sys.path = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]

from hires.cli import run_command  # noqa: E402

if __name__ == "__main__":
    sys.exit(run_command("report", sys.argv[1:]))
