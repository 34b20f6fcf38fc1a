"""Agents without Flink: lists in, lists out, real threads and a real asyncio loop."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from flink_agents_py.agent import Agent
from flink_agents_py.environment import AgentsExecutionEnvironment
from flink_agents_py.errors import ActionFailedError, ConfigError, PipelineError
from flink_agents_py.events import InputEvent, OutputEvent
from flink_agents_py.policies import RetryPolicy, Timeouts
from tests.support.agents import agent_of


def echo(event, ctx):
    ctx.send_event(OutputEvent(event.input))


def run(agent, inputs, **config):
    environment = AgentsExecutionEnvironment.get_execution_environment()
    for key, value in config.items():
        environment.get_config().set(key.replace("_", "-"), value)
    return environment.from_list(inputs).apply(agent).to_list()


def on_thread(x):
    time.sleep(0.002)
    return threading.current_thread().name, x


async def on_loop(x):
    await asyncio.sleep(0.002)
    return threading.current_thread().name, x


def test_outputs_come_as_dictionaries_of_key_and_value():
    inputs = [{"key": "a", "value": 1}, {"k": "b", "v": 2}, {"key": "a", "value": 3, "timestamp": 99}]
    assert run(agent_of(echo), inputs) == [{"a": 1}, {"b": 2}, {"a": 3}]


@pytest.mark.parametrize("value", [7, "text", [1], {"other": 1}, {"key": "a"}, {"value": 1, "more": 2}, None])
def test_a_plain_value_is_an_input_with_a_key_of_its_own(value):
    (first,), (second,) = (list(output.items()) for output in run(agent_of(echo), [value, value]))
    assert first[1] == second[1] == value
    assert first[0] != second[0]


def test_a_value_without_a_key_has_no_neighbours():
    def count(event, ctx):
        ctx.send_event(OutputEvent(ctx.sequence))

    assert [next(iter(output.values())) for output in run(agent_of(count), [{"value": 1}, {"v": 2}, 3])] == [1, 1, 1]


def test_keys_of_other_types_and_timestamps_reach_the_action():
    def tell(event, ctx):
        ctx.send_event(OutputEvent((ctx.key, ctx.timestamp, ctx.sequence)))

    inputs = [{"key": key, "value": 0, "timestamp": 5} for key in (1, True, ("a", 1), None, "1")]
    assert [next(iter(output.values())) for output in run(agent_of(tell), inputs)] == [
        (1, 5, 1),
        (True, 5, 1),
        (("a", 1), 5, 1),
        (None, 5, 1),
        ("1", 5, 1),
    ]


def test_real_coroutines_and_threads_work_beside_each_other_and_keep_each_keys_order():
    async def act(event, ctx):
        loop, thread = await ctx.gather(
            ctx.durable_execute_async(on_loop, event.input), ctx.durable_execute_async(on_thread, event.input)
        )
        total = (ctx.short_term_memory.get("total") or 0) + 1
        ctx.short_term_memory.set("total", total)
        await ctx.sleep(0.001)
        ctx.send_event(OutputEvent([loop[0], thread[0][:10], loop[1], thread[1], total]))

    inputs = [{"key": f"key {number % 7}", "value": number} for number in range(70)]
    outputs = run(agent_of(act), inputs, num_async_threads=3, max_in_flight=20)
    assert len(outputs) == 70
    by_key = {}
    for output in outputs:
        ((key, value),) = output.items()
        assert value[:2] == ["flink-agents-py-loop", "flink-agen"]
        assert value[2] == value[3]
        by_key.setdefault(key, []).append((value[3], value[4]))
    for number in range(7):
        assert by_key[f"key {number}"] == [(number + 7 * i, i + 1) for i in range(10)]


def test_every_key_is_waited_for_at_the_end_also_where_another_one_finishes_first():
    async def act(event, ctx):
        await ctx.durable_execute_async(on_loop, event.input)
        await ctx.sleep(event.input)
        ctx.send_event(OutputEvent(event.input))

    delays = [0.15, 0.0, 0.1, 0.02, 0.2]
    outputs = run(agent_of(act), [{"key": f"k{i}", "value": delay} for i, delay in enumerate(delays)])
    assert sorted(value for output in outputs for value in output.values()) == sorted(delays)


def test_a_key_is_waited_for_although_another_one_went_on_while_the_end_was_announced_to_it():
    async def act(event, ctx):
        await ctx.durable_execute_async(time.sleep, event.input)
        await ctx.sleep(0.001)
        ctx.send_event(OutputEvent(event.input))

    def source():
        yield {"key": "slow", "value": 0.3}
        yield {"key": "quick", "value": 0.0}
        time.sleep(0.1)  # the quick call completes, and nobody has looked yet

    outputs = run(agent_of(act), source())
    assert sorted(key for output in outputs for key in output) == ["quick", "slow"]


def test_retries_and_timeouts_work_on_the_real_clock():
    tried = []

    def flaky(x):
        tried.append(x)
        if len(tried) < 3:
            raise ConnectionError
        return "at last"

    async def hang(x):
        await asyncio.sleep(60)

    async def act(event, ctx):
        retry = RetryPolicy(max_attempts=5, initial=0.005)
        first = await ctx.durable_execute_async(flaky, 1, retry=retry)
        try:
            await ctx.durable_execute_async(hang, 1, timeouts=Timeouts(attempt=0.02))
        except TimeoutError:
            ctx.send_event(OutputEvent(first))

    assert run(agent_of(act), [{"key": "a", "value": 1}]) == [{"a": "at last"}]


def test_side_outputs_and_dead_letters_by_tag():
    def act(event, ctx):
        if event.input == 2:
            raise ValueError("two")
        ctx.side_output("seen", event.input)

    environment = AgentsExecutionEnvironment.get_execution_environment()
    builder = environment.from_list([{"key": "a", "value": n} for n in (1, 2, 3)])
    builder.apply(agent_of(act, on_error="dead_letter"))
    assert builder.side_output("seen") == [1, 3]
    assert [letter["message"] for letter in builder.side_output("dead-letters")] == ["two"]
    assert builder.side_output("nobody's") == []
    assert builder.to_list() == []


def test_the_agent_runs_once_however_often_its_outputs_are_asked_for():
    made = []

    def act(event, ctx):
        made.append(event.input)
        ctx.send_event(OutputEvent(event.input))

    environment = AgentsExecutionEnvironment.get_execution_environment()
    builder = environment.from_list([{"key": "a", "value": 1}]).apply(agent_of(act))
    assert builder.to_list() == builder.to_list() == [{"a": 1}]
    environment.execute()
    assert made == [1]


def test_execute_runs_every_builder_of_the_environment():
    environment = AgentsExecutionEnvironment.get_execution_environment()
    one = environment.from_list([{"key": "a", "value": 1}]).apply(agent_of(echo))
    two = environment.from_list([{"key": "a", "value": 2}]).apply(agent_of(echo))
    environment.execute("a name")
    assert (one.to_list(), two.to_list()) == ([{"a": 1}], [{"a": 2}])


def test_an_input_without_an_agent_is_refused():
    builder = AgentsExecutionEnvironment.get_execution_environment().from_list([1])
    with pytest.raises(PipelineError, match="no agent to run") as caught:
        builder.to_list()
    assert ".apply(agent)" in caught.value.fix


def test_a_second_agent_gets_the_outputs_of_the_first_under_its_keys():
    builder = AgentsExecutionEnvironment.get_execution_environment().from_list([{"key": "a", "value": 1}])
    builder.apply(agent_of(echo)).apply(agent_of(echo), key_selector=lambda value: f"key of {value}")
    assert builder.apply(agent_of(echo)).to_list() == [{"key of 1": 1}]
    with pytest.raises(PipelineError, match="taken already"):
        builder.apply(agent_of(echo))


def test_what_needs_flink_is_refused_and_says_what_it_needs():
    environment = AgentsExecutionEnvironment.get_execution_environment()
    with pytest.raises(PipelineError, match="StreamExecutionEnvironment"):
        environment.from_datastream(None, lambda value: value)
    with pytest.raises(PipelineError, match="from_datastream"):
        environment.from_list([1]).apply(agent_of(echo)).to_datastream()
    assert environment.settings() == {}


def test_a_failing_action_ends_the_run_and_its_background_threads():
    async def act(event, ctx):
        await ctx.durable_execute_async(on_thread, 1)
        await ctx.durable_execute_async(on_loop, 1)
        raise ValueError("no")

    with pytest.raises(ActionFailedError, match="no"):
        run(agent_of(act), [{"key": "a", "value": 1}])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and any("flink-agents-py" in t.name for t in threading.enumerate()):
        time.sleep(0.01)
    assert [thread.name for thread in threading.enumerate() if "flink-agents-py" in thread.name] == []


def test_inputs_may_come_from_a_generator_and_are_taken_as_there_is_room():
    taken, done, most = 0, 0, 0

    def source():
        nonlocal taken
        for number in range(200):
            taken += 1
            yield {"key": number, "value": number}

    async def act(event, ctx):
        nonlocal done, most
        most = max(most, taken - done)
        await ctx.durable_execute_async(on_loop, event.input)
        done += 1
        ctx.send_event(OutputEvent(event.input))

    outputs = run(agent_of(act), source(), max_in_flight=10)
    assert len(outputs) == 200
    assert most <= 12


def test_several_actions_of_a_class():
    from flink_agents_py.agent import action

    class Doubling(Agent):
        @action(InputEvent)
        @staticmethod
        def double(event, ctx):
            ctx.send_event(OutputEvent(2 * event.input))

    assert run(Doubling(), [{"key": "a", "value": 21}]) == [{"a": 42}]


def test_an_action_state_store_needs_a_job_identifier(tmp_path):
    agents = AgentsExecutionEnvironment.get_execution_environment()
    agents.get_config().set("action-state-store.backend", "sqlite")
    agents.get_config().set("action-state-store.url", str(tmp_path / "state.db"))
    with pytest.raises(ConfigError, match="job-identifier is not set"):
        agents.from_list([1]).apply(Agent().add_action("go", [InputEvent], lambda event, ctx: None)).to_list()


def test_what_an_earlier_local_run_has_done_is_in_the_store(tmp_path):
    made = []

    def act(event, ctx):
        made.append(event.input)
        ctx.send_event(OutputEvent(ctx.durable_execute(len, event.input)))

    def run():
        agents = AgentsExecutionEnvironment.get_execution_environment()
        agents.get_config().set("job-identifier", "words")
        agents.get_config().set("action-state-store.backend", "sqlite")
        agents.get_config().set("action-state-store.url", str(tmp_path / "state.db"))
        return (
            agents.from_list([{"key": "a", "value": "word"}])
            .apply(Agent().add_action("go", [InputEvent], act))
            .to_list()
        )

    assert run() == run() == [{"a": 4}]
    assert made == ["word"]
