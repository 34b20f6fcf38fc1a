"""Python assigns key groups as Flink does."""

from __future__ import annotations

import pytest
from pyflink.common import Types

from flink_agents_py.flink.key_groups import KeyGroups, kind_of, may_be_synthetic

KINDS = ("text", "long", "int", "pickled")


@pytest.mark.parametrize("mode", ["thread"])  # of the host, which computes for both
@pytest.mark.parametrize("groups", [128, 300])
def test_groups_of_keys_are_those_of_the_jvm(host, groups):
    assert host.call("tests.flink.programs.key_groups:disagreements", groups=groups) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parallelism", [1, 2, 3, 64, 128])
def test_every_subtask_owns_synthetic_keys_of_its_own(kind, parallelism):
    groups = KeyGroups(kind, 128, threaded=False)
    owned = [key for subtask in range(parallelism) for key in groups.owned(subtask, parallelism)]
    assert owned == groups.synthetic
    assert all(groups.home_of(key) == key for key in owned)
    assert all(map(may_be_synthetic, owned))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [128, 1000])
def test_start_keys_reach_every_subtask(kind, number):
    groups = KeyGroups(kind, number, threaded=True)
    keys = groups.spread(64)
    for parallelism in (1, 7, 64):
        reached = {groups.group_of(key) * parallelism // number for key in keys}
        assert reached == set(range(parallelism))


def test_kinds_of_keys():
    assert [kind_of(kind) for kind in (Types.STRING(), Types.LONG(), Types.INT(), Types.PICKLED_BYTE_ARRAY())] == [
        *KINDS
    ]
    assert kind_of(Types.DOUBLE()) is None
