"""The PyFlink internals we rely on, on the Flink that is installed (see ``flink/internals.py``)."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.support.ledger import lines

COUNT, KEYS = 120, 6


@pytest.mark.parametrize(("parallelism", "backend"), [(1, "hashmap"), (2, "hashmap"), (2, "rocksdb")])
def test_a_callback_can_switch_to_another_key_for_values_maps_and_timers(host, mode, parallelism, backend, outputs):
    host.run(
        "internals",
        mode,
        {"count": COUNT, "keys": KEYS, "outputs": str(outputs)},
        parallelism=parallelism,
        state__backend__type=backend,
        execution__checkpointing__interval="300 ms",
    )
    seen = lines(outputs)
    keys_of_subtask = defaultdict(set)
    for output in seen:
        keys_of_subtask[output["subtask"]].add(output["key"])
    assert len(seen) == KEYS, "each key's timer fires once, and the deleted ones do not"
    assert sum(map(len, keys_of_subtask.values())) == KEYS
    assert len(keys_of_subtask) == parallelism
    for output in seen:
        count, run, memory = expected(output["key"], keys_of_subtask[output["subtask"]])
        assert output["timer"] == 0
        assert output["count"] == count
        assert output["run"] == run
        assert output["memory"] == memory


def expected(key, neighbours):
    """What the inputs of the other keys of its subtask have left under ``key``, by plain Python."""
    count, run, memory = 0, None, {}
    first = next(number for number in range(COUNT) if f"key {number % KEYS}" == key)
    for number in range(first + 1, COUNT):
        other = f"key {number % KEYS}"
        if other != key and other in neighbours:
            count += 1
            memory[str(number)] = other
            run = f"run {number}" if number % 3 == 0 else None
            if number % 2:
                memory.pop(str(number - 1), None)
    return count, run, memory
