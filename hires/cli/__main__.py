"""`python -m hires.cli NAME overrides...`, as launchers start it."""

import sys

from hires.cli.command import main

sys.exit(main())
