"""Which tests of a run in several processes (pytest-xdist) belong together, and which come first.

Those on the process of an execution mode in which Flink runs (``hosts`` in tests/flink/conftest.py) share it, so they
go to one worker, one after another; all others are handed out file by file. What takes longest begins first, or it
would be waited for alone at the end.
"""

from __future__ import annotations

from xdist.scheduler.loadscope import LoadScopeScheduling

_PLACES = ("flink in process mode", "flink in thread mode")


class Sharing(LoadScopeScheduling):
    """Scopes are those of :func:`scope_of`."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """What the tests that stay together have in common."""
    file = nodeid.partition("::")[0]
    if file.startswith("tests/flink/"):
        if "[process" in nodeid:
            return _PLACES[0]
        if "[thread" in nodeid:
            return _PLACES[1]
    return file


def place_of(nodeid: str) -> int:
    """Where in the order of a run the test comes; those of one place stay as they are."""
    scope = scope_of(nodeid)
    if scope in _PLACES:
        return _PLACES.index(scope)
    return len(_PLACES) + (not scope.startswith(("tests/flink/", "tests/jobs/")))
