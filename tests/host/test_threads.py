"""The pool of daemon threads."""

from __future__ import annotations

import threading
import time

from flink_agents_py.host.threads import DaemonPool


def wait_until(condition, limit_s=60):
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    assert condition()


def test_no_more_threads_than_the_limit_however_many_jobs():
    pool = DaemonPool(3, "test-pool")
    go, lock = threading.Event(), threading.Lock()
    running, most, done = 0, 0, 0

    def job():
        nonlocal running, most, done
        with lock:
            running += 1
            most = max(most, running)
        go.wait(60)
        with lock:
            running -= 1
            done += 1

    for _ in range(20):
        pool.submit(job)
    wait_until(lambda: running == 3)
    assert len(pool._threads) == 3
    go.set()
    wait_until(lambda: done == 20)
    assert most == 3
    pool.close()


def test_an_idle_thread_is_used_again_before_another_is_started():
    pool = DaemonPool(8, "test-pool")
    for _ in range(10):
        done = threading.Event()
        pool.submit(done.set)
        assert done.wait(60)
        wait_until(lambda: pool._idle == len(pool._threads))
    assert len(pool._threads) == 1
    pool.close()


def test_a_job_never_waits_for_a_busy_thread_while_the_limit_allows_another():
    pool = DaemonPool(4, "test-pool")
    go = threading.Event()
    started = [threading.Event() for _ in range(4)]
    for event in started:
        pool.submit(lambda event=event: [event.set(), go.wait(60)].clear())
    assert all(event.wait(60) for event in started)
    go.set()
    pool.close()


def test_threads_are_daemons_and_end_after_close():
    pool = DaemonPool(2, "test-pool")
    done = threading.Event()
    pool.submit(done.set)
    assert done.wait(60)
    assert all(thread.daemon for thread in pool._threads)
    pool.close()
    wait_until(lambda: not any(thread.is_alive() for thread in pool._threads))
