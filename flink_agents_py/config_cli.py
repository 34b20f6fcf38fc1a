"""The command ``config`` of ``flink-agents-py``: every option, its value, and where that comes from."""

from __future__ import annotations

import argparse
import difflib
import json
from pathlib import Path
from typing import Any

from flink_agents_py.config import AgentConfiguration, AgentOptions
from flink_agents_py.errors import ConfigError


def add_command(groups: Any) -> None:
    """Add it to the commands of ``flink-agents-py``."""
    config = groups.add_parser(
        "config",
        help="every option, its value, and where that comes from",
        description="Lists the options as a job started here would have them: defaults, then the file, then variables "
        "of the environment; code of the job comes last, not known here. Mistyped keys and bad values are errors",
    )
    config.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="JSON or YAML file with options (default: FLINK_AGENTS_PY_CONFIG, else FLINK_CONF_DIR/config.yaml if it "
        "has a section `agent`)",
    )
    config.add_argument("--set", dest="only_set", action="store_true", help="leave out what has its default")
    config.add_argument("--strict", action="store_true", help="keys that are no option of ours are errors, too")
    config.add_argument("--format", choices=("text", "json"), default="text", help="(%(default)s)")
    config.set_defaults(run=_config)


def _config(options: argparse.Namespace) -> int:
    config = AgentConfiguration.load(options.config)
    known = AgentOptions.all()
    own = sorted(config.conf_data.keys() - known.keys())
    if own and options.strict:
        near = difflib.get_close_matches(own[0], known, n=1, cutoff=0)
        raise ConfigError(
            f"there is no option {own[0]!r}",
            where=f"set by {config.source_of(own[0])}",
            fix=f"the nearest is {near[0]!r}; without --strict, keys of your own are welcome",
        )
    rows = [
        {
            "key": key,
            "value": config.get(key),
            "source": config.source_of(key),
            "about": known[key].doc if key in known else "a key of your own",
            "expects": known[key].expects if key in known else None,
        }
        for key in [*sorted(known), *own]
        if not options.only_set or config.source_of(key) != "default"
    ]
    if options.format == "json":
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        print(f"{row['key']} = {json.dumps(row['value'], ensure_ascii=False)}    ({row['source']})")
        print(f"    {row['about']}" + (f" Takes {row['expects']}." if row["expects"] else ""))
    return 0
