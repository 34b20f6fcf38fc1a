"""``review_analysis --output-folder``: results written by the TaskManagers.

What the client collects it collects once: Flink lets no new client go on with that after a savepoint. Files written by
the TaskManagers are complete with each checkpoint, and a job that is stopped and restored goes on with them: for long
inputs on a cluster. Lines are those of both of the client's files, and in no order between products. Each stream has
its own sink: one for both would keep checkpoints from being unaligned (``flink_agents_py/flink/barriers.py``).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flink_agents_py.flink.json_lines import write_json_lines

if TYPE_CHECKING:
    from pyflink.datastream import DataStream

    from flink_agents_py import AgentsExecutionEnvironment


def run_into(agents: AgentsExecutionEnvironment, analyses: DataStream, rejects: DataStream, folder: Path) -> int:
    """Run the job to its end; 0."""
    for name, results in (("reviews", analyses), ("rejects", rejects)):
        records = results.map(lambda result: result["record"]).name(f"{name} records").uid(f"{name}-records")
        write_json_lines(records, folder, name)
    agents.execute("review analysis")
    print(f"analyses, alerts and rejected lines are in {folder}", file=sys.stderr)
    return 0
