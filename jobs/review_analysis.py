"""Watch product reviews: score each one, keep a rolling picture per product, raise an alert when one turns bad.

Usage::

    python jobs/review_analysis.py --input reviews.jsonl --output analysis.jsonl
    python jobs/review_analysis.py --input reviews.jsonl --model local --limit 20

Without ``--model`` a lexicon scores the reviews. ``local`` is a small language model in this process (extra
``local-model``); ``openai:NAME``, ``anthropic:NAME`` and ``ollama:NAME`` are models of services, whose keys are read
from ``OPENAI_API_KEY`` and ``ANTHROPIC_API_KEY`` on the workers.

Input: JSON lines with ``review_id`` (text or whole number), ``product_id`` (text), ``ts`` (ms since the epoch) and
``text``; an optional ``label`` (1 = liked it, 0 = did not) is compared with the sentiment in the summary.

``OUTPUT`` gets JSON lines: ``{"kind":"analysis", "review_id", "product_id", "sentiment", "count", "mean"}`` for each
review, with the sentiment and the product's mean sentiment so far in [-1, 1] and the number of its reviews so far, and
``{"kind":"alert", "product_id", "mean", "count"}`` each time a product's mean falls below ``ALERT_BELOW``.
``OUTPUT.rejects.jsonl`` gets ``{"line", "reason", "text"}`` for each line that is no review. Both appear, complete,
when the job has ended well; a failed job leaves neither. On a cluster the input must be readable by the TaskManagers.
With ``--output-folder`` they also write, and the job can be stopped with a savepoint and go on (see review_folder.py).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import DataStream, OutputTag, ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from rich.console import Console

from flink_agents_py import (
    Agent,
    AgentsExecutionEnvironment,
    ChatMessage,
    ChatRequestEvent,
    ChatResponseEvent,
    Event,
    InputEvent,
    OutputEvent,
    RunnerContext,
    action,
)
from flink_agents_py.flink.failures import python_cause

# `flink run -py` starts a link to this file elsewhere. The client imports from the project; workers get what is defined
# in this file by value and need no neighbour of it.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from jobs.review_cli import parse_arguments, written_paths
from jobs.review_folder import run_into
from jobs.review_model import model_resources
from jobs.review_report import Summary, Watch

ALERT_BELOW = -0.05  # VADER's own border between neutral and negative
ALERT_MIN_REVIEWS = 5  # a mean of fewer reviews than that says little
SCORED_CHARACTERS = 10_000  # VADER's time grows with the square of the text's length

JUDGED_CHARACTERS = 1_000  # enough to tell, and little enough for the context of a small model
QUESTION = "Is this review positive or negative?\nReview: "
JUDGEMENT = {
    "type": "object",
    "properties": {"sentiment": {"type": "string", "enum": ["positive", "negative"]}},
    "required": ["sentiment"],
}
# A model of a few hundred million parameters judges at chance without examples.
EXAMPLES = [
    message
    for text, sentiment in [
        ("Awful, it stopped working.", "negative"),
        ("Excellent, I am very happy with it.", "positive"),
        ("Poor quality, do not buy it.", "negative"),
    ]
    for message in (ChatMessage.user(QUESTION + text), ChatMessage.assistant(json.dumps({"sentiment": sentiment})))
]

CHUNK_BYTES = 64 * 1024
LONGEST_LINE_BYTES = 1024 * 1024
REJECTED_TEXT_CHARACTERS = 500
# JSON may hold these as they are, but many readers of lines (Python's str.splitlines) take them for line breaks.
LINE_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}

# --- the agent --------------------------------------------------------------------------------------------------------


class ReviewScored(Event):
    """The sentiment of one review is known."""

    EVENT_TYPE = "review-scored"

    review: dict[str, Any]
    sentiment: float


class ProductTurnedBad(Event):
    """A product's mean sentiment has just fallen below the threshold."""

    EVENT_TYPE = "product-turned-bad"

    product_id: str
    mean: float
    count: int


