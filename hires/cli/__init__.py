"""The command line: what is typed becomes a checked configuration, what goes wrong one line. Imports no torch."""

from hires.cli.command import COMMANDS as COMMANDS
from hires.cli.command import main as main
from hires.cli.command import run_command as run_command
from hires.cli.job import MODULES as MODULES
