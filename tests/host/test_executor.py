"""The executor of durable calls: coroutines on the process's loop, functions on daemon threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from flink_agents_py.engine.ports import Completion
from flink_agents_py.errors import CallCancelledError
from flink_agents_py.host import loop as shared_loop
from flink_agents_py.host.executor import BackgroundExecutor
from tests.support import python


@pytest.fixture
def executor() -> Iterator[BackgroundExecutor]:
    opened = BackgroundExecutor(threads=4)
    yield opened
    opened.close()


def outcomes(executor: BackgroundExecutor, count: int, limit_s: float = 60) -> dict[int, Completion]:
    """The next ``count`` completions by number."""
    found: dict[int, Completion] = {}
    deadline = time.monotonic() + limit_s
    while len(found) < count and time.monotonic() < deadline:
        executor.wait(0.05)
        found.update({completion[0]: completion for completion in executor.completions()})
    assert len(found) == count, f"{len(found)} of {count} completions came"
    return found


def until(condition: Callable[[], bool], limit_s: float = 60) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def threads_named(part: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if part in thread.name]


def test_a_coroutine_function_runs_on_the_loop_and_a_plain_one_on_a_thread(executor):
    async def on_loop(x):
        await asyncio.sleep(0.001)
        return threading.current_thread().name, x

    def on_thread(x, *, y):
        return threading.current_thread().name, x + y

    executor.submit(1, on_loop, (1,), {}, threaded=False)
    executor.submit(2, on_thread, (1,), {"y": 2}, threaded=True)
    done = outcomes(executor, 2)
    assert done[1] == (1, None, ("flink-agents-py-loop", 1))
    assert done[2][2][0].startswith("flink-agents-py-call")
    assert done[2][2][1] == 3


def test_errors_are_outcomes_system_exit_included_and_the_workers_live_on(executor):
    async def leave():
        raise SystemExit(3)

    async def fail():
        raise ValueError("no")

    def leave_thread():
        raise SystemExit(4)

    executor.submit(1, leave, (), {}, threaded=False)
    executor.submit(2, fail, (), {}, threaded=False)
    executor.submit(3, leave_thread, (), {}, threaded=True)
    executor.submit(4, fail, (1, 2, 3), {}, threaded=False)  # wrong arguments
    done = outcomes(executor, 4)
    assert isinstance(done[1][1], SystemExit)
    assert isinstance(done[2][1], ValueError)
    assert isinstance(done[3][1], SystemExit)
    assert isinstance(done[4][1], TypeError)

    async def fine():
        return "fine"

    executor.submit(5, fine, (), {}, threaded=False)
    executor.submit(6, lambda: "fine", (), {}, threaded=True)
    assert {completion[2] for completion in outcomes(executor, 2).values()} == {"fine"}


def test_a_cancelled_coroutine_runs_its_cleanup_and_completes_as_cancelled(executor):
    started, cleaned = threading.Event(), threading.Event()

    async def hang():
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    executor.submit(1, hang, (), {}, threaded=False)
    assert started.wait(60)
    executor.cancel(1)
    assert isinstance(outcomes(executor, 1)[1][1], CallCancelledError)
    assert cleaned.is_set()


def test_a_call_cancelled_before_its_first_step_completes_too(executor):
    # Both jobs reach the loop in one go: the task is cancelled before it has started.
    async def never():
        await asyncio.sleep(60)

    block = threading.Event()
    executor._loop.call(lambda: block.wait(60) and None)
    executor.submit(1, never, (), {}, threaded=False)
    executor.cancel(1)
    block.set()
    assert isinstance(outcomes(executor, 1)[1][1], CallCancelledError)
    assert executor._tasks == {}


def test_a_thread_cannot_be_cancelled_its_completion_arrives_when_it_returns(executor):
    go = threading.Event()
    executor.submit(1, go.wait, (60,), {}, threaded=True)
    executor.cancel(1)
    executor.wait(0.05)
    assert executor.completions() == []
    go.set()
    assert outcomes(executor, 1)[1] == (1, None, True)


def test_a_plain_function_that_returns_a_coroutine_goes_on_on_the_loop(executor):
    async def later(x):
        await asyncio.sleep(0.001)
        return threading.current_thread().name, x

    executor.submit(1, lambda: later(7), (), {}, threaded=True)
    assert outcomes(executor, 1)[1] == (1, None, ("flink-agents-py-loop", 7))


def test_waiting_ends_as_soon_as_a_completion_is_there(executor):
    executor.submit(1, time.sleep, (0.1,), {}, threaded=True)
    before = time.monotonic()
    executor.wait(250)
    assert time.monotonic() - before < 200
    assert len(executor.completions()) == 1


def test_waiting_with_a_completion_at_hand_does_not_wait(executor):
    executor.submit(1, lambda: None, (), {}, threaded=True)
    assert until(lambda: bool(executor._done))
    before = time.monotonic()
    executor.wait(250)
    assert time.monotonic() - before < 200


def test_no_completion_is_lost_between_many_threads_and_a_waiting_operator(executor):
    async def quick(number):
        await asyncio.sleep(0)
        return number

    for number in range(1, 401):
        executor.submit(number, quick if number % 2 else int, (number,), {}, threaded=number % 2 == 0)
    done = outcomes(executor, 400)
    assert {number: completion[2] for number, completion in done.items()} == {n: n for n in range(1, 401)}


def test_an_executor_of_the_same_owner_closes_the_earlier_one_and_ends_its_threads():
    first = BackgroundExecutor(threads=2, owner=("job", 0))
    other = BackgroundExecutor(threads=2, owner=("job", 1))
    cancelled, started, go = threading.Event(), threading.Event(), threading.Event()

    async def hang():
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    try:
        first.submit(1, hang, (), {}, threaded=False)
        first.submit(2, go.wait, (60,), {}, threaded=True)
        first.submit(3, lambda: None, (), {}, threaded=True)
        pool = first._pool
        assert started.wait(60)
        second = BackgroundExecutor(threads=2, owner=("job", 0))
        assert cancelled.wait(60)
        go.set()
        assert until(lambda: not any(thread.is_alive() for thread in pool._threads))
        assert first.completions() in ([], [(3, None, None)])  # nothing of what ended after the close
        second.submit(1, lambda: "mine", (), {}, threaded=True)
        assert outcomes(second, 1)[1][2] == "mine"
        other.submit(1, lambda: "untouched", (), {}, threaded=True)
        assert outcomes(other, 1)[1][2] == "untouched"
        first.close()  # the late close() of the earlier attempt must not hurt the later one
        second.submit(2, lambda: "still mine", (), {}, threaded=True)
        assert outcomes(second, 1)[2][2] == "still mine"
    finally:
        go.set()
        second.close()
        other.close()


def test_the_loop_is_shared_and_its_thread_ends_with_the_last_user():
    first, second = BackgroundExecutor(threads=1), BackgroundExecutor(threads=1)
    loop = first._loop
    assert second._loop is loop
    first.close()
    assert loop._thread.is_alive()
    second.close()
    assert until(lambda: not loop._thread.is_alive())
    third = BackgroundExecutor(threads=1)
    try:
        assert third._loop is not loop

        async def fine():
            return 1

        third.submit(1, fine, (), {}, threaded=False)
        assert outcomes(third, 1)[1][2] == 1
    finally:
        third.close()


def test_closing_lets_coroutines_clean_up_in_several_steps():
    started, cleaned = threading.Event(), threading.Event()

    async def hang():
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            cleaned.set()

    executor = BackgroundExecutor(threads=1)
    executor.submit(1, hang, (), {}, threaded=False)
    assert started.wait(60)
    executor.close()
    assert cleaned.wait(60)
    executor.close()  # twice is fine


def test_a_coroutine_returned_after_the_close_is_dropped_in_silence(recwarn):
    started, go = threading.Event(), threading.Event()

    async def never():
        raise AssertionError("must not run")

    def slow():
        started.set()
        go.wait(60)
        return never()

    executor = BackgroundExecutor(threads=1)
    executor.submit(1, slow, (), {}, threaded=True)
    assert started.wait(60)
    pool = executor._pool
    executor.close()
    go.set()
    assert until(lambda: not any(thread.is_alive() for thread in pool._threads))
    assert [str(warning.message) for warning in recwarn] == []


def test_the_loop_survives_a_job_that_raises():
    loop = shared_loop.acquire()
    try:
        done = threading.Event()

        def broken():
            raise RuntimeError("a job must not raise, but if one does")

        loop.loop.call_soon_threadsafe(lambda: loop.loop.set_exception_handler(lambda *_: None))
        loop.call(broken)
        loop.call(done.set)
        assert done.wait(60)
    finally:
        shared_loop.release()


def test_a_hanging_call_does_not_keep_the_process_from_ending():
    output = python.run(
        "import threading, time, asyncio\n"
        "from flink_agents_py.host.executor import BackgroundExecutor\n"
        "executor = BackgroundExecutor(threads=2)\n"
        "started = threading.Event()\n"
        "executor.submit(1, lambda: (started.set(), time.sleep(3600)), (), {}, threaded=True)\n"
        "async def hang():\n"
        "    await asyncio.sleep(3600)\n"
        "executor.submit(2, hang, (), {}, threaded=False)\n"
        "started.wait(60)\n"
        "print('end of the program')\n"
    )
    assert output == "end of the program"
