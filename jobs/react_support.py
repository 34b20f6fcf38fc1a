"""Answer customers: a ReAct agent with three tools of its own and those of an MCP server that the job starts.

Usage::

    python jobs/react_support.py                          # a rule-based model, no service and no key needed
    python jobs/react_support.py --model openai:NAME      # OPENAI_API_KEY in the environment of the workers

Each customer's questions are answered in their order, different customers' side by side. Needs the extras ``openai``
(or ``anthropic``, ``ollama``) and ``mcp``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from pyflink.common import Configuration, Row, Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from rich.console import Console
from rich.table import Table

from flink_agents_py import (
    AgentsExecutionEnvironment,
    ChatMessage,
    InjectedArg,
    Prompt,
    ReActAgent,
    ResourceDescriptor,
    ResourceName,
    ResourceType,
    Tool,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from jobs.review_cli import model_name
from jobs.review_model import model_resources
from jobs.support_model import demo_model

QUESTIONS = [
    ("ann", "Where is order 17?"),
    ("ben", "How long does shipping take to Oslo?"),
    ("ann", "My order 17 came damaged, what now?"),
    ("cid", "How long does shipping take to Atlantis?"),
    ("dee", "Hello?"),
    ("ben", "Where is order 99?"),
]
ORDERS = {17: "delivered yesterday", 18: "on its way"}

PROMPT = Prompt.from_messages(
    [
        ChatMessage.system("You answer customers of a web shop in one sentence. Look up facts with the tools."),
        ChatMessage.user("{question}"),
    ]
)


# --- the tools --------------------------------------------------------------------------------------------------------


def order_status(order_id: int) -> str:
    """Tell where an order is.

    Args:
        order_id: the number of the order
    """
    if order_id not in ORDERS:
        raise LookupError(f"there is no order {order_id}")
    return f"order {order_id} is {ORDERS[order_id]}"


async def refund_policy(reason: str) -> str:
    """Tell whether and when money is paid back.

    Args:
        reason: why the customer wants it, in one word
    """
    return "you get your money back within 5 days" if reason == "damaged" else "you can return it within 30 days"


def open_ticket(summary: str, team: str, idempotency_key: str) -> str:
    """Open a ticket for a human.

    Args:
        summary: what it is about
    """
    # A ticket system that is given the same key twice, after a crash say, keeps one ticket.
    return f"ticket {idempotency_key[:6]} ({summary.split('.', maxsplit=1)[0]}) is with {team}"


# --- the job ----------------------------------------------------------------------------------------------------------


def support_agent() -> ReActAgent:
    """The agent; its model and MCP server are resources of the environment."""
    agent = ReActAgent(chat_model="judge", prompt=PROMPT, on_error="dead_letter")
    agent.add_resource("order_status", ResourceType.TOOL, Tool.from_callable(order_status))
    agent.add_resource("refund_policy", ResourceType.TOOL, Tool.from_callable(refund_policy))
    team = {"team": InjectedArg.from_config("support.team")}  # not for the model to say
    agent.add_resource("open_ticket", ResourceType.TOOL, Tool.from_callable(open_ticket, injected_args=team))
    return agent


def build(options: argparse.Namespace, base_url: str | None) -> DataStream:
    """The stream of answers."""
    flink = Configuration()
    if options.mode:
        flink.set_string("python.execution-mode", options.mode)
    env = StreamExecutionEnvironment.get_execution_environment(flink)
    env.set_parallelism(1)
    agents_env = AgentsExecutionEnvironment.get_execution_environment(env)
    agents_env.get_config().set("support.team", "returns")
    server = str(Path(__file__).resolve().parent / "support_server.py")
    shipping = ResourceDescriptor(ResourceName.MCP_SERVER, command=sys.executable, args=[server])
    agents_env.add_resource("shipping", ResourceType.MCP_SERVER, shipping)
    tools = ["order_status", "refund_policy", "open_ticket", "mcp:shipping"]
    for name, kind, descriptor in model_resources(options.model or "openai:demo", base_url):
        if kind is ResourceType.CHAT_MODEL:
            descriptor.arguments["tools"] = tools
        agents_env.add_resource(name, kind, descriptor)
    asked = Types.ROW_NAMED(["customer", "question"], [Types.STRING(), Types.STRING()])
    questions = env.from_collection([Row(*question) for question in QUESTIONS], asked)
    answers: DataStream = (
        agents_env.from_datastream(questions, lambda asked: asked[0], key_type=Types.STRING())
        .apply(support_agent())
        .to_datastream(Types.STRING())
    )
    return answers


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; 0 if every question was answered."""
    parser = argparse.ArgumentParser(prog="react_support", description="Answer customers with a ReAct agent.")
    parser.add_argument("--model", type=model_name, help="openai:NAME | anthropic:NAME | ollama:NAME (default: rules)")
    parser.add_argument("--base-url", help="of the model's server, if it is not its maker's own")
    parser.add_argument("--mode", choices=("thread", "process"), help="how Flink runs Python (default: what works)")
    options = parser.parse_args(arguments)
    model = demo_model() if options.model is None else nullcontext(options.base_url)
    with model as base_url, build(options, base_url).execute_and_collect("react support") as results:
        answers = list(results)
    table = Table("answers", title=f"{len(answers)} of {len(QUESTIONS)} questions answered")
    for answer in sorted(answers):
        table.add_row(answer)
    Console().print(table)
    return 0 if len(answers) == len(QUESTIONS) else 1


if __name__ == "__main__":
    sys.exit(main())
