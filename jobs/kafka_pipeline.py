"""Orders in from a Kafka topic, an agent that watches each customer, alerts out to another topic.

Usage::

    python jobs/kafka_pipeline.py --jar flink-sql-connector-kafka-5.0.0-2.2.jar \
        --bootstrap-servers localhost:9092 --input-topic orders --output-topic alerts

Flink's Kafka connector is not part of Flink: take the jar of ``flink-sql-connector-kafka`` for your Flink version from
where you get your Java libraries, and name it with ``--jar`` or put it into Flink's ``lib`` folder.

Records of ``orders`` are JSON: ``order_id``, ``customer``, ``ts`` (ms since the epoch) and ``cents``. ``alerts`` gets,
for each order more than three times as dear as the customer's mean so far, ``{"order_id", "customer", "cents",
"mean"}``; the topic ``OUTPUT-rejects`` gets records that are no orders, as they came.

**Watermarks** are those of each partition (``--out-of-order`` seconds behind the newest record); the least of them
counts, and a partition without records does not hold the others up for longer than ``--idle`` seconds. The agent's own
watermark waits for its work, so windows behind it are complete.

**Guarantees.** What is read and the agent's state are exactly-once with checkpointing on. The sink is by
``--guarantee``:

- ``at-least-once``: alerts are there at once, and after a failure those since the last checkpoint are there twice.
- ``exactly-once``: alerts are written in transactions that end with each checkpoint. Consumers must read with
  ``isolation.level=read_committed``, and see an alert only when its checkpoint is complete: latency is the checkpoint
  interval. ``--transaction-prefix`` must be this job's own on the brokers, and ``--transaction-timeout`` longer than
  any outage you want to restart from, yet not above the broker's ``transaction.max.timeout.ms`` (15 minutes unless
  changed): a transaction that times out before the job is back is lost data.

What the agent does in other systems is another matter: see "Long calls" in the README.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyflink.common import Duration, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.java_gateway import get_gateway

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action

TIMES_AS_DEAR = 3
REJECTS = OutputTag("rejects", Types.STRING())
CONNECTOR = "org.apache.flink.connector.kafka.source.KafkaSource"


class OrderWatch(Agent):
    """An order in; an alert out, if it is much dearer than the customer's orders before."""

    @action(InputEvent)
    @staticmethod
    def watch(event: InputEvent, ctx: RunnerContext) -> None:
        """Compare with the mean so far, then take the order into it."""
        order = json.loads(event.input)
        memory = ctx.short_term_memory
        seen = memory.get("seen") or {"orders": 0, "cents": 0}
        mean = seen["cents"] / seen["orders"] if seen["orders"] else None
        if mean is not None and order["cents"] > TIMES_AS_DEAR * mean:
            alert = {name: order[name] for name in ("order_id", "customer", "cents")}
            ctx.send_event(OutputEvent(json.dumps({**alert, "mean": round(mean)})))
        memory.set("seen", {"orders": seen["orders"] + 1, "cents": seen["cents"] + order["cents"]})


def is_order(text: str) -> bool:
    """Whether a record is one."""
    try:
        order = json.loads(text)
        return isinstance(order["customer"], str) and order["cents"] + order["ts"] >= 0 and "order_id" in order
    except (ValueError, TypeError, KeyError):
        return False


class Sort(ProcessFunction):
    """Orders go on, all else to the side output: an unreadable record must not stop the job over and over."""

    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Any:  # noqa: ARG002, D102 - Flink's
        yield value if is_order(value) else (REJECTS, value)


class TimeOfOrder(TimestampAssigner):
    """``ts`` of an order; for what is none, the record's own."""

    def extract_timestamp(self, value: str, record_timestamp: int) -> int:  # noqa: D102 - Flink's
        return int(json.loads(value)["ts"]) if is_order(value) else record_timestamp


def source_of(options: argparse.Namespace) -> KafkaSource:
    """The source by the command line."""
    offsets = {
        "earliest": KafkaOffsetsInitializer.earliest,
        "latest": KafkaOffsetsInitializer.latest,
        # Where the group left off; on its first day, the beginning. A restored job goes by its own state instead.
        "committed": lambda: KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST),
    }
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(options.bootstrap_servers)
        .set_topics(*options.input_topic)
        .set_group_id(options.group)
        .set_starting_offsets(offsets[options.start]())
        .set_value_only_deserializer(SimpleStringSchema())
        # New partitions are found while the job runs, ms.
        .set_property("partition.discovery.interval.ms", "60000")
    )
    for key, value in options.source_property:
        builder = builder.set_property(key, value)
    if options.bounded:
        builder = builder.set_bounded(KafkaOffsetsInitializer.latest())
    return builder.build()


