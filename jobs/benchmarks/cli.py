"""The command line: which workloads, engines and sizes; results as JSON lines on stdout, all else on stderr."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobs.action_stores import STORES, store_url
from jobs.benchmarks.chat import SIDES, model_server, shares
from jobs.benchmarks.machine import BUSY, busy_share
from jobs.benchmarks.report import figures_of_run, ratio, summary_line
from jobs.benchmarks.run import RunFailedError, RunSpec, measure
from jobs.benchmarks.state_ops import state_ops
from jobs.benchmarks.workloads import CALL_S, DEFAULT_WORKLOADS, WORKLOADS, Workload

SMALLEST_N = 100
CHAT = "chat"

Measure = Callable[[RunSpec], dict[str, Any]]
Look = Callable[[], float | None]


def main(arguments: Sequence[str] | None = None, measure: Measure = measure, look: Look = busy_share) -> int:
    """Measure what the command line asks for; 0 on success, 1 if a run failed, 2 if the command line is wrong."""
    options = parse(arguments)
    try:
        if options.store is not None:
            _run_with_store(options, measure, look)
            return 0
        for name in options.workload or DEFAULT_WORKLOADS:
            with model_server() if name == CHAT else nullcontext():
                _run_workload(WORKLOADS[name], options, measure, look)
    except RunFailedError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; a mistake ends the process with code 2 and says what is allowed."""
    parser = argparse.ArgumentParser(
        prog="bench",
        description="Measure agents against hand-written PyFlink functions. One JSON object a line on stdout.",
        epilog="workloads: " + ", ".join(WORKLOADS),
    )
    parser.add_argument("workload", nargs="*", metavar="WORKLOAD", help=f"default: {' '.join(DEFAULT_WORKLOADS)}")
    parser.add_argument(
        "--engine",
        choices=("agent", "raw", "both", "async"),
        default="both",
        help="raw: KeyedProcessFunction by hand; async: PyFlink's AsyncDataStream, for io, always in process mode",
    )
    parser.add_argument("--n", type=_whole(SMALLEST_N), help="records a run (default: by workload and mode)")
    parser.add_argument("--keys", type=_whole(1), help="number of keys (default: by workload, 1000)")
    parser.add_argument("--parallelism", type=_whole(1), default=1)
    parser.add_argument("--mode", choices=("thread", "process"), default="thread", help="python.execution-mode")
    parser.add_argument(
        "--event-time",
        choices=("hold", "none", "both"),
        help="give the stream timestamps and watermarks, and hold the watermark (hold) or let the output have none "
        "(none); both: the agent with each in turn, and the ratio hold / none",
    )
    parser.add_argument(
        "--store",
        choices=STORES,
        help="the agent without an action state store and with this one in turn, and the ratio to none",
    )
    parser.add_argument("--store-url", help="where that store is (default: one of its own is made or started)")
    parser.add_argument(
        "--event-log",
        choices=("STANDARD", "VERBOSE"),
        help="the agent without an event log and with one of this level, to a file, in turn, and the ratio to OFF",
    )
    parser.add_argument("--runs", type=_whole(1), default=3, help="runs an engine; medians are reported (default 3)")
    options = parser.parse_args(arguments)
    for name in options.workload:
        if name not in WORKLOADS:
            parser.error(f"unknown workload {name!r}; choose from {', '.join(WORKLOADS)}")
        if options.engine == "async" and name != "io":
            parser.error(f"--engine async measures the workload 'io' only, not {name!r}")
    if options.event_time is not None:
        if options.engine == "async":
            parser.error("--event-time does not go with --engine async")
        if options.event_time == "both":
            options.engine = "agent"
    if CHAT in options.workload and (options.store is not None or options.event_time == "both"):
        parser.error("the workload 'chat' goes neither with --store nor with --event-time both")
    if options.store is not None:
        if options.event_time is not None or options.engine not in ("agent", "both"):
            parser.error("--store measures the agent alone, without --event-time")
        options.engine = "agent"
    elif options.store_url is not None:
        parser.error("--store-url needs --store")
    if options.event_log is not None:
        if options.store is not None or options.event_time == "both" or options.engine == "async":
            parser.error("--event-log measures the agent alone, without --store and --event-time both")
        options.engine = "agent"
    if options.engine == "async":
        options.workload = options.workload or ["io"]
        options.mode = "process"
    return options


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {number}")
        return number

    return read


