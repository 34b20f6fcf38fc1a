"""Spacing where attempts really begin, by a clock of the test's."""

from __future__ import annotations

import asyncio

from flink_agents_py.external.pace import SHARE, Pace


class Time:
    """Moves on when somebody sleeps, and by more than was asked for."""

    def __init__(self, late: float = 0.0) -> None:
        self.now = 1000.0
        self.late = late

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.now += seconds + self.late

    def block(self, seconds: float) -> None:
        self.now += seconds + self.late


def most_within(began: list[float], seconds: float) -> int:
    return max(sum(start <= at < start + seconds for at in began) for start in began)


def begin(number: int, rate: float, late: float = 0.0) -> list[float]:
    """When attempts began that all came at once."""
    time = Time(late)
    began = []

    async def run() -> None:
        pace = Pace(rate, time)

        async def attempt() -> None:
            await pace.wait(time.sleep)
            began.append(time.now)

        await asyncio.gather(*(attempt() for _ in range(number)))

    asyncio.run(run())
    return began


def test_what_comes_at_once_begins_evenly():
    began = begin(1200, 500)
    assert most_within(began, 1.0) <= 500
    assert 1199 / (began[-1] - began[0]) > 0.95 * 500


def test_sleeps_that_end_late_cost_no_rate_and_exceed_none():
    began = begin(1200, 500, late=0.001)
    assert most_within(began, 1.0) <= 500
    assert 1199 / (began[-1] - began[0]) > 0.95 * 500


def test_nothing_is_made_up_for_after_a_pause():
    time = Time()
    pace = Pace(100, time)
    began = []
    for number in range(300):
        if number == 100:
            time.now += 60
        pace.wait_on_thread(time.block)
        began.append(time.now)
    assert most_within(began, 1.0) <= 100
    assert most_within(began[100:], 0.1) <= 12


def test_an_attempt_whose_turn_it_is_does_not_wait():
    time = Time()
    pace = Pace(100, time)
    for _ in range(50):
        before = time.now
        pace.wait_on_thread(time.block)
        assert time.now == before
        time.now += 1 / (100 * SHARE) + 1e-6
