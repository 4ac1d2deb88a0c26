"""The server over stdin and stdout, as a client starts it."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from threadkeep.mcp.desk import Desk
from threadkeep.mcp.server import Context, make_server


async def serve_stdio(desk: Desk, *, read_only: bool = False) -> None:
    """Answer the client on the other end of stdin until it closes it. Nothing else may be printed meanwhile."""

    async def desk_of(_: Context) -> Desk:
        return desk

    server = make_server(desk_of, read_only=read_only)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
