"""Streams of records to files of JSON lines, such as ``flink-agents-py dlq`` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyflink.common import Encoder, Types
from pyflink.datastream.connectors.file_system import BucketAssigner, FileSink, OutputFileConfig, RollingPolicy

from flink_agents_py.serde import to_plain

if TYPE_CHECKING:
    from pyflink.datastream import DataStream


def write_json_lines(stream: DataStream, folder: str | Path, name: str = "json-lines") -> None:
    """Write each record of ``stream`` as a line of a file in ``folder``.

    Exactly once: a file appears, complete, with the next checkpoint or at the end of the job; until then it is hidden.
    A stream without end needs checkpoints. Records are dead letters, results, or other JSON-like data.

    Args:
        folder: path or URL of a file system Flink knows.
        name: of the sink; its uid too, so each sink of a job needs its own.
    """
    target = folder if "://" in str(folder) else Path(folder).absolute().as_uri()
    sink = (
        FileSink.for_row_format(str(target), Encoder.simple_string_encoder("UTF-8"))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".jsonl").build())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    lines = stream.map(json_line, Types.STRING()).uid(f"{name}-lines").name(f"{name} lines")
    lines.sink_to(sink).uid(name).name(name)


def json_line(record: Any) -> str:
    """One record as JSON text without line breaks."""
    plain = record.to_plain() if hasattr(record, "to_plain") else to_plain(record)
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
