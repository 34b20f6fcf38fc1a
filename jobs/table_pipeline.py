"""Reviews in by SQL, sentiment by an agent, sums per product and minute out by SQL.

Usage::

    python jobs/table_pipeline.py --input reviews.jsonl --output sums/

Input: JSON lines with ``product_id``, ``ts`` (ms since the epoch, a few seconds out of order) and ``text``; lines that
are no review are left out. ``OUTPUT`` is a folder of JSON lines ``{"product_id", "minute", "reviews", "unhappy",
"mean"}``: one for each product and minute (UTC), with the number of its reviews, how many of them are negative, and
their mean sentiment in [-1, 1]. Files are complete when their names do not begin with a dot.

With ``--watch``, ``INPUT`` is a folder, and the job goes on for ever: it takes what new files bring. Sums of a minute
are then written once reviews of a later one have come, and complete with the next checkpoint
(``execution.checkpointing.interval``). Files must not change once their names do not begin with a dot.

The agent takes its time (``--seconds``, a random wait for each review), as one that asks a model would. The windows
behind it are complete all the same: the watermark waits for the agent.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Row, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action

# `flink run -py` starts a link to this file elsewhere; see review_analysis.py.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

REVIEWS = """
CREATE TEMPORARY TABLE all_lines (
    product_id STRING,
    ts BIGINT,
    `text` STRING,
    -- A row time must not be null, and lines that are no review are left out only behind the source.
    written_at AS TO_TIMESTAMP_LTZ(CASE WHEN ts BETWEEN 0 AND 4102444800000 THEN ts ELSE 0 END, 3),
    WATERMARK FOR written_at AS written_at - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json', 'json.ignore-parse-errors' = 'true'{more})
"""
GOOD = """
SELECT product_id, `text`, written_at FROM all_lines
WHERE product_id <> '' AND `text` IS NOT NULL AND ts BETWEEN 1 AND 4102444800000
"""
SUMS = """
CREATE TEMPORARY TABLE sums (product_id STRING, `minute` STRING, reviews BIGINT, unhappy BIGINT, mean DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json'{more})
"""
# Further options of the two with --watch.
WATCHED = ", 'source.monitor-interval' = '1 s'"
ROLLED = ", 'sink.rolling-policy.rollover-interval' = '1 s', 'sink.rolling-policy.check-interval' = '1 s'"
PER_MINUTE = """
INSERT INTO sums
SELECT product_id, CAST(window_start AS STRING), COUNT(*), COUNT(*) FILTER (WHERE sentiment < -0.05),
       ROUND(AVG(sentiment), 4)
FROM TABLE(TUMBLE(TABLE opinions, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE))
GROUP BY product_id, window_start, window_end
"""

_analyzers: list[Any] = []  # the one of this process; its lexicon takes some 100 ms to load


async def sentiment_of(text: str, seconds: float) -> float:
    """Sentiment in [-1, 1], after a wait of up to ``seconds``; the same for a text every time."""
    import asyncio

    await asyncio.sleep(seconds * random.Random(text).random())  # noqa: S311 - no secret
    if not _analyzers:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

        _analyzers.append(SentimentIntensityAnalyzer())
    compound: float = _analyzers[0].polarity_scores(text)["compound"]
    return compound


class Opinion(Agent):
    """A review in, its sentiment out."""

    @action(InputEvent)
    @staticmethod
    async def judge(event: InputEvent, ctx: RunnerContext) -> None:
        """Score one review; rows of the table come with the names of its columns."""
        review = event.input
        seconds = ctx.config.get("seconds")
        sentiment = await ctx.durable_execute_async(sentiment_of, review["text"], seconds)
        ctx.send_event(OutputEvent(Row(product_id=review["product_id"], sentiment=sentiment)))


def run(options: argparse.Namespace) -> None:
    """Build the pipeline, run it, wait for its end."""
    flink = Configuration()
    if options.mode:
        flink.set_string("python.execution-mode", options.mode)
    env = StreamExecutionEnvironment.get_execution_environment(flink)
    env.set_parallelism(options.parallelism)
    t_env = StreamTableEnvironment.create(env)
    agents = AgentsExecutionEnvironment.get_execution_environment(env, t_env)
    agents.get_config().set("seconds", options.seconds)
    t_env.get_config().set("table.local-time-zone", "UTC")
    # Otherwise the names by which a savepoint knows the steps of SQL depend on the parallelism.
    t_env.get_config().set("table.exec.uid.generation", "ALWAYS")
    t_env.execute_sql(REVIEWS.format(path=options.input.resolve(), more=WATCHED if options.watch else ""))
    t_env.execute_sql(SUMS.format(path=options.output.resolve(), more=ROLLED if options.watch else ""))
    opinions = (
        # By text, so that reviews of one product are judged side by side.
        agents.from_table(t_env.sql_query(GOOD), "text")
        .apply(Opinion())
        .to_table(output_type=Types.ROW_NAMED(["product_id", "sentiment"], [Types.STRING(), Types.DOUBLE()]))
    )
    t_env.create_temporary_view("opinions", opinions)
    t_env.execute_sql(PER_MINUTE).wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; 0 if it ended well."""
    parser = argparse.ArgumentParser(
        description="Sentiment of reviews per product and minute: SQL, an agent, SQL.", allow_abbrev=False
    )
    parser.add_argument("--input", type=Path, required=True, help="JSON lines with product_id, ts and text")
    parser.add_argument("--output", type=Path, required=True, help="folder for the sums, JSON lines")
    parser.add_argument("--watch", action="store_true", help="--input is a folder: take new files for ever")
    parser.add_argument("--seconds", type=float, default=0.2, help="longest wait of the agent per review (default 0.2)")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--mode", choices=("thread", "process"), help="of Python; default: what works best here")
    options = parser.parse_args(arguments)
    if not (options.input.is_dir() if options.watch else options.input.is_file()):
        parser.error(f"--input {options.input}: there is no such {'folder' if options.watch else 'file'}")
    run(options)
    print(f"sums per product and minute are in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
