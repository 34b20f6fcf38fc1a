"""An MCP server that knows about shipping; ``react_support`` starts it on its workers and talks to it over stdio."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

DAYS = {"oslo": 2, "lima": 6}

server = MCPServer("shipping")


@server.tool()
def shipping_days(city: str) -> int:
    """How many days a parcel takes to a city."""
    if city.lower() not in DAYS:
        raise ToolError(f"we do not ship to {city}")
    return DAYS[city.lower()]


if __name__ == "__main__":
    server.run("stdio")
