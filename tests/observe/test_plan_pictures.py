"""Pictures of plans: what is in them, in each form."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from flink_agents_py import Agent, AgentPlan, Event, InputEvent, OutputEvent, RunnerContext, action
from flink_agents_py.cli import main
from flink_agents_py.observe.plan_graph import graph_of
from flink_agents_py.observe.plan_pictures import as_mermaid, as_svg, as_text


class Priced(Event):
    price: float


class Pricer(Agent):
    @action(InputEvent, on_error="skip")
    @staticmethod
    def price(event: InputEvent, ctx: RunnerContext) -> None:
        ctx.send_event(Priced(price=1.0))
        ctx.send_event(Event(type="audit", attributes={}))

    @action(Priced)
    @staticmethod
    def tell(event: Priced, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(event.price))

    @action("audit")
    @staticmethod
    def audit(event: Event, ctx: RunnerContext) -> None:
        pass


def test_the_graph_knows_who_listens_and_what_the_code_sends():
    graph = graph_of(AgentPlan.from_agent(Pricer()))
    assert [node.label for node in graph.before("action:price", "event")] == ["InputEvent"]
    assert {node.label for node in graph.after("action:price", "event")} == {"Priced", "audit"}
    assert [node.label for node in graph.after("action:tell", "event")] == ["OutputEvent"]


def test_text_names_every_action_with_its_events():
    text = as_text(graph_of(AgentPlan.from_agent(Pricer())))
    assert "price (on_error=skip)\n    listens to: InputEvent\n    sends: Priced, audit" in text


def test_mermaid_has_a_node_for_each_thing_and_an_arrow_for_each_edge():
    graph = graph_of(AgentPlan.from_agent(Pricer()))
    drawn = as_mermaid(graph)
    assert drawn.startswith("flowchart LR\n")
    assert drawn.count(":::event") == 4
    assert drawn.count(":::action") == 3
    assert drawn.count("-->") == len(graph.edges)


def test_svg_is_well_formed_with_boxes_that_do_not_overlap():
    graph = graph_of(AgentPlan.from_agent(Pricer()))
    root = ET.fromstring(as_svg(graph))
    boxes = [(int(box.get("x")), int(box.get("y"))) for box in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(boxes) == len(set(boxes)) == len(graph.nodes)


def test_a_plan_file_and_an_agent_by_name_are_shown_alike(tmp_path, capsys):
    plan = tmp_path / "plan.json"
    main(["plan", "show", "jobs.benchmarks.agents:ChainAgent", "--format", "json", "--out", str(plan)])
    main(["plan", "show", str(plan)])
    from_file = capsys.readouterr().out
    main(["plan", "show", "jobs.benchmarks.agents:ChainAgent"])
    assert capsys.readouterr().out == from_file
    assert main(["plan", "show", "no.such:Agent"]) == 1


def test_conditions_are_told_and_drawn_where_they_say_the_type_of_their_events():
    pytest.importorskip("cel", reason="common-expression-language needs Python 3.11")
    agent = Pricer().add_action("check", ["type == 'audit' && price > 1", "price > 9"], Pricer.tell)
    graph = graph_of(AgentPlan.from_agent(agent))
    assert [node.label for node in graph.before("action:check", "event")] == ["audit"]
    assert graph.nodes["action:check"].detail == "when type == 'audit' && price > 1, when price > 9"
    assert "check (when type == 'audit' && price > 1, when price > 9)" in as_text(graph)
    assert "when price &gt; 9" in as_svg(graph)
