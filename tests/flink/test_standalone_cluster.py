"""A real cluster of several processes, started, used, damaged and stopped."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from flink_agents_py.flink.processes import birth_of
from flink_agents_py.flink.standalone import StandaloneCluster
from tests.support.flink import PATIENCE_S

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

JOB = """
    import sys
    from pyflink.common import Configuration, Types
    from pyflink.datastream import StreamExecutionEnvironment
    from side_module import LABEL

    def label(value):
        import flink_agents_py.errors  # this project is importable on the workers
        return f"{LABEL} {value}"

    config = Configuration()
    config.set_string("python.execution-mode", "thread")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    numbers = env.from_collection(list(range(int(sys.argv[1]))), Types.INT())
    numbers.map(label, Types.STRING()).print()
    env.execute("labels")
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "side_module.py").write_text("LABEL = 'number'\n")
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(JOB))
    return script


def test_a_cluster_runs_a_job_says_why_another_fails_loses_a_taskmanager_and_leaves_no_process_behind(
    tmp_path: Path, job: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise ValueError('no such river')\n")
    cluster = StandaloneCluster(
        taskmanagers=2,
        # A dead one is noticed by its closed port; a slow one must not be taken for dead.
        config={"heartbeat.timeout": 30_000, "heartbeat.interval": 500},
        pythonpath=[tmp_path / "lib"],
    )
    with cluster:
        pids = cluster.taskmanager_pids()
        assert len(pids) == 2
        assert cluster.overview()["slots-total"] == 2

        job_id = cluster.submit(job, "5", parallelism=2)
        assert cluster.wait_for_state(job_id, "FINISHED", timeout=PATIENCE_S) == "FINISHED"
        assert cluster.checkpoints(job_id)["counts"]["failed"] == 0
        printed = "".join(path.read_text() for path in cluster.log_dir.glob("taskmanager-*.log"))
        assert all(f"number {value}" in printed for value in range(5))

        with pytest.raises(Exception, match="no such river"):
            cluster.submit(broken)

        cluster.kill_taskmanager(pids[0])
        assert cluster.taskmanager_pids() == pids[1:]
        pids.append(cluster.start_taskmanager())
        cluster.wait_for_taskmanagers(2)

        seen_from_outside = StandaloneCluster.attach(cluster.home)
        assert seen_from_outside.taskmanager_pids() == pids[1:]
        jobmanager = cluster._jobmanager
        assert jobmanager is not None
        assert jobmanager.alive()

    assert not jobmanager.alive()
    assert [pid for pid in pids if birth_of(pid)] == []
    assert not cluster.home.exists()
