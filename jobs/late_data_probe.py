"""What windows behind a slow agent lose: the same pipeline with the watermark held back, and without.

Usage::

    python jobs/late_data_probe.py --input reviews.jsonl

Reviews are replayed at ``--rate`` per second, in the order of the file, with their own time. An agent takes up to
``--seconds`` for each, at random. One-minute windows count what comes out of it per product. A window that has fired
drops what comes later: with the watermark held back until the reviews before it are done, nothing does; when it runs
around the agent, as it does around any other Python operator, most of it is gone, and no error says so.

Input: JSON lines with ``review_id``, ``product_id``, ``ts`` (ms since the epoch, out of order by less than
``--out-of-order`` seconds) and ``text``. Ends with 0 if the held windows are what they should be.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Duration, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import DataStream, OutputTag, ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors import Source
from pyflink.datastream.window import TumblingEventTimeWindows
from pyflink.java_gateway import get_gateway
from rich.console import Console
from rich.table import Table

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action

MINUTE_MS = 60_000
BAR = 25  # characters

Window = tuple[str, int]
"""Product, and start of the minute in ms."""


async def ponder(review_id: int, seconds: float) -> None:
    """Take up to ``seconds``: as long for a review in every run, but not as long for each."""
    import asyncio

    await asyncio.sleep(seconds * random.Random(review_id).random())  # noqa: S311 - no secret


class SlowReader(Agent):
    """A review in, its product and the length of its text out, after a while."""

    @action(InputEvent)
    @staticmethod
    async def read(event: InputEvent, ctx: RunnerContext) -> None:
        """Read one review."""
        review = event.input
        await ctx.durable_execute_async(ponder, review["review_id"], ctx.config.get("seconds"))
        ctx.send_event(OutputEvent(Row(review["product_id"], len(review["text"]))))


class WrittenAt(TimestampAssigner):
    """The time of a review."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:  # noqa: ARG002 - Flink's signature
        """In ms."""
        return int(value["ts"])


class PerMinute(ProcessWindowFunction):
    """Reviews and characters of a product in a minute."""

    def process(self, key: str, context: Any, elements: Any) -> Iterator[dict[str, Any]]:
        """Emit the window."""
        lengths = [element[1] for element in elements]
        yield {"window": (key, context.window().start), "reviews": len(lengths), "characters": sum(lengths)}


@dataclass
class Outcome:
    """What came out of the windows."""

    reviews: Counter[Window] = field(default_factory=Counter)
    characters: Counter[Window] = field(default_factory=Counter)
    late: int = 0

    def add(self, window: Window, reviews: int, characters: int) -> None:
        """Count a window that fired, or a part of one."""
        self.reviews[window] += reviews
        self.characters[window] += characters


def computed(reviews: list[dict[str, Any]]) -> Outcome:
    """What should come out, without Flink."""
    outcome = Outcome()
    for review in reviews:
        outcome.add((review["product_id"], review["ts"] // MINUTE_MS * MINUTE_MS), 1, len(review["text"]))
    return outcome


def measured(options: argparse.Namespace, lines: list[str], *, hold: bool) -> Outcome:
    """What does come out."""
    flink = Configuration()
    if options.mode:
        flink.set_string("python.execution-mode", options.mode)
    env = StreamExecutionEnvironment.get_execution_environment(flink)
    env.set_parallelism(options.parallelism)
    env.get_config().set_auto_watermark_interval(20)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    config = agents.get_config()
    config.set("seconds", options.seconds)
    config.set("hold-watermark", hold)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(round(options.out_of_order * 1000)))
    reviews = (
        env.from_source(replay(lines, options.rate), WatermarkStrategy.no_watermarks(), "replay")
        .set_parallelism(1)
        .map(json.loads, Types.PICKLED_BYTE_ARRAY())
        .set_parallelism(1)
        .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(WrittenAt()))
        .set_parallelism(1)
    )
    # Keyed by review, so that one slow answer does not keep others of its product waiting.
    read = (
        agents.from_datastream(reviews, lambda review: review["review_id"], Types.LONG())
        .apply(SlowReader())
        .to_datastream(Types.ROW([Types.STRING(), Types.LONG()]))
    )
    outcome = Outcome()
    with windows(read).execute_and_collect("late data probe") as results:
        for result in results:
            if result == LATE:
                outcome.late += 1
            else:
                product, start = result["window"]
                outcome.add((product, start), result["reviews"], result["characters"])
    return outcome


