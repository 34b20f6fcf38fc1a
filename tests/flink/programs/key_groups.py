"""What the JVM says of the key groups of keys."""

from __future__ import annotations

from typing import Any

from pyflink.java_gateway import get_gateway

from flink_agents_py.flink.key_groups import KeyGroups

KEYS: dict[str, list[Any]] = {
    "text": ["", "a", "naïve", "\U0001d54aurrogate", "x" * 100, *(f"key {number}" for number in range(50))],
    "long": [0, -1, 2**63 - 1, -(2**63), 2**40 + 3, *range(100, 150)],
    "int": [0, -1, 2**31 - 1, -(2**31), *range(100, 150)],
    "pickled": [None, True, 1.5, ("a", 1), b"\xff\x00", "text", *((number, str(number)) for number in range(50))],
}


def disagreements(spec: dict[str, Any]) -> list[str]:
    """Keys, and the synthetic ones, which Python puts into another group than Java does."""
    found = []
    for kind, keys in KEYS.items():
        for threaded in (True, False):
            groups = KeyGroups(kind, spec["groups"], threaded=threaded)
            synthetic = groups.synthetic
            found += [f"{kind} {key!r}" for key in keys if groups.group_of(key) != java_group(groups, key)]
            found += [
                f"{kind} group {n}" for n in range(0, len(synthetic), 17) if java_group(groups, synthetic[n]) != n
            ]
            found += [f"{kind} {key!r} packed" for key in keys if groups.unpack(groups.pack(key)) != key]
    return found


def java_group(groups: KeyGroups, key: Any) -> int:
    """As Flink assigns it to a keyed operator of PyFlink."""
    gateway = get_gateway()
    java = gateway.jvm
    if groups.kind == "long":  # py4j would hand over small numbers as Integer
        fields = java.java.util.stream.LongStream.rangeClosed(key, key).boxed().toArray()
    else:
        fields = gateway.new_array(java.Object, 1)
        fields[0] = groups.encoded(key)
    assignment = java.org.apache.flink.runtime.state.KeyGroupRangeAssignment
    return int(assignment.assignToKeyGroup(java.org.apache.flink.types.Row.of(fields), groups.groups))
