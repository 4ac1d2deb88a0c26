"""An MCP server as a program of its own."""

from __future__ import annotations

SERVER = """
from mcp.server import MCPServer

server = MCPServer("tides")


@server.tool()
def tide(place: str) -> str:
    "Say how high the water stands."
    return f"{place}: 3 m"


server.run()
"""
