"""What ``incident_actions`` shows the person who started it: results, retries, dead letters and audit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from jobs.incident_service import IncidentService

FOLDERS = ("measures", "results", "dead-letters", "audit")
SHOWN = 8
BESIDE_MESSAGE = 62  # columns the rest of the table of dead letters takes


class Report:
    """What a run has written."""

    def __init__(self, records: dict[str, list[dict[str, Any]]]) -> None:
        self.measures = records["measures"]
        self.results = records["results"]
        self.dead_letters = records["dead-letters"]
        self.audit = records["audit"]

    @classmethod
    def read(cls, output: Path) -> Report:
        """Read the folders of a run that has ended."""
        return cls({name: list(_records(output / name)) for name in FOLDERS})

    def by_action(self) -> dict[str, Counter[str]]:
        """Of each action: calls, attempts, how many were known to be done, and how many ended in each code."""
        figures: dict[str, Counter[str]] = {}
        for result in self.results:
            counts = figures.setdefault(result["action"], Counter())
            counts["calls"] += 1
            counts["attempts"] += 0 if result["deduplicated"] else result["attempts"]
            counts["known"] += result["deduplicated"]
            counts[result["code"]] += 1
        return dict(sorted(figures.items()))

    def retried(self) -> Counter[str]:
        """The codes that were followed by another attempt."""
        return Counter(
            error["code"]
            for result in self.results
            for error in result["errors"]
            if error["attempt"] < result["attempts"]
        )

    def show(self, console: Console, output: Path, service: IncidentService) -> None:
        """Print it."""
        self._show_actions(console)
        self._show_dead_letters(console)
        self._show_other_ways(console)
        self._show_audit(console)
        retried = ", ".join(f"{count} after {code}" for code, count in self.retried().most_common())
        requests, done = sum(service.requests.values()), sum(service.done.values())
        for line in (
            f"retries: {retried or 'none'}",
            f"the services had {requests} requests and did {done} deeds ({service.recognised} asked for again)",
            f"written: {output}/{{{','.join(FOLDERS)}}}",
            f"next: flink-agents-py dlq list {output / 'dead-letters'}",
        ):
            console.print(Text(line), soft_wrap=True)

    def _show_actions(self, console: Console) -> None:
        table = Table("action", title="External actions", title_justify="left")
        for name in ("calls", "tries", "done", "known", "failed"):
            table.add_column(name, justify="right")
        table.add_column("failures", no_wrap=True)
        for name, counts in self.by_action().items():
            codes = {code: counts[code] for code in counts if code.isupper() and code != "SUCCESS"}
            failures = "\n".join(f"{count} {code}" for code, count in codes.items())
            figures = (
                counts["calls"],
                counts["attempts"],
                counts["SUCCESS"],
                counts["known"],
                sum(codes.values()),
            )
            table.add_row(name, *map(str, figures), failures)
        console.print(table)

    def _show_dead_letters(self, console: Console) -> None:
        table = Table("incident", "action", title="Dead letters", title_justify="left")
        table.add_column("code")
        table.add_column("tries", justify="right")
        table.add_column("message")
        room = max(20, console.width - BESIDE_MESSAGE)
        for letter in self.dead_letters[:SHOWN]:
            call = letter["call"]
            message = " ".join(letter["message"].split())
            message = message if len(message) <= room else f"{message[: room - 3]}..."
            table.add_row(call["trace_id"], call["action"], letter["code"], str(letter["attempts"]), Text(message))
        if self.dead_letters:
            console.print(table)
            _more(console, self.dead_letters)

    def _show_other_ways(self, console: Console) -> None:
        others = [entry for entry in self.measures if entry["because_of"] != "the incident"]
        table = Table("incident", "failed", "done instead", "code", title="Other ways found", title_justify="left")
        for entry in others[:SHOWN]:
            table.add_row(entry["incident"], entry["because_of"], entry["measure"], entry["code"])
        if others:
            console.print(table)
            _more(console, others)

    def _show_audit(self, console: Console) -> None:
        table = Table(
            "incident", "action", "code", "attempts", "ms", "version", title="Audit, the last", title_justify="left"
        )
        for entry in self.audit[-SHOWN:]:
            took = str(entry["finished_ms"] - entry["started_ms"])
            table.add_row(
                entry["trace_id"], entry["action"], entry["code"], str(entry["attempts"]), took, entry["version"]
            )
        if self.audit:
            console.print(table)


def _more(console: Console, records: list[dict[str, Any]]) -> None:
    if len(records) > SHOWN:
        console.print(f"... and {len(records) - SHOWN} more", highlight=False)


def _records(folder: Path) -> Iterable[dict[str, Any]]:
    for file in sorted(folder.glob("*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)
