"""The suite of the state port: on dictionaries, and on Flink's state in both execution modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flink_agents_py.flink.installation import python_path
from flink_agents_py.local.ports import KeyedStore
from tests.support.ledger import lines
from tests.support.state_port import CHECKS, LATER, Ports


class _LocalPorts(Ports):
    def __init__(self, store: KeyedStore, name: str) -> None:
        self.state: Any = store
        self.scope = store
        self._name = name

    def at(self, number: int) -> Any:
        self.scope.switch((self._name, number))
        return self.state


@pytest.mark.parametrize("name", CHECKS)
def test_dictionaries(name: str) -> None:
    store = KeyedStore()
    ports = _LocalPorts(store, name)
    CHECKS[name](ports)
    if name in LATER:
        LATER[name](ports)


@pytest.mark.flink
@pytest.mark.parametrize(
    ("keys", "backend"), [("text", "hashmap"), ("text", "rocksdb"), ("number", "hashmap"), ("pickled", "hashmap")]
)
def test_flink_state(host, mode, keys, backend, outputs: Path) -> None:
    host.run(
        "state_port",
        mode,
        {"outputs": str(outputs), "keys": keys},
        state__backend__type=backend,
        python__pythonpath=":".join(python_path()),
        # Between the two halves of a check, and for more keys than the worker remembers, state must really be written.
        python__fn_execution__bundle__size=1,
        python__state__cache_size=5,
        python__map_state__read_cache_size=5,
        python__map_state__write_cache_size=5,
    )
    first, second = (line["results"] for line in lines(outputs))
    assert first.keys() == CHECKS.keys()
    assert second.keys() == LATER.keys()
    wrong = {name: error for results in (first, second) for name, error in results.items() if error}
    assert not wrong, "\n".join(wrong.values())