class ReviewAnalyst(Agent):
    """Keyed by product: review -> score -> rolling picture -> analysis, and an alert when the product turns bad."""

    @action(InputEvent)
    @staticmethod
    def score(event: InputEvent, ctx: RunnerContext) -> None:
        """Score the review's text."""
        review = event.input
        ctx.send_event(ReviewScored(review=review, sentiment=sentiment_of(review["text"])))

    @action(ReviewScored, alert_below=ALERT_BELOW, min_reviews=ALERT_MIN_REVIEWS)
    @staticmethod
    def update_picture(event: ReviewScored, ctx: RunnerContext) -> None:
        """Add the score to the product's picture; report the review, and the product if it has just turned bad."""
        memory = ctx.short_term_memory
        picture = memory.get("picture") or {"count": 0, "total": 0.0, "bad": False}
        count = picture["count"] + 1
        # Scores have four digits; rounding the sum keeps it free of what floats add to it over millions of reviews.
        total = round(picture["total"] + event.sentiment, 4)
        mean = round(total / count, 4)
        bad = count >= ctx.get_action_config_value("min_reviews") and mean < ctx.get_action_config_value("alert_below")
        memory.set("picture", {"count": count, "total": total, "bad": bad})

        review = event.review
        analysis = {
            "kind": "analysis",
            "review_id": review["review_id"],
            "product_id": review["product_id"],
            "sentiment": event.sentiment,
            "count": count,
            "mean": mean,
        }
        ctx.send_event(OutputEvent({"record": analysis, "label": review["label"]}))
        if bad and not picture["bad"]:
            ctx.send_event(ProductTurnedBad(product_id=review["product_id"], mean=mean, count=count))

    @action(ProductTurnedBad)
    @staticmethod
    def alert(event: ProductTurnedBad, ctx: RunnerContext) -> None:
        """Raise the alert."""
        alert = {"kind": "alert", "product_id": event.product_id, "mean": event.mean, "count": event.count}
        ctx.send_event(OutputEvent({"record": alert}))


class ModelReviewAnalyst(ReviewAnalyst):
    """The same with a language model as judge: it says *positive* (1) or *negative* (-1)."""

    @action(InputEvent)
    @staticmethod
    def score(event: InputEvent, ctx: RunnerContext) -> None:
        """Ask the model."""
        ctx.sensory_memory.set("review", event.input)
        question = ChatMessage.user(QUESTION + event.input["text"][:JUDGED_CHARACTERS])
        ctx.send_event(ChatRequestEvent("judge", [*EXAMPLES, question], output_schema=JUDGEMENT))

    @action(ChatResponseEvent)
    @staticmethod
    def judged(event: ChatResponseEvent, ctx: RunnerContext) -> None:
        """Take its word."""
        judgement = event.response.extra_args["structured_output"]
        sentiment = 1.0 if judgement["sentiment"] == "positive" else -1.0
        ctx.send_event(ReviewScored(review=ctx.sensory_memory.get("review"), sentiment=sentiment))


_analyzers: list[Any] = []  # the one of this process; its lexicon takes some 100 ms to load


def sentiment_of(text: str) -> float:
    """Sentiment in [-1, 1], four digits: VADER's compound score of the first ``SCORED_CHARACTERS`` characters."""
    if not _analyzers:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

        _analyzers.append(SentimentIntensityAnalyzer())
    compound: float = _analyzers[0].polarity_scores(text[:SCORED_CHARACTERS])["compound"]
    return compound


# --- reading ----------------------------------------------------------------------------------------------------------


class MalformedLineError(ValueError):
    """A line of the input is no review; the message says why."""


