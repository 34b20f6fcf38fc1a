"""Where finished actions and calls are recorded the moment they finish, not only with the next checkpoint (S5, S9).

Imported on its own this package brings the protocol; a backend and its client library are loaded by
``stores.factory`` when the configuration names it.
"""

from flink_agents_py.stores.store import FINISHED, ActionStateStore, StoredRecord

__all__ = ["FINISHED", "ActionStateStore", "StoredRecord"]