def _run_with_store(options: argparse.Namespace, measure: Measure, look: Look) -> None:
    with tempfile.TemporaryDirectory(prefix="flink-agents-bench-") as folder, ExitStack() as stack:
        if options.store_url is None:
            options.store_url = store_url(options.store, Path(folder), stack)
        for name in options.workload or DEFAULT_WORKLOADS:
            _run_workload(WORKLOADS[name], options, measure, look)


def _run_workload(workload: Workload, options: argparse.Namespace, measure: Measure, look: Look) -> None:
    # Raw and agent take turns, so that a machine that gets slower or busier meanwhile hits both alike.
    sides = _sides(options, workload)
    engines = tuple(sides)
    runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in engines}
    specs = {
        name: _spec(workload, engine, event_time, store, options) for name, (engine, event_time, store) in sides.items()
    }
    if options.event_log is not None:
        specs = {level: replace(spec, event_log=level) for level, spec in specs.items()}
    for number in range(1, options.runs + 1):
        for engine in engines:
            busy = look()
            figures = figures_of_run(measure(specs[engine]), CALL_S if workload.makes_calls else None)
            figures["busy_before"] = busy
            runs[engine].append(figures)
            print(
                f"{workload.name} {engine} {number}/{options.runs}: {figures['records_per_s']:,.0f} records/s",
                file=sys.stderr,
            )
            if busy is not None and busy >= BUSY:
                print(f"bench: {busy:.0%} of the machine was in use before that run: do not trust it", file=sys.stderr)
    for engine in engines:
        line = summary_line(_head(specs[engine], workload), runs[engine])
        if workload.uses_memory and specs[engine].engine == "agent":
            line["state_ops"] = state_ops(workload.name)
        _print(line)
    if workload.name == CHAT:
        if options.engine == "both":
            _print(shares(runs))
    elif options.engine == "both":
        _print({"workload": workload.name, "ratio": ratio(runs["agent"], runs["raw"])})
    if options.event_log is not None:
        to_off = ratio(runs[options.event_log], runs["OFF"])
        _print({"workload": workload.name, "event_log": options.event_log, "ratio_to_off": to_off})
    if options.event_time == "both":
        _print({"workload": workload.name, "ratio_hold_to_none": ratio(runs["hold"], runs["none"])})
    if options.store is not None:
        to_none = ratio(runs[options.store], runs["none"])
        _print({"workload": workload.name, "store": options.store, "ratio_to_none": to_none})


def _sides(options: argparse.Namespace, workload: Workload) -> dict[str, tuple[str, str | None, str]]:
    """What is compared, by name: engine, event time and store of each."""
    if workload.name == CHAT:
        return {engine: (engine, options.event_time, "none") for engine in SIDES[options.engine]}
    if options.store is not None:
        return {store: ("agent", None, store) for store in ("none", options.store)}
    if options.event_log is not None:
        return dict.fromkeys(("OFF", options.event_log), ("agent", options.event_time, "none"))
    if options.event_time == "both":
        return {"none": ("agent", "none", "none"), "hold": ("agent", "hold", "none")}
    engines = ("raw", "agent") if options.engine == "both" else (options.engine,)
    return {engine: (engine, options.event_time, "none") for engine in engines}


def _spec(workload: Workload, engine: str, event_time: str | None, store: str, options: argparse.Namespace) -> RunSpec:
    return RunSpec(
        workload=workload.name,
        engine=engine,
        mode=options.mode,
        n=options.n or workload.n[options.mode],
        keys=options.keys or workload.keys,
        parallelism=options.parallelism,
        event_time=event_time,
        store=store,
        store_url=None if store == "none" else options.store_url,
    )


def _head(spec: RunSpec, workload: Workload) -> dict[str, Any]:
    head: dict[str, Any] = {
        "workload": spec.workload,
        "engine": spec.engine,
        "mode": spec.mode,
        "n": spec.n,
        "keys": spec.keys,
        "parallelism": spec.parallelism,
    }
    if spec.event_time is not None:
        head["event_time"] = spec.event_time
    if spec.store != "none":
        head["store"] = spec.store
    if spec.event_log != "OFF":
        head["event_log"] = spec.event_log
    if spec.engine == "raw" and workload.raw != workload.name:
        head["raw_program"] = workload.raw
    return head


def _print(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)
