"""``python -m jobs.chaos``."""

import sys

from jobs.chaos.cli import main

sys.exit(main())
