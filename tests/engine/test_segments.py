"""The segmented queue against a naive model, and in constant time (S10)."""

from __future__ import annotations

import random
from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from flink_agents_py.engine.segments import NO_WATERMARK, SegmentedQueue


class Naive:
    """Says the same in the plainest words: the watermark of the oldest unfinished input, else the newest."""

    def __init__(self):
        self.watermark = NO_WATERMARK
        self.unfinished = []

    def released(self):
        return min([self.watermark, *self.unfinished])


steps = st.lists(
    st.one_of(
        st.tuples(st.just("watermark"), st.integers(0, 30)),
        st.tuples(st.just("input"), st.just(0)),
        st.tuples(st.just("done"), st.integers(0, 100)),
    ),
    max_size=60,
)


def play(queue, naive, moves):
    for move, number in moves:
        if move == "watermark":
            queue.advance(number)
            naive.watermark = max(naive.watermark, number)
        elif move == "input":
            queue.arrive(naive.watermark)
            naive.unfinished.append(naive.watermark)
        elif naive.unfinished:
            queue.complete(naive.unfinished.pop(number % len(naive.unfinished)))
        yield


@given(steps)
def test_what_is_released_is_what_the_oldest_unfinished_input_allows(moves):
    queue, naive = SegmentedQueue(), Naive()
    before = queue.released
    for _ in play(queue, naive, moves):
        assert queue.watermark == naive.watermark
        assert queue.released == naive.released()
        assert queue.released >= before
        before = queue.released


@given(steps, steps, st.randoms(use_true_random=False))
def test_a_queue_restored_in_any_order_goes_on_as_if_nothing_had_happened(before, after, order):
    queue, naive = SegmentedQueue(), Naive()
    for _ in play(queue, naive, before):
        pass
    restored, as_restored = SegmentedQueue(), Naive()
    arrivals = list(naive.unfinished)
    order.shuffle(arrivals)
    for arrival in arrivals:
        restored.arrive(arrival)
    restored.advance(naive.watermark)
    as_restored.watermark, as_restored.unfinished = naive.watermark, list(naive.unfinished)
    assert restored.released == queue.released
    for _ in zip(play(queue, naive, after), play(restored, as_restored, after), strict=True):
        assert restored.released == queue.released


def test_an_input_after_a_watermark_does_not_hold_it():
    queue = SegmentedQueue()
    queue.advance(10)
    queue.arrive(10)
    assert queue.released == 10
    queue.advance(20)
    assert queue.released == 10
    queue.complete(10)
    assert queue.released == 20


def test_several_watermarks_of_an_open_segment_are_one_boundary():
    queue = SegmentedQueue()
    queue.advance(10)
    queue.arrive(10)
    for watermark in range(11, 1000):
        queue.advance(watermark)
    assert len(queue._counts) == 1
    queue.arrive(999)
    queue.complete(10)
    assert queue.released == 999


def test_inputs_of_two_segments_free_their_own():
    queue = SegmentedQueue()
    for watermark in (10, 20):
        queue.advance(watermark)
        queue.arrive(watermark)
    queue.advance(30)
    queue.complete(10)
    assert queue.released == 20
    queue.complete(20)
    assert queue.released == 30


class CountingDeque(deque):
    """Counts what is done to it."""

    operations = 0

    def append(self, item):
        type(self).operations += 1
        super().append(item)

    def popleft(self):
        type(self).operations += 1
        return super().popleft()

    def insert(self, index, item):
        raise AssertionError("inputs that arrive in order never need to be sorted in")


def test_completion_takes_as_long_with_a_hundred_thousand_segments_as_with_ten():
    """Operations on the order of segments: one when a segment begins, one when it goes, whatever is open."""
    for segments in (10, 100_000):
        queue = SegmentedQueue()
        queue._order = CountingDeque()
        CountingDeque.operations = 0
        for watermark in range(segments):
            queue.advance(watermark)
            queue.arrive(watermark)
        done = list(range(segments))
        random.Random(1).shuffle(done)
        for watermark in done:
            queue.complete(watermark)
        assert CountingDeque.operations == 2 * segments
        assert queue.released == segments - 1
        assert not queue._counts
        assert not queue._order
