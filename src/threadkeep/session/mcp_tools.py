"""Tools of MCP servers, through the protocol's own SDK (extra `mcp`)."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from threadkeep.errors import InvalidArgument, MissingExtra
from threadkeep.session.tools import Tool

if TYPE_CHECKING:
    from mcp import Client
    from mcp.server import MCPServer
    from mcp.types import CallToolResult


@asynccontextmanager
async def mcp_tools(server: str | MCPServer, *, environ: Mapping[str, str] | None = None) -> AsyncIterator[list[Tool]]:
    """Connect to an MCP server and yield its tools, which work until the context ends.

    Args:
        server: Its URL, a command line that starts it, or a server object in this process.
        environ: The environment of a server that is started; None takes the SDK's safe subset.

    Raises:
        MissingExtra: The SDK is not installed.
        InvalidArgument: The server cannot be started, reached or understood.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("an MCP server", extra="mcp")
    from mcp import MCPError

    client = _make_client(server, environ=environ)
    try:
        await client.__aenter__()
    except (MCPError, OSError, ValueError, ExceptionGroup) as error:
        text = f"the MCP server {_name_server(server)!r} cannot be used: {_explain(error)}; check its URL or command"
        raise InvalidArgument("server", text) from error
    try:
        listed, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            listed += page.tools
            if (cursor := page.next_cursor) is None:
                break
        yield [_make_tool(client, tool.name, tool.description or tool.name, tool.input_schema) for tool in listed]
    finally:
        await client.__aexit__(None, None, None)


def _make_client(server: str | MCPServer, *, environ: Mapping[str, str] | None) -> Client:
    from mcp import Client, StdioServerParameters

    if not isinstance(server, str) or server.startswith(("http://", "https://")):
        return Client(server)
    command, *arguments = shlex.split(server) or [""]
    return Client(StdioServerParameters(command=command, args=arguments, env=None if environ is None else dict(environ)))


def _make_tool(client: Client, name: str, description: str, schema: Mapping[str, object]) -> Tool:
    async def run(given: dict[str, Any]) -> str:
        result = await client.call_tool(name, given)
        if result.is_error:
            raise RuntimeError(_render_result(result))
        return _render_result(result)

    return Tool(name=name, description=description, schema=schema, run=run)


def _render_result(result: CallToolResult) -> str:
    """Return the output of a tool: texts as they are, other content as JSON."""
    return "\n".join(block.text if block.type == "text" else block.model_dump_json(by_alias=True) for block in result.content)


def _name_server(server: str | MCPServer) -> str:
    return server if isinstance(server, str) else server.name


def _explain(error: Exception) -> str:
    """Return the text of the first error in a group."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