def sink_of(options: argparse.Namespace, topic: str) -> KafkaSink:
    """A sink by the command line."""
    exactly_once = options.guarantee == "exactly-once"
    builder = (
        KafkaSink.builder()
        .set_bootstrap_servers(options.bootstrap_servers)
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(topic)
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE if exactly_once else DeliveryGuarantee.AT_LEAST_ONCE)
    )
    if exactly_once:
        builder = builder.set_transactional_id_prefix(f"{options.transaction_prefix}-{topic}")
        builder = builder.set_property("transaction.timeout.ms", str(options.transaction_timeout * 1000))
    for key, value in options.sink_property:
        builder = builder.set_property(key, value)
    return builder.build()


def watermarks_of(options: argparse.Namespace) -> WatermarkStrategy:
    """Timestamps and watermarks by the command line."""
    return (
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(options.out_of_order))
        .with_idleness(Duration.of_seconds(options.idle))
        .with_timestamp_assigner(TimeOfOrder())
    )


def has_class(name: str) -> bool:
    """Whether the JVM finds a class, in Flink or in a jar that was added."""
    jvm = get_gateway().jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    try:
        jvm.Class.forName(name, False, loader)
    except Exception:  # noqa: BLE001 - of Py4J, around Java's ClassNotFoundException
        return False
    return True


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; a mistake ends the process with code 2."""
    parser = argparse.ArgumentParser(description="Orders in from Kafka, alerts out to Kafka.", allow_abbrev=False)
    parser.add_argument("--jar", type=Path, action="append", default=[], help="of the connector (repeatable)")
    parser.add_argument("--bootstrap-servers", required=True, metavar="HOST:PORT,...")
    parser.add_argument("--input-topic", required=True, action="append", help="may be given several times")
    parser.add_argument("--output-topic", required=True)
    parser.add_argument("--group", default="order-watch", help="consumer group (%(default)s)")
    parser.add_argument("--start", choices=("earliest", "latest", "committed"), default="committed")
    parser.add_argument("--bounded", action="store_true", help="end at what is in the topics when the job starts")
    parser.add_argument("--out-of-order", type=_whole(0), default=5, metavar="SECONDS", help="(%(default)s)")
    parser.add_argument("--idle", type=_whole(1), default=30, metavar="SECONDS", help="(%(default)s)")
    parser.add_argument("--guarantee", choices=("at-least-once", "exactly-once"), default="at-least-once")
    parser.add_argument("--transaction-prefix", default="order-watch")
    parser.add_argument("--transaction-timeout", type=_whole(1), default=600, metavar="SECONDS", help="(%(default)s)")
    for side in ("source", "sink"):
        parser.add_argument(
            f"--{side}-property",
            type=_property,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help=f"of the Kafka client of the {side}, such as security.protocol=SASL_SSL (repeatable)",
        )
    options = parser.parse_args(arguments)
    for jar in options.jar:
        if not jar.is_file():
            parser.error(f"--jar {jar}: there is no such file")
    for key, _ in [*options.source_property, *options.sink_property]:
        if key in {"bootstrap.servers", "group.id", "transactional.id", "transaction.timeout.ms"}:
            parser.error(f"{key} has an option of its own")
    return options


def _whole(least: int) -> Any:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
        return int(text)

    return read


def _property(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; 0 if it ended well, 2 if the command line is wrong or the connector is missing."""
    options = parse(arguments)
    env = StreamExecutionEnvironment.get_execution_environment()
    if options.jar:
        env.add_jars(*(jar.resolve().as_uri() for jar in options.jar))
    if not has_class(CONNECTOR):
        print(
            "kafka_pipeline: Flink's Kafka connector is missing: get the jar of flink-sql-connector-kafka that is for "
            "this Flink version, and name it with --jar, or put it into Flink's lib folder",
            file=sys.stderr,
        )
        return 2
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    records = env.from_source(source_of(options), watermarks_of(options), "orders").uid("orders")
    orders = records.process(Sort(), Types.STRING()).uid("sort")
    alerts = (
        agents.from_datastream(orders, lambda text: json.loads(text)["customer"], key_type=Types.STRING())
        .apply(OrderWatch())
        .to_datastream(Types.STRING())
    )
    alerts.sink_to(sink_of(options, options.output_topic)).name("alerts").uid("alerts")
    rejects = orders.get_side_output(REJECTS)
    rejects.sink_to(sink_of(options, f"{options.output_topic}-rejects")).name("rejects").uid("rejects")
    agents.execute("order watch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
