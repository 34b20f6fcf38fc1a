"""What ``review_analysis`` shows the person who started it: progress while it runs, and a summary at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from typing_extensions import Self

TABLE_ROWS = 50
ALERTS_SHOWN = 3  # of one product, the latest


class Watch:
    """Progress on stderr: a bar on a terminal, elsewhere a line every ten seconds.

    Args:
        count_lines: counts the lines to come; asked only where there is a bar to draw.
    """

    EVERY_S = 10.0

    def __init__(self, count_lines: Callable[[], int]) -> None:
        console = Console(stderr=True)
        self._draws = console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not self._draws,
        )
        self._task = self._bar.add_task("analysing", total=count_lines() if self._draws else None)
        self._next = time.monotonic() + self.EVERY_S

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, summary: Summary) -> None:
        """Show how far it is."""
        if self._draws:
            self._bar.update(self._task, completed=summary.analyses + summary.rejects)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + self.EVERY_S
            print(f"{summary.analyses:,} reviews analysed, {summary.rejects:,} lines rejected", file=sys.stderr)


class Summary:
    """What the written records add up to."""

    def __init__(self) -> None:
        self.analyses = 0
        self.rejects = 0
        self.labelled = 0
        self.agreeing = 0
        self.neutral = 0
        self.agreeing_outright = 0
        self.latest: dict[str, dict[str, Any]] = {}
        self.alerts: dict[str, list[dict[str, Any]]] = {}

    def add(self, record: dict[str, Any], label: int | None = None) -> None:
        """Count one analysis, alert or rejected line."""
        kind = record.get("kind")
        if kind == "alert":
            self.alerts.setdefault(record["product_id"], []).append(record)
        elif kind == "analysis":
            self.analyses += 1
            self.latest[record["product_id"]] = record
            if label is not None:
                self._compare(record["sentiment"], label)
        else:
            self.rejects += 1

    def _compare(self, sentiment: float, label: int) -> None:
        agrees = (sentiment > 0) == (label == 1)
        self.labelled += 1
        self.agreeing += agrees
        if sentiment == 0:
            self.neutral += 1
        else:
            self.agreeing_outright += agrees

    def agreement(self) -> str | None:
        """A sentence on sentiment against label, None if no review had one."""
        if not self.labelled:
            return None
        sentence = (
            f"sentiment agrees with label in {self.agreeing:,} of {self.labelled:,} labelled reviews"
            f" ({self.agreeing / self.labelled:.1%}; above 0 counts as label 1, 0 and below as label 0)"
        )
        outright = self.labelled - self.neutral
        if self.neutral and outright:
            sentence += f"; {self.agreeing_outright / outright:.1%} without the {self.neutral:,} scored exactly 0"
        return sentence

    def show(self, console: Console, output: Path, rejects: Path) -> None:
        """Print the table of products, worst first, and the totals."""
        table = Table("product", title="Reviews by product, lowest mean first", title_justify="left")
        table.add_column("reviews", justify="right")
        table.add_column("mean sentiment", justify="right")
        table.add_column("alerts")
        worst_first = sorted(self.latest.items(), key=lambda item: (item[1]["mean"], item[0]))
        for product, latest in worst_first[:TABLE_ROWS]:
            alerts = self.alerts.get(product, [])
            shown = [f"at review {alert['count']} ({alert['mean']:+.2f})" for alert in alerts[-ALERTS_SHOWN:]]
            crossings = ("... " if len(alerts) > ALERTS_SHOWN else "") + ", ".join(shown)
            table.add_row(Text(product), f"{latest['count']:,}", f"{latest['mean']:+.2f}", crossings)
        if self.latest:
            console.print(table)
        if len(worst_first) > TABLE_ROWS:
            console.print(f"... and {len(worst_first) - TABLE_ROWS:,} products with a higher mean", highlight=False)
        all_alerts = sum(map(len, self.alerts.values()))
        lines = [
            f"reviews analysed: {self.analyses:,} (products: {len(self.latest):,}) -> {output}",
            f"alerts: {all_alerts:,} (products: {len(self.alerts):,})",
            f"lines rejected: {self.rejects:,} -> {rejects}",
        ]
        agreement = self.agreement()
        lines += [agreement] if agreement else []
        for line in lines:
            console.print(Text(line), soft_wrap=True)