def parse_review(line: bytes) -> dict[str, Any]:
    """The review in one line (without its line break); ``label`` is None unless it is 0 or 1.

    Raises:
        MalformedLineError: it is not a review.
    """
    if len(line) > LONGEST_LINE_BYTES:
        raise MalformedLineError(f"longer than {LONGEST_LINE_BYTES} bytes")
    if not line.strip():
        raise MalformedLineError("blank line")
    try:
        document = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedLineError(f"not valid UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise MalformedLineError(f"not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise MalformedLineError(f"not a JSON object but {_json_type(document)}")
    label = document.get("label")
    return {
        "review_id": _field(document, "review_id", (str, int), "text or a whole number"),
        "product_id": _field(document, "product_id", (str,), "text"),
        "ts": _field(document, "ts", (int, float), "a number"),
        "text": _field(document, "text", (str,), "text"),
        "label": int(label) if label in (0, 1) and not isinstance(label, bool) else None,
    }


def _field(document: dict[str, Any], name: str, types: tuple[type, ...], wanted: str) -> Any:
    if name not in document:
        raise MalformedLineError(f"field '{name}' is missing")
    value = document[name]
    if not isinstance(value, types) or isinstance(value, bool):
        raise MalformedLineError(f"field '{name}' must be {wanted}, not {_json_type(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise MalformedLineError(f"field '{name}' must be a finite number")
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            # JSON allows "\\ud800" alone; no file or Flink string can hold it.
            raise MalformedLineError(f"field '{name}' has half of a surrogate pair") from None
        if name == "product_id" and not value:
            raise MalformedLineError("field 'product_id' is empty")
    return value


def _json_type(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    names = {str: "text", int: "a number", float: "a number", list: "an array", dict: "an object"}
    return names[type(value)]


def lines_of_chunk(file: BinaryIO, chunk: int) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes (without line break) of each line that *starts* in chunk number ``chunk`` of the file.

    A line too long to be a review is cut after ``LONGEST_LINE_BYTES`` + 1 bytes, so that it is never held in memory.
    """
    start, end = chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES
    if start > 0:
        file.seek(start - 1)
        _skip_line(file)
    offset = file.tell()
    while offset < end and (line := file.readline(LONGEST_LINE_BYTES + 1)):
        if len(line) > LONGEST_LINE_BYTES and not line.endswith(b"\n"):
            _skip_line(file)
        elif offset == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")
        yield offset, line.removesuffix(b"\n").removesuffix(b"\r")
        offset = file.tell()


def _skip_line(file: BinaryIO) -> None:
    part = file.readline(CHUNK_BYTES)
    while part and not part.endswith(b"\n"):
        part = file.readline(CHUNK_BYTES)


def lines_before(file: BinaryIO, offset: int) -> int:
    """Number of lines that end before byte ``offset``."""
    file.seek(0)
    count = 0
    while block := file.read(min(offset, 1024 * 1024)):
        count += block.count(b"\n")
        offset -= len(block)
    return count


class ReadReviews(ProcessFunction):
    """Chunk numbers in, reviews out, rejected lines to the side output; in file order when it runs at parallelism 1.

    Chunks instead of one endless call, so that checkpoints pass, process mode's bundles stay small and a recovered job
    goes on where it was. Line numbers are counted on from chunk to chunk, and anew after a recovery.
    """

    def __init__(self, path: str, limit: int | None, rejects: OutputTag) -> None:
        self._path = path
        self._limit = limit
        self._rejects = rejects
        self._next_chunk = -1
        self._line = 0

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:  # noqa: ARG002 - Flink's
        """Emit what is in chunk ``value``."""
        with Path(self._path).open("rb") as file:
            if value != self._next_chunk:
                start = next(lines_of_chunk(file, value), (0, b""))[0]
                self._line = lines_before(file, start)
                file.seek(0)
            self._next_chunk = value + 1
            for _, line in lines_of_chunk(file, value):
                self._line += 1
                if self._limit is not None and self._line > self._limit:
                    return
                try:
                    yield parse_review(line)
                except MalformedLineError as error:
                    yield self._rejects, {"record": rejected(self._line, str(error), line)}


def rejected(number: int, reason: str, line: bytes) -> dict[str, Any]:
    r"""The record of a line that is no review; bytes that are no UTF-8 are shown as ``\xNN``."""
    text = line[: 4 * REJECTED_TEXT_CHARACTERS].decode("utf-8", "backslashreplace")
    return {"line": number, "reason": reason, "text": text[:REJECTED_TEXT_CHARACTERS]}


# --- the job ----------------------------------------------------------------------------------------------------------


def build(options: argparse.Namespace) -> tuple[AgentsExecutionEnvironment, DataStream, DataStream]:
    """The streams of what is to be written: analyses and alerts, and rejected lines."""
    flink = Configuration()
    if options.mode:
        flink.set_string("python.execution-mode", options.mode)
    env = StreamExecutionEnvironment.get_execution_environment(flink)
    env.set_parallelism(options.parallelism)
    agents_env = AgentsExecutionEnvironment.get_execution_environment(env)
    mode = options.mode or agents_env.settings().get("python.execution-mode", "the configured")
    print(f"analysing {options.input} in {mode} mode", file=sys.stderr)
    chunks = math.ceil(options.input.stat().st_size / CHUNK_BYTES) or 1
    rejects = OutputTag("rejects", Types.PICKLED_BYTE_ARRAY())
    # One reader, whatever the parallelism of the agent: reviews of a product must stay in the order of the file.
    reviews = (
        env.from_source(NumberSequenceSource(0, chunks - 1), WatermarkStrategy.no_watermarks(), "chunks of the input")
        .set_parallelism(1)
        .process(ReadReviews(str(options.input.resolve()), options.limit, rejects), Types.PICKLED_BYTE_ARRAY())
        .set_parallelism(1)
        .name("read reviews")
        .uid("read-reviews")
    )
    for name, kind, descriptor in model_resources(options.model, options.base_url):
        agents_env.add_resource(name, kind, descriptor)
    analyses = (
        agents_env.from_datastream(reviews, lambda review: review["product_id"], key_type=Types.STRING())
        .apply(ModelReviewAnalyst() if options.model else ReviewAnalyst(), agent_name="ReviewAnalyst")
        .to_datastream(Types.PICKLED_BYTE_ARRAY())
    )
    return agents_env, analyses, reviews.get_side_output(rejects)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; 0 if it ended well, 1 if it failed, 2 if the command line is wrong."""
    options = parse_arguments(arguments)
    if options.output_folder is not None:
        return run_into(*build(options), options.output_folder)
    summary = Summary()
    output_path, rejects_path, *parts = written_paths(options.output)
    try:
        _, analyses, lines = build(options)
        with (
            parts[0].open("w", encoding="utf-8") as output,
            parts[1].open("w", encoding="utf-8") as rejects,
            # Rebalanced: over connections that barriers may overtake records on (flink_agents_py/flink/barriers.py).
            analyses.rebalance().union(lines.rebalance()).execute_and_collect("review analysis") as results,
            Watch(lambda: count_lines(options)) as watch,
        ):
            for result in results:
                record = result["record"]
                summary.add(record, result.get("label"))
                file = output if "kind" in record else rejects
                file.write(json.dumps(record, ensure_ascii=False).translate(LINE_BREAKS) + "\n")
                watch.update(summary)
        parts[0].replace(output_path)
        parts[1].replace(rejects_path)
    except KeyboardInterrupt:
        print("review_analysis: interrupted, nothing was written", file=sys.stderr)
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is, the person who started the job wants it short
        text = str(error) if "Caused by:" in str(error) else f"{type(error).__name__}: {error}"
        print(f"{text}\n\nreview_analysis: the job failed: {python_cause(text)}", file=sys.stderr)
        return 1
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
    summary.show(Console(), output_path, rejects_path)
    return 0


def count_lines(options: argparse.Namespace) -> int:
    """Number of lines the job will read."""
    with options.input.open("rb") as file:
        lines = lines_before(file, sys.maxsize)
    return min(lines, options.limit or lines)


if __name__ == "__main__":
    sys.exit(main())
