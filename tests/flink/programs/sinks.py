"""Where programs put what their agents emit."""

from __future__ import annotations

from typing import Any

from pyflink.common import Types
from pyflink.datastream import DataStream
from pyflink.java_gateway import get_gateway

from tests.support.ledger import append


def append_to(stream: DataStream, path: str, uid: str = "append") -> None:
    """Append the dictionaries of the stream to a file, from wherever they are."""

    def write(record: dict[str, Any]) -> bool:
        append(path, **record)
        return True

    discard(stream.map(write, output_type=Types.BOOLEAN()).uid(uid).name(uid))


def discard(stream: DataStream) -> None:
    sink = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    stream._j_data_stream.sinkTo(sink).name("discard").uid(f"discard-{stream.get_name()}")
