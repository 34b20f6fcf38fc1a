"""A program as a script for ``flink run``: ``submit.py PROGRAM SPEC_FILE``."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment


def main() -> None:
    """Build the job and submit it."""
    program, spec_file = sys.argv[1:]
    spec = json.loads(Path(spec_file).read_text())
    configuration = Configuration()
    for key, value in spec.pop("options").items():
        configuration.set_string(key, str(value))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    importlib.import_module(f"tests.flink.programs.{program}").build(env, spec)
    env.execute(program)


if __name__ == "__main__":
    main()
