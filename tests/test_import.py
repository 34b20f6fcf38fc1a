"""What ``import flink_agents_py`` costs, and what it does not import."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.flink import say

OPTIONAL = {
    *("openai", "anthropic", "ollama", "mcp", "httpx", "httpx2", "aiohttp", "docstring_parser", "jsonschema"),
    *("sqlite_vec", "psycopg", "redis", "confluent_kafka", "model2vec", "numpy", "xllamacpp", "opentelemetry"),
    *("cel", "ruamel"),
    "pyflink",
}
PROGRAM = """
import importlib, json, sys, time
def resident():
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0  # not on Linux
before, began = resident(), time.process_time()
import flink_agents_py
seconds, taken = time.process_time() - began, resident() - before
agent = flink_agents_py.ReActAgent(
    chat_model=flink_agents_py.ResourceDescriptor(
        flink_agents_py.ResourceName.ChatModel.OPENAI_COMPLETIONS_SETUP, connection="c", model="m"
    )
)
for name, clazz, arguments in [
    ("c", flink_agents_py.ResourceName.ChatModel.OPENAI_COMPLETIONS_CONNECTION, {}),
    ("a", flink_agents_py.ResourceName.ChatModel.ANTHROPIC_CONNECTION, {}),
    ("o", flink_agents_py.ResourceName.ChatModel.OLLAMA_CONNECTION, {}),
]:
    descriptor = flink_agents_py.ResourceDescriptor(clazz, **arguments)
    agent.add_resource(name, flink_agents_py.ResourceType.CHAT_MODEL_CONNECTION, descriptor)
flink_agents_py.AgentPlan.from_agent(agent)
names = flink_agents_py.ResourceName
for text in [names.MCP_SERVER, *vars(names.EmbeddingModel).values(), *vars(names.VectorStore).values()]:
    if isinstance(text, str) and text.startswith("flink_agents_py.ext."):
        importlib.import_module(text.partition(":")[0])
print(json.dumps({"seconds": seconds, "bytes": taken, "modules": sorted(sys.modules)}))
"""


def test_neither_importing_nor_compiling_imports_an_sdk():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=100)
    report = json.loads(done.stdout)
    loaded = {module.partition(".")[0] for module in report["modules"]}
    assert loaded & OPTIONAL == set()
    say(
        f"import flink_agents_py: {report['seconds']:.2f} s of CPU, {report['bytes'] / 2**20:.0f} MiB, "
        f"{len(report['modules'])} modules in all"
    )
