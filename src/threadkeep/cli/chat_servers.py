"""MCP servers that stay connected while a person types."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from threadkeep.session import Tool
from threadkeep.session.mcp_tools import mcp_tools


class Servers:
    """Connections that one task enters and leaves, whoever asks for it: the protocol's SDK insists on that."""

    def __init__(self) -> None:
        self._leave = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None

    async def connect(self, servers: Sequence[str]) -> list[Tool]:
        """Connect to all of them and return their tools.

        Raises:
            BadInput: One of them cannot be used; none is connected then.
        """
        tools: asyncio.Future[list[Tool]] = asyncio.get_running_loop().create_future()
        self._holding = asyncio.create_task(self._hold(servers, tools))
        await asyncio.wait((self._holding, tools), return_when=asyncio.FIRST_COMPLETED)
        if self._holding.done():
            await self._holding
        return await tools

    async def close(self) -> None:
        """Let go of every connection."""
        self._leave.set()
        if self._holding is not None:
            await asyncio.wait((self._holding,))

    async def _hold(self, servers: Sequence[str], tools: asyncio.Future[list[Tool]]) -> None:
        async with AsyncExitStack() as connected:
            found = [tool for server in servers for tool in await connected.enter_async_context(mcp_tools(server))]
            tools.set_result(found)
            await self._leave.wait()
