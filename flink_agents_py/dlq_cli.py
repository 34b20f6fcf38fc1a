"""``flink-agents-py dlq``: list, show and replay dead letters of external actions."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from flink_agents_py.config import ConfigOption
from flink_agents_py.dlq import DeadLetter, Letters, Selection, calls_to_replay
from flink_agents_py.errors import DeadLetterFileError
from flink_agents_py.external import ActionCall, ActionRegistry, ActionResult

_AGE = ConfigOption("--since", int, 0, unit="ms", minimum=0)
_BROKEN_SHOWN = 5
_MESSAGE_WIDTH = 60


def add_commands(groups: Any) -> None:
    """Add ``dlq`` to the command line."""
    dlq = groups.add_parser(
        "dlq",
        help="dead letters of external actions",
        description="Dead letters in files: what a "
        "sink wrote, one JSON object a line. A folder stands for all its files.",
    )
    commands = dlq.add_subparsers(required=True, metavar="list | show | replay")

    listing = commands.add_parser("list", help="one line for each")
    _add_selection(listing)
    listing.add_argument("--json", action="store_true", help="the letters themselves, JSON lines with an id")
    listing.set_defaults(run=_list)

    show = commands.add_parser("show", help="everything about one")
    show.add_argument("id", metavar="ID", help="as `list` shows it, or the beginning of it")
    show.add_argument("files", nargs="+", type=Path, metavar="FILE")
    show.set_defaults(run=_show)

    replay = commands.add_parser(
        "replay",
        help="make the calls again",
        description="Writes the calls of dead letters as JSON lines for a job to read (`--to`), or makes them here "
        "and now with the handlers of a registry (`--registry`). Calls keep their trace id and thus their idempotency "
        "key. A call with several letters is replayed once. The files are not changed.",
    )
    _add_selection(replay)
    replay.add_argument("--id", dest="ids", action="append", default=[], metavar="ID", help="only this one; repeatable")
    replay.add_argument("--to", type=Path, metavar="FILE", help="append the calls to this file (default: stdout)")
    replay.add_argument("--registry", metavar="MODULE:ATTR", help="an ActionRegistry, or a function that returns one")
    replay.add_argument("--failed", type=Path, metavar="FILE", help="with --registry: append what fails again")
    replay.add_argument("--skip-broken", action="store_true", help="replay the rest if lines are broken")
    replay.set_defaults(run=_replay)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--action", action="append", default=[], help="only this action; repeatable")
    parser.add_argument("--code", action="append", default=[], help="only this code, such as TIMEOUT_READ; repeatable")
    parser.add_argument("--trace", action="append", default=[], metavar="ID", help="only this trace id; repeatable")
    parser.add_argument("--since", metavar="AGE", help="only what failed within this time, such as 24h")


def _selected(options: argparse.Namespace, found: Letters) -> list[DeadLetter]:
    since_ms = 0
    if options.since is not None:
        since_ms = time.time_ns() // 1_000_000 - _AGE.parse(options.since, "the command line")
    return Selection(options.action, options.code, options.trace, getattr(options, "ids", ()), since_ms).of(
        found.letters
    )


# --- list -------------------------------------------------------------------------------------------------------------


def _list(options: argparse.Namespace) -> int:
    found = Letters.read(options.files)
    letters = _selected(options, found)
    if options.json:
        for letter in letters:
            print(_line({"id": letter.id, **letter.failed.to_plain()}))
    elif letters:
        _print_table([_row(letter) for letter in letters])
    counts = Counter(letter.failed.code for letter in letters)
    totals = ", ".join(f"{count} {code}" for code, count in counts.most_common())
    _say(f"{len(letters)} of {len(found.letters)} dead letters" + (f": {totals}" if totals else ""))
    if found.others:
        _say(f"{found.others} more are of agents' own actions, not of external ones")
    _report_broken(found.broken)
    return 1 if found.broken else 0


def _row(letter: DeadLetter) -> tuple[str, ...]:
    failed = letter.failed
    message = " ".join(failed.message.split())
    if len(message) > _MESSAGE_WIDTH:
        message = message[: _MESSAGE_WIDTH - 3] + "..."
    return (
        letter.id,
        _moment(failed.failed_ms),
        failed.call.action or "-",
        str(failed.call.trace_id) or "-",
        failed.code,
        failed.phase,
        str(failed.attempts),
        message,
    )


def _print_table(rows: list[tuple[str, ...]]) -> None:
    rows = [("ID", "FAILED", "ACTION", "TRACE", "CODE", "PHASE", "ATTEMPTS", "MESSAGE"), *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


# --- show -------------------------------------------------------------------------------------------------------------


def _show(options: argparse.Namespace) -> int:
    found = Letters.read(options.files)
    matching = Selection(ids=[options.id]).of(found.letters)
    if len(matching) != 1:
        raise DeadLetterFileError(
            f"{len(matching) or 'no'} dead letter{'s' if len(matching) > 1 else ''} with an id that begins with "
            f"{options.id!r}",
            fix="give more of the id" if matching else "`flink-agents-py dlq list` shows the ids",
        )
    (letter,) = matching
    _print_letter(letter)
    _report_broken(found.broken)
    return 0


def _print_letter(letter: DeadLetter) -> None:
    failed = letter.failed
    caller = " / ".join(part for part in (failed.agent, failed.action_of) if part)
    for name, value in (
        ("id", letter.id),
        ("found in", letter.place),
        ("action", failed.call.action),
        ("trace id", failed.call.trace_id),
        ("sequence", failed.call.sequence),
        ("target", failed.target),
        ("code", failed.code),
        ("phase", failed.phase),
        ("attempts", failed.attempts),
        ("began", _moment(failed.started_ms)),
        ("given up", _moment(failed.failed_ms)),
        ("idempotency key", failed.idempotency_key),
        ("spec", f"version {failed.version} ({failed.spec})" if failed.spec else ""),
        ("called by", caller),
        ("key", failed.key),
    ):
        if value not in ("", None):
            print(f"{name + ':':<17}{value}")
    print("params:")
    print(_indented(json.dumps(failed.call.to_plain()["params"], ensure_ascii=False, indent=2)))
    print("errors:" if failed.errors else f"error:           {failed.message}")
    for error in failed.errors:
        print(f"  attempt {error.attempt}, {_moment(error.at_ms)}: {error.code} ({error.error})")
        print(_indented(error.message, "    "))
        if error.detail is not None:
            print(f"    {json.dumps(error.to_plain()['detail'], ensure_ascii=False)}")


# --- replay -----------------------------------------------------------------------------------------------------------


def _replay(options: argparse.Namespace) -> int:
    if options.registry is not None and options.to is not None:
        raise DeadLetterFileError("--to and --registry are two ways to replay", fix="give one of them")
    if options.failed is not None and options.registry is None:
        raise DeadLetterFileError("--failed goes with --registry", fix="leave it out: --to makes no calls")
    found = Letters.read(options.files)
    if found.broken and not options.skip_broken:
        _report_broken(found.broken)
        raise DeadLetterFileError(
            f"{len(found.broken)} lines are no dead letters, so nothing was replayed",
            fix="repair or remove them, or give --skip-broken to replay the rest",
        )
    calls, left_out = calls_to_replay(_selected(options, found))
    for reason in left_out:
        _say(f"left out: {reason}")
    if options.registry is not None:
        return _make(calls, _registry(options.registry), options.failed)
    text = "".join(_line(call.to_plain()) + "\n" for call in calls)
    if options.to is None:
        sys.stdout.write(text)
    else:
        with options.to.open("a", encoding="utf-8") as file:
            file.write(text)
    _say(f"{len(calls)} calls written" + (f" to {options.to}" if options.to else ""))
    return 0


def _registry(path: str) -> ActionRegistry:
    module, _, attribute = path.partition(":")
    try:
        if not attribute:
            raise ImportError("it is not of the form module:attr")
        # As `python -m` does: handlers of the user's project lie where the command is given.
        if "" not in sys.path:
            sys.path.insert(0, "")
        registry: Any = importlib.import_module(module)
        for name in attribute.split("."):
            registry = getattr(registry, name)
        if not isinstance(registry, ActionRegistry) and callable(registry):
            registry = registry()
    except Exception as error:
        raise DeadLetterFileError(
            f"the registry {path!r} cannot be had: {type(error).__name__}: {error}",
            fix="name an ActionRegistry, or a function without arguments that returns one, as module:attr",
        ) from error
    if not isinstance(registry, ActionRegistry):
        raise DeadLetterFileError(f"{path!r} is a {type(registry).__name__}", fix="name an ActionRegistry")
    return registry


def _make(calls: list[ActionCall], registry: ActionRegistry, failed_file: Path | None) -> int:
    from flink_agents_py.environment import AgentsExecutionEnvironment

    inputs = [{"key": call.trace_id, "value": call} for call in calls]
    made = AgentsExecutionEnvironment.get_execution_environment().from_list(inputs).execute_actions(registry)
    for result in made.results:
        print(_result(result))
    failed = made.dead_letters
    if failed_file is not None and failed:
        with failed_file.open("a", encoding="utf-8") as file:
            file.writelines(_line(letter.to_plain()) + "\n" for letter in failed)
    _say(f"{len(calls) - len(failed)} of {len(calls)} calls done, {len(failed)} failed again")
    return 1 if failed else 0


def _result(result: ActionResult) -> str:
    line = {"code": result.code, "action": result.action, "trace_id": result.trace_id, "attempts": result.attempts}
    if not result.ok:
        line["message"] = result.message
    return _line(line)


# --- output -----------------------------------------------------------------------------------------------------------


def _line(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _moment(milliseconds: int) -> str:
    return (
        datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="milliseconds")
        if milliseconds
        else "-"
    )


def _indented(text: str, by: str = "  ") -> str:
    return "\n".join(by + line for line in text.splitlines())


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _report_broken(broken: list[str]) -> None:
    for reason in broken[:_BROKEN_SHOWN]:
        _say(f"broken: {reason}")
    if len(broken) > _BROKEN_SHOWN:
        _say(f"broken: ... and {len(broken) - _BROKEN_SHOWN} more lines")
