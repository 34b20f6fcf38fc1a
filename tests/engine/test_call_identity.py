"""By what a replay recognises a call: ordinal, function and arguments in canonical form (S5), and its key (S7)."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from pydantic import BaseModel

from flink_agents_py.engine.journal import arguments_digest, function_id, takes_idempotency_key
from flink_agents_py.errors import ActionFailedError, EncodeError
from flink_agents_py.events import OutputEvent
from flink_agents_py.testing import AgentHarness
from tests.support import python
from tests.support.agents import agent_of, restart


class Model(BaseModel):
    a: int = 0
    b: dict = {}


@dataclass
class Data:
    a: int
    cache: list = field(default_factory=list, compare=False)


class Tool:
    def use(self, x, idempotency_key=None):
        return x

    @staticmethod
    def still(x):
        return x

    def __call__(self, x, *, idempotency_key):
        return x


def fetch(x):
    return x


def keyed(x, *, idempotency_key):
    return idempotency_key


shared = [1, 2]

EQUAL = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ([shared, shared], [[1, 2], [1, 2]]),
    ({3, 1, 2}, {1, 2, 3}),
    (OrderedDict(a=1), OrderedDict(a=1)),
    (Model(a=0), Model()),
    (Data(1, ["x"]), Data(1)),
    (Decimal("1.0"), Decimal("1.00")),
    (datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))),
]
DIFFERENT = [
    1, True, 1.0, "1", b"1", None, [1], (1,), {1}, {"1": 1}, {1: 1}, [], (), {}, "", Model(a=1), Data(1), "None",
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_arguments_have_one_identity(one, other):
    assert arguments_digest((one,), {"k": one}) == arguments_digest((other,), {"k": other})


def test_different_arguments_have_different_identities():
    digests = [arguments_digest((value,), {}) for value in DIFFERENT]
    digests += [arguments_digest((), {"x": value}) for value in DIFFERENT]
    digests += [arguments_digest((value, None), {}) for value in DIFFERENT]
    digests.append(arguments_digest((), {}))
    assert len(set(digests)) == len(digests)


def test_keyword_order_is_no_part_of_the_identity():
    assert arguments_digest((), {"a": 1, "b": 2}) == arguments_digest((), {"b": 2, "a": 1})


def test_the_identity_is_the_same_in_every_process():
    program = (
        "from flink_agents_py.engine.journal import arguments_digest\n"
        "from datetime import datetime\n"
        "print(arguments_digest((1, {'b', 'a', 'c'}, {'y': (1.5, None), 'x': b'x'}), {'when': datetime(2026, 1, 1)}))"
    )
    assert len({python.run(program, PYTHONHASHSEED=seed) for seed in ("0", "1", "2")}) == 1


@pytest.mark.parametrize(
    ("func", "identity"),
    [
        (fetch, f"{__name__}:fetch"),
        (functools.partial(fetch, 1), f"{__name__}:fetch"),
        (functools.partial(functools.partial(fetch, 1)), f"{__name__}:fetch"),
        (Tool().use, f"{__name__}:Tool.use"),
        (Tool.still, f"{__name__}:Tool.still"),
        (Tool(), f"{__name__}:Tool"),
        (len, "builtins:len"),
        ([].append, "builtins:list.append"),
        (Model, f"{__name__}:Model"),
    ],
)
def test_a_function_is_known_by_module_and_name(func, identity):
    assert function_id(func) == identity


def test_name_replaces_the_identity_of_the_function():
    moved = []

    def other(x):
        return "other"

    async def act(event, ctx):
        func = other if moved else fetch
        ctx.send_event(OutputEvent([await ctx.durable_execute_async(func, 1, name="lookup"), await later(ctx)]))

    async def later(ctx):
        return await ctx.durable_execute_async(fetch, 2)

    harness = AgentHarness(agent_of(act), {"durable.on-mismatch": "fail"})
    harness.feed("a", 1)
    harness.calls[0].run()
    moved.append(True)
    restart(harness)
    harness.calls[0].run()
    assert harness.outputs == [[1, 2]]


def test_a_refused_argument_is_named_by_its_path():
    async def act(event, ctx):
        await ctx.durable_execute_async(fetch, {"deep": [1, threading.Lock()]}, other=1)

    with pytest.raises(ActionFailedError) as caught:
        AgentHarness(agent_of(act)).feed("a", 1)
    error = caught.value.__cause__
    assert isinstance(error, EncodeError)
    assert "deep[1]" in error.where
    assert "action act" in error.where
    assert "fetch" in str(error)
    assert "closure" in error.fix


# --- idempotency keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("func", "takes"),
    [
        (keyed, True),
        (fetch, False),
        (Tool().use, True),
        (Tool(), True),
        (functools.partial(keyed, 1), True),
        (functools.partial(fetch, 1), False),
        (len, False),
        (dict, False),
        (lambda **kwargs: kwargs, False),
    ],
)
def test_a_function_that_declares_the_parameter_takes_an_idempotency_key(func, takes):
    assert takes_idempotency_key(func) is takes


@pytest.mark.parametrize("sync", [True, False])
def test_the_idempotency_key_is_injected_and_may_be_replaced(sync):
    async def act(event, ctx):
        if sync:
            keys = [ctx.durable_execute(keyed, 1), ctx.durable_execute(keyed, 1, idempotency_key="mine")]
        else:
            keys = [
                await ctx.durable_execute_async(keyed, 1),
                await ctx.durable_execute_async(keyed, 1, idempotency_key="mine"),
            ]
        ctx.send_event(OutputEvent(keys))

    harness = AgentHarness(agent_of(act), latency=0.01)
    harness.feed("a", 1)
    harness.run()
    ((derived, mine),) = harness.outputs
    assert len(derived) == 32
    assert mine == "mine"


def test_every_call_has_a_key_of_its_own_by_job_key_sequence_event_action_and_ordinal():
    def one(event, ctx):
        for _ in range(2):
            ctx.send_event(OutputEvent(ctx.durable_execute(keyed, "same")))

    def two(event, ctx):
        ctx.send_event(OutputEvent(ctx.durable_execute(keyed, "same")))

    seen = []
    for job in ("job", "other job"):
        harness = AgentHarness(agent_of(one, two), {"job-identifier": job})
        for key in ("a", "a", "b", 1, "1"):
            harness.feed(key, "same")
        seen += harness.outputs
    assert len(seen) == 2 * 5 * 3
    assert len(set(seen)) == len(seen)
