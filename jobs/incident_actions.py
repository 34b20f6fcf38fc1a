"""Incidents in, measures out: an agent pages people, opens tickets, restarts services; where one fails, another way.

Usage::

    python jobs/incident_actions.py --output out/incidents

The services it calls run on loopback, in this very process, and have bad days (see ``incident_service.py``). Incidents
are JSON lines with ``incident_id``, ``service``, ``kind``, ``severity`` (``low``, ``high``, ``critical``) and ``text``:
those of ``--input``, or some made up here. ``OUTPUT`` gets folders of JSON lines: ``measures`` (what the agent did and
why), ``results`` and ``dead-letters`` of the external actions, and their ``audit``. Then::

    flink-agents-py dlq list out/incidents/dead-letters
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field
from pyflink.common import Configuration, Types
from pyflink.datastream import StreamExecutionEnvironment
from rich.console import Console

from flink_agents_py import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, RunnerContext, action
from flink_agents_py.external import (
    ActionCall,
    ActionCode,
    ActionFailedEvent,
    ActionRegistry,
    ActionRetry,
    ActionSession,
    ActionSpec,
    ActionTimeouts,
)
from flink_agents_py.flink.json_lines import write_json_lines

# `flink run -py` starts a link to this file elsewhere; see review_analysis.py.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from jobs.incident_report import FOLDERS, Report
from jobs.incident_service import IncidentService

LONGEST_TITLE = 60

# --- the external actions ---------------------------------------------------------------------------------------------


class Page(BaseModel):
    """Wake somebody up."""

    service: str
    text: str


class Ticket(BaseModel):
    """Work for office hours."""

    service: str
    title: str = Field(max_length=LONGEST_TITLE)


class Restart(BaseModel):
    """Restart all instances of a service."""

    service: str


class Message(BaseModel):
    """A message to the channel of the team."""

    channel: str
    text: str


PATHS = {"page": "/pages", "open_ticket": "/tickets", "restart": "/restarts", "tell_team": "/chat"}
PARAMETERS: dict[str, type[BaseModel]] = {
    "page": Page,
    "open_ticket": Ticket,
    "restart": Restart,
    "tell_team": Message,
}


async def post(call: ActionCall, session: ActionSession) -> Any:
    """All four actions: a POST with the parameters; what goes wrong comes sorted from ``session.http``."""
    response = await session.http.post(PATHS[call.action], json=call.params)
    return response.result()


def registry_of(url: str) -> ActionRegistry:
    """The four actions against the service at ``url``, with little patience, as this is a demonstration."""
    registry = ActionRegistry()
    for name, parameters in PARAMETERS.items():
        registry.register(
            ActionSpec(
                name=name,
                description=parameters.__doc__ or "",
                parameters=parameters,
                target=url,
                timeouts=ActionTimeouts(connect=1, read=1, total=15),
                retry=ActionRetry(initial=0.2),
                max_concurrent=5,
                rate_per_s=50,
            ),
            post,
        )
    return registry


# --- the agent --------------------------------------------------------------------------------------------------------


class IncidentDesk(Agent):
    """Keyed by service. The trace id is the incident's, so an incident that is reported twice is acted on once."""

    @action(InputEvent)
    @staticmethod
    async def decide(event: InputEvent, ctx: RunnerContext) -> None:
        """Take the measures an incident calls for, all at once."""
        incident = event.input
        memory = ctx.short_term_memory
        count = (memory.get("incidents") or 0) + 1
        memory.set("incidents", count)
        measures = measures_for(incident, count)
        results = await ctx.gather(
            *(ctx.call(name, params, trace_id=incident["incident_id"]) for name, params in measures)
        )
        for (name, _), result in zip(measures, results, strict=True):
            ctx.send_event(OutputEvent(measure(ctx.key, incident["incident_id"], name, result.code, "the incident")))

    @action(ActionFailedEvent)
    @staticmethod
    async def find_another_way(event: ActionFailedEvent, ctx: RunnerContext) -> None:
        """What was given up is replaced by something else, as long as there is something."""
        failed = event.failed
        instead = instead_of(failed.call, failed.code)
        trace = failed.call.trace_id
        why = f"{failed.call.action}: {failed.code}"
        if instead is None:
            ctx.send_event(OutputEvent(measure(ctx.key, trace, "give_up", "", why)))
            return
        name, params = instead
        result = await ctx.call(name, params, trace_id=trace)
        ctx.send_event(OutputEvent(measure(ctx.key, trace, name, result.code, why)))


def measures_for(incident: dict[str, Any], count: int) -> list[tuple[str, dict[str, Any]]]:
    """What to do about an incident, the ``count``-th of its service."""
    service, text = incident["service"], incident["text"]
    about = f"{incident['kind']} of {service}: {text}"
    if incident["severity"] == "critical":
        measures = [("restart", {"service": service}), ("page", {"service": service, "text": about})]
    elif incident["severity"] == "high":
        measures = [("open_ticket", {"service": service, "title": about})]
    else:
        measures = [("tell_team", {"channel": f"#{service}", "text": about})]
    if count == 3:  # noqa: PLR2004 - people want to hear of it when it becomes a habit
        measures.append(("tell_team", {"channel": f"#{service}", "text": f"third incident of {service}"}))
    return measures


