"""Tools of MCP servers, through the protocol's own SDK (extra `mcp`)."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from threadkeep.errors import BadInput
from threadkeep.session.tools import Tool

if TYPE_CHECKING:
    from mcp import Client
    from mcp.server import MCPServer
    from mcp.types import CallToolResult

MISSING = "MCP servers need an extra that is not installed; pip install 'threadkeep[mcp]'"


@asynccontextmanager
async def mcp_tools(server: str | MCPServer, *, environ: Mapping[str, str] | None = None) -> AsyncIterator[list[Tool]]:
    """Connect to an MCP server and yield its tools, which work as long as the context lasts.

    Args:
        server: Its URL, a command line that starts it, or, in this process, a server itself.
        environ: The environment of one that is started; what the SDK takes for safe, if None.

    Raises:
        BadInput: The extra is missing, or the server cannot be started, reached or understood.
    """
    if find_spec("mcp") is None:
        raise BadInput(MISSING)
    from mcp import MCPError

    client = _client(server, environ=environ)
    try:
        await client.__aenter__()
    except (MCPError, OSError, ValueError, ExceptionGroup) as error:
        raise BadInput(f"the MCP server {_name(server)!r} cannot be used: {_reason(error)}") from error
    try:
        listed, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            listed += page.tools
            if (cursor := page.next_cursor) is None:
                break
        yield [_tool(client, tool.name, tool.description or tool.name, tool.input_schema) for tool in listed]
    finally:
        await client.__aexit__(None, None, None)


def _client(server: str | MCPServer, *, environ: Mapping[str, str] | None) -> Client:
    from mcp import Client, StdioServerParameters

    if not isinstance(server, str) or server.startswith(("http://", "https://")):
        return Client(server)
    command, *arguments = shlex.split(server) or [""]
    return Client(StdioServerParameters(command=command, args=arguments, env=None if environ is None else dict(environ)))


def _tool(client: Client, name: str, description: str, schema: Mapping[str, Any]) -> Tool:
    async def run(given: dict[str, Any]) -> str:
        result = await client.call_tool(name, given)
        if result.is_error:
            raise RuntimeError(_text(result))
        return _text(result)

    return Tool(name=name, description=description, schema=schema, run=run)


def _text(result: CallToolResult) -> str:
    """Return what a tool returned: its texts, and anything else as the JSON it came as."""
    return "\n".join(block.text if block.type == "text" else block.model_dump_json(by_alias=True) for block in result.content)


def _name(server: str | MCPServer) -> str:
    return server if isinstance(server, str) else server.name


def _reason(error: Exception) -> str:
    """Return the first thing that went wrong, in its own words."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