LATE = "late"


def windows(stream: DataStream) -> DataStream:
    """One-minute windows per product, and a word for each record that came too late for its own."""
    row = [Types.ROW([Types.STRING(), Types.LONG()]) for _ in range(2)]  # a type that was used once cannot travel
    per_minute = (
        stream.key_by(lambda row: row[0], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(MINUTE_MS)))
        .side_output_late_data(OutputTag(LATE, row[0]))
        .process(PerMinute(), Types.PICKLED_BYTE_ARRAY())
    )
    late = per_minute.get_side_output(OutputTag(LATE, row[1])).map(lambda _: LATE, Types.PICKLED_BYTE_ARRAY())
    result: DataStream = per_minute.union(late)
    return result


def replay(lines: list[str], rate: float) -> Source:
    """The lines, so many a second; held back in Java, so that barriers and watermarks pass meanwhile."""
    jvm = get_gateway().jvm
    elements = jvm.java.util.ArrayList()
    for line in lines:
        elements.add(line)
    text = Types.STRING().get_java_type_info()
    config = jvm.org.apache.flink.api.common.ExecutionConfig()
    generate = jvm.org.apache.flink.connector.datagen.functions.FromElementsGeneratorFunction(text, config, elements)
    limit = jvm.org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy.perSecond(float(rate))
    source = jvm.org.apache.flink.connector.datagen.source.DataGeneratorSource
    return Source(source(generate, len(lines), limit, text))


def show(console: Console, expected: Outcome, held: Outcome, unheld: Outcome) -> None:
    """Side by side."""
    total, total_windows = sum(expected.reviews.values()), len(expected.reviews)
    table = Table(
        title=f"{total} reviews through a slow agent into {total_windows} one-minute windows", title_justify="left"
    )
    for name in ("watermark", "counted", "lost", "right windows", ""):
        table.add_column(name, justify="left" if name in {"", "watermark"} else "right")
    for name, outcome in (("held back", held), ("running ahead", unheld)):
        counted = sum(outcome.reviews.values())
        right = sum(
            outcome.reviews[window] == count and outcome.characters[window] == expected.characters[window]
            for window, count in expected.reviews.items()
        )
        kept = round(BAR * counted / max(total, 1))
        bar = f"[green]{'█' * kept}[/green][red]{'░' * (BAR - kept)}[/red]"
        table.add_row(name, f"{counted}", f"{outcome.late}", f"{right} of {total_windows}", bar)
    console.print(table)
    console.print("[green]█[/green] counted  [red]░[/red] lost: their window had fired before the agent was done")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both pipelines; 0 if the held windows are what they should be."""
    parser = argparse.ArgumentParser(
        prog="late_data_probe", description="What windows behind a slow agent lose, with and without held watermarks."
    )
    parser.add_argument("--input", type=Path, required=True, help="JSON lines: review_id, product_id, ts, text")
    parser.add_argument("--rate", type=float, default=200, help="reviews per second (default 200)")
    parser.add_argument("--seconds", type=float, default=2.0, help="longest wait of the agent per review (default 2)")
    parser.add_argument("--out-of-order", type=float, default=10.0, help="of the input, seconds (default 10)")
    parser.add_argument("--limit", type=int, help="read only so many lines")
    parser.add_argument("--parallelism", type=int, default=1, help="of the agent and the windows (default 1)")
    parser.add_argument("--mode", choices=("thread", "process"), help="how Flink runs Python (default: what works)")
    options = parser.parse_args(arguments)
    if not options.input.is_file():
        parser.error(f"the input file {options.input} does not exist")
    lines = options.input.read_text(encoding="utf-8").splitlines()[: options.limit]
    expected = computed([json.loads(line) for line in lines])
    console = Console()
    outcomes = []
    for hold in (True, False):
        with console.status(f"replaying with the watermark {'held back' if hold else 'running ahead'}"):
            outcomes.append(measured(options, lines, hold=hold))
    held, unheld = outcomes
    show(console, expected, held, unheld)
    return 0 if held == expected else 1


if __name__ == "__main__":
    sys.exit(main())
