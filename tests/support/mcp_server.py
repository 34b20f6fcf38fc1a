"""A real MCP server on the official SDK, as a program: ``mcp_server.py stdio`` or ``mcp_server.py http PORT``.

``LEDGER`` (environment), if set, is a file that gets a line for each call of ``add``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("calculator")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    if "LEDGER" in os.environ:
        with Path(os.environ["LEDGER"]).open("a") as ledger:
            ledger.write(f"{a}+{b}\n")
    return a + b


@server.tool()
def pid() -> int:
    """The process that answers."""
    return os.getpid()


@server.tool()
def refuse(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool()
async def wait(seconds: float) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "waited"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}."


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
