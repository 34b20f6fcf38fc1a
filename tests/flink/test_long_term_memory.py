"""Long-term memory on Flink, with real embeddings: a fact of long ago is recalled after a restart from a savepoint."""

from __future__ import annotations

from flink_agents_py.ext.sqlite_vec import SqliteVecVectorStore
from tests.flink.programs.recall import FACTS
from tests.support.flink import eventually, say
from tests.support.ledger import lines

FIRST, COUNT = 60, 64


def test_a_fact_is_recalled_many_inputs_later_after_a_restart_from_a_savepoint(host, mode, tmp_path, outputs):
    memory = tmp_path / "memory.db"

    def start(savepoint="", *, forever):
        spec = {
            "count": COUNT,
            "first": FIRST,
            "memory": str(memory),
            "asked_from": FIRST // 2,
            "outputs": str(outputs),
        }
        restore = {
            "execution__state_recovery__path": savepoint,
            "execution__state_recovery__ignore_unclaimed_state": True,  # of the source that keeps it alive
        }
        return host.start("recall", mode, {**spec, "forever": forever}, **(restore if savepoint else {}))

    job = start(forever=True)
    eventually(lambda: len(lines(outputs)) >= FIRST, what="all that is told before the savepoint")
    savepoint = job.stop(tmp_path / "savepoints")
    assert len(lines(outputs)) == FIRST
    start(savepoint, forever=False).wait()

    asked = [line for line in lines(outputs) if line["number"] >= FIRST]
    assert sorted(line["number"] for line in asked) == list(range(FIRST, COUNT))
    assert {line["sequence"] for line in asked} == {FIRST // 2 + 1, FIRST // 2 + 2}
    for line in asked:
        assert any(FACTS[line["key"]] in text for text in line["found"])
    left = kept(memory)
    assert left < FIRST // 2
    say(f"{mode}: {FIRST} items told, {left} left")


def kept(path):
    store = SqliteVecVectorStore(path=str(path))
    try:
        return len(store.find({"~tokens": {"$gt": 0}}, 1000, "long_term_memory"))
    finally:
        store.close()
