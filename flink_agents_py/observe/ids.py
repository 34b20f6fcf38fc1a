"""The ids behind the paths by which the event log names events."""

from __future__ import annotations

from flink_agents_py.events import derive_id


def ids_of_paths(run_id: str, upstream: dict[str, tuple[str, str] | None]) -> dict[str, str]:
    """Hexadecimal ids of the events of a run, as dead letters and resumed runs have them, by path.

    Args:
        run_id: ``inputRunId``, hexadecimal.
        upstream: path of each event -> path of the event it was sent for and name of the action that sent it; ``None``
            for those the run began with.
    """
    known: dict[str, bytes] = {}
    root = bytes.fromhex(run_id)
    for path in sorted(upstream, key=lambda path: path.count("/")):
        parent = upstream[path]
        if parent is None:
            if path.isdigit():
                known[path] = derive_id(root, "", int(path))
        elif parent[0] in known:
            ordinal = path.rpartition(".")[2]
            if ordinal.isdigit():
                known[path] = derive_id(known[parent[0]], parent[1], int(ordinal))
    return {path: own.hex() for path, own in known.items()}
