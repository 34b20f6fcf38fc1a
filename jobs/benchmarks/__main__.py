"""Entry point of ``python -m jobs.benchmarks``."""

import sys

from jobs.benchmarks.cli import main

sys.exit(main())
