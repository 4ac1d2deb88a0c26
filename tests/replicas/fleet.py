"""Gateways on one database, a provider behind them, and one address before them."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from aiohttp import web

from threadkeep.dialects import Answer, find_dialect

WINDOW = 6_000
PIECE_BYTES = 700
DIALECTS = {"/v1/responses": "responses", "/v1/chat/completions": "chat", "/v1/messages": "messages"}


@asynccontextmanager
async def provider() -> AsyncIterator[str]:
    """A provider that has something long to say to everything, in each language, streamed where it is asked to be."""
    numbers = count()

    async def answer(request: web.Request) -> web.StreamResponse:
        asked, number = await request.json(), next(numbers)
        text = f"Answer {number}: I looked at it, and all of it is fine. " * 60
        answered = Answer(text=text, response_id=f"resp_{number}", message_id=f"msg_{number}", model="m", created_at=1)
        wire = find_dialect(DIALECTS[request.path]).wire
        if not asked.get("stream"):
            return web.Response(body=wire.render_answer(answered), content_type="application/json")
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        body = wire.render_answer_stream(answered)
        for start in range(0, len(body), PIECE_BYTES):
            await response.write(body[start : start + PIECE_BYTES])
        await response.write_eof()
        return response

    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/{rest:.*}", answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Replica:
    """One `threadkeep serve` among several, which may be killed and started again."""

    def __init__(self, store: str, *, upstream: str, folder: Path) -> None:
        upstreams = ("--openai-upstream", upstream, "--anthropic-upstream", upstream)
        flags = ("--auto-compact", "on", "--control-token", "t" * 40, "--access-log", "off")
        self._words = ("serve", "--json", "--port", "0", "--store", store, *upstreams, *flags)
        self._folder = folder
        self.url: str | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("THREADKEEP_")}
        environ |= {"HOME": str(self._folder), "THREADKEEP_MODEL_CONTEXT_WINDOW": str(WINDOW)}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "threadkeep.cli", *self._words),
            stdout=asyncio.subprocess.PIPE,
            cwd=self._folder,
            env=environ,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            line = await self._process.stdout.readline()
        # Nothing where the database was away just then: it gave up, and is to be started again.
        self.url = json.loads(line)["url"] if line else None

    async def kill(self) -> None:
        """Kill it as a power cut would."""
        self.url = None
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Balancer:
    """Hands each connection to one of the gateways that are there, and closes it where none is."""

    def __init__(self, replicas: list[Replica], chance: random.Random) -> None:
        self._replicas = replicas
        self._chance = chance
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._connected(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        living = [replica.url for replica in self._replicas if replica.url is not None]
        try:
            if living:
                port = int(self._chance.choice(living).rpartition(":")[2].strip("/"))
                back, forth = await asyncio.open_connection("127.0.0.1", port)
                try:
                    await self._carried((reader, forth), (back, writer))
                finally:
                    forth.close()
        except OSError:
            # It died between being chosen and being asked; its client asks again.
            pass
        finally:
            writer.close()

    async def _carried(self, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        """Carry bytes both ways until one side has no more, or is gone."""

        async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while piece := await source.read(1 << 16):
                sink.write(piece)
                await sink.drain()

        tasks = [asyncio.create_task(carry(*way)) for way in ways]
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