def instead_of(call: ActionCall, code: str) -> tuple[str, dict[str, Any]] | None:
    """Another way for a call that failed, ``None`` if there is none."""
    params = call.params
    if code == ActionCode.INVALID_CALL:
        title = str(params.get("title", ""))
        return ("open_ticket", {**params, "title": f"{title[: LONGEST_TITLE - 3]}..."}) if title else None
    if call.action == "restart":
        return "page", {"service": params["service"], "text": f"{params['service']} needs a restart by hand ({code})"}
    if call.action == "page":
        return "tell_team", {"channel": "#on-call", "text": f"nobody could be paged: {params['text']}"}
    return None


def measure(service: str, incident: str, name: str, code: str, why: str) -> dict[str, str]:
    """A line of ``measures``."""
    return {"service": service, "incident": incident, "measure": name, "code": code, "because_of": why}


# --- the job ----------------------------------------------------------------------------------------------------------


def made_up(count: int) -> list[dict[str, Any]]:
    """Incidents; the same every time, and the last one a repetition of the first."""
    lots = random.Random(7)  # noqa: S311 - no secret
    services = ["checkout", "search", "legacy-billing", "login", "legacy-mail"]
    texts = {
        "crash loop": "exit code 137",
        "disk full": "less than 2 % left on /var, growing by a gigabyte an hour since midnight",
        "slow": "p99 above 3 s",
        "certificate": "ends in 6 days",
    }
    incidents = []
    for number in range(1, count):
        kind = lots.choice(list(texts))
        severity = {"crash loop": "critical", "disk full": "high", "slow": "high", "certificate": "low"}[kind]
        incidents.append(
            {
                "incident_id": f"INC-{number:04}",
                "service": lots.choice(services),
                "kind": kind,
                "severity": severity,
                "text": texts[kind],
            }
        )
    return [*incidents, incidents[0]] if incidents else []


def run(incidents: list[dict[str, Any]], url: str, options: argparse.Namespace) -> None:
    """Build the pipeline, run it, wait for its end."""
    flink = Configuration()
    if options.mode:
        flink.set_string("python.execution-mode", options.mode)
    flink.set_string("execution.checkpointing.interval", "2 s")
    env = StreamExecutionEnvironment.get_execution_environment(flink)
    env.set_parallelism(options.parallelism)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    stream = env.from_collection(incidents).name("incidents")
    desk = agents.from_datastream(stream, lambda incident: incident["service"], Types.STRING(), event_time=False).apply(
        IncidentDesk().add_action_registry(registry_of(url))
    )
    streams = {
        "measures": desk.to_datastream(Types.PICKLED_BYTE_ARRAY()),
        "results": desk.side_output("action-results"),
        "dead-letters": desk.side_output("dead-letters"),
        "audit": desk.side_output("action-audit"),
    }
    for name, records in streams.items():
        write_json_lines(records, options.output / name, name)
    agents.execute("incident actions")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and show what it did; 0 if it ended well."""
    parser = argparse.ArgumentParser(
        prog="incident_actions", description="Act on incidents, against services that fail.", allow_abbrev=False
    )
    parser.add_argument("--input", type=Path, help="JSON lines of incidents (default: some made up)")
    parser.add_argument("--incidents", type=int, default=40, metavar="N", help="how many to make up (%(default)s)")
    parser.add_argument("--output", type=Path, required=True, help="folder; what an earlier run left there is replaced")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--mode", choices=("thread", "process"), help="of Python; default: what works best here")
    options = parser.parse_args(arguments)
    if options.input is not None and not options.input.is_file():
        parser.error(f"--input {options.input}: there is no such file")
    incidents = made_up(options.incidents) if options.input is None else read_incidents(options.input, parser)
    for folder in FOLDERS:
        shutil.rmtree(options.output / folder, ignore_errors=True)
    with IncidentService() as service:
        run(incidents, service.url, options)
        Report.read(options.output).show(Console(), options.output, service)
    return 0


def read_incidents(path: Path, parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """The incidents of a file; a line that is none ends the process with code 2 and says which."""
    incidents = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            incident = json.loads(line)
            missing = [name for name in ("incident_id", "service", "kind", "severity", "text") if not incident[name]]
        except (ValueError, KeyError, TypeError) as error:
            parser.error(f"{path}:{number}: {type(error).__name__}: {error}")
        if missing:
            parser.error(f"{path}:{number}: empty: {', '.join(missing)}")
        incidents.append(incident)
    return incidents


if __name__ == "__main__":
    sys.exit(main())
