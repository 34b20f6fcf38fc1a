"""Conditions are not evaluated for events they cannot hold for: what "cannot" means, tried on random expressions."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flink_agents_py.errors import TriggerError
from flink_agents_py.plan.conditions import read_condition

cel = pytest.importorskip("cel", reason="common-expression-language needs Python 3.11")

TYPES = ["a", "b", "c"]
ATOMS = [
    *(f"type == '{name}'" for name in TYPES),
    "'a' == type",
    "type in ['a', 'b']",
    "type != 'a'",
    "n == 1",
    "n > 1",
    "missing == 1",  # fails
    "has(missing.x)",
    "true",
    "size(type) == 1",
]
EXPRESSIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(" ".join),
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda text: f"!({text})"),
        st.tuples(inner, inner, inner).map(lambda parts: "({}) ? ({}) : ({})".format(*parts)),
        inner.map(lambda text: f"[1].exists(i, {text})"),
    ),
    max_leaves=8,
)
# Nearly all that say their types, whatever else they say.
TYPED = st.recursive(
    st.one_of(
        st.tuples(st.sampled_from(ATOMS[:5]), EXPRESSIONS).map("{0[0]} && ({0[1]})".format),
        st.tuples(st.sampled_from(ATOMS[:5]), EXPRESSIONS).map("({0[1]}) && {0[0]}".format),
        st.sampled_from(ATOMS[:5]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(" || ".join),
        st.tuples(inner, inner).map("({0[0]}) && ({0[1]})".format),
        st.tuples(inner, EXPRESSIONS).map("({0[0]}) && ({0[1]})".format),
    ),
    max_leaves=4,
)


@settings(max_examples=400, deadline=None)
@given(source=st.one_of(TYPED, EXPRESSIONS), number=st.sampled_from([0, 1, 2]))
def test_for_events_of_other_types_the_expression_is_false_and_does_not_fail(source, number):
    try:
        condition = read_condition(source, "")
    except TriggerError as error:
        assume("never hold" not in error.what)
        raise
    assume(condition.event_types is not None)
    execute = condition.program("")
    for event_type in set(TYPES) - set(condition.event_types):
        assert execute(cel.Context({"type": event_type, "attributes": {"n": number}})) is False
