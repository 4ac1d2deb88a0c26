"""Drives `codex app-server`, the face of Codex that can fork, revert and compact on request.

It speaks JSON-RPC over stdio, one object a line and without the `jsonrpc` member.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Literal

from tests.drivers.codex import CodexCli
from tests.drivers.process import RUN_SECONDS, end_group, piped_process

CLOSE_SECONDS = 10.0

Message = dict[str, Any]


class AppServerError(Exception):
    """The app-server refused a call, asked for something a test cannot answer, or ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn that is over; `error` is Codex's own account of a failure, `text` the last thing the model said."""

    id: str
    status: str
    error: Message | None
    text: str | None = None


class AppServer:
    """One running app-server. Its calls are made one after the other; each gives up after a minute.

    Made by `app_server`. Every method raises AppServerError where Codex refuses, and TimeoutError where it does not answer.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._last_id = 0
        self._unread: list[Message] = []

    async def initialize(self) -> None:
        """Shake hands; nothing else is answered before."""
        client = {"name": "threadkeep-test", "version": "0"}
        await self._call("initialize", {"clientInfo": client, "capabilities": {"experimentalApi": True}})
        await self._send({"method": "initialized"})

    async def start(self, *, cwd: str, history: Literal["paginated", "legacy"] = "paginated") -> str:
        """Begin a thread and return its id."""
        result = await self._call("thread/start", {"cwd": cwd, "historyMode": history})
        return str(result["thread"]["id"])

    async def resume(self, thread_id: str) -> None:
        """Load a thread that another process left behind."""
        await self._call("thread/resume", {"threadId": thread_id})

    async def turn(self, thread_id: str, text: str) -> Turn:
        """Say `text` and return when the turn is over."""
        await self._call("turn/start", {"threadId": thread_id, "input": [{"type": "text", "text": text}]})
        return await self._turn_over(thread_id)

    async def compact(self, thread_id: str) -> Turn:
        """Have Codex compact the thread itself and return when it has."""
        await self._call("thread/compact/start", {"threadId": thread_id})
        return await self._turn_over(thread_id)

    async def fork(self, thread_id: str, *, before_turn: str | None = None) -> str:
        """Branch off, before the named turn or at the end, and return the new thread's id."""
        where = {} if before_turn is None else {"beforeTurnId": before_turn}
        result = await self._call("thread/fork", {"threadId": thread_id, **where})
        return str(result["thread"]["id"])

    async def revert(self, thread_id: str, *, before_turn: str) -> None:
        """Take back the named turn and all after it; only threads with paginated history can."""
        await self._call("thread/revert", {"threadId": thread_id, "beforeTurnId": before_turn})

    async def close(self) -> None:
        """End the app-server by closing its input, and kill its process group if that is not enough."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._process.wait()
        await end_group(self._process)

    async def _call(self, method: str, params: Message) -> Message:
        self._last_id += 1
        wanted = self._last_id
        await self._send({"id": wanted, "method": method, "params": params})
        answer = await self._next(lambda message: "method" not in message and message.get("id") == wanted)
        if "error" in answer:
            raise AppServerError(f"{method}: {answer['error']}")
        result: Message = answer["result"]
        return result

    async def _turn_over(self, thread_id: str) -> Turn:
        def ended(message: Message) -> bool:
            return message.get("method") == "turn/completed" and message["params"]["threadId"] == thread_id

        turn = (await self._next(ended))["params"]["turn"]
        spoken = [
            message["params"]["item"]["text"]
            for message in self._unread
            if message.get("method") == "item/completed"
            and message["params"]["turnId"] == turn["id"]
            and message["params"]["item"]["type"] == "agentMessage"
        ]
        return Turn(id=turn["id"], status=turn["status"], error=turn.get("error"), text=spoken[-1] if spoken else None)

    async def _send(self, message: Message) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        await self._process.stdin.drain()

    async def _next(self, wanted: Callable[[Message], bool]) -> Message:
        """Return the first message that is wanted, and keep those before it: a turn may end before its start is answered."""
        for index, message in enumerate(self._unread):
            if wanted(message):
                return self._unread.pop(index)
        async with asyncio.timeout(RUN_SECONDS):
            while True:
                message = await self._read()
                if wanted(message):
                    return message
                self._unread.append(message)

    async def _read(self) -> Message:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise AppServerError("the app-server ended")
        message: Message = json.loads(line)
        if "method" in message and "id" in message:
            raise AppServerError(f"the app-server asks for {message['method']}, which a test cannot answer")
        return message


@contextlib.asynccontextmanager
async def app_server(codex: CodexCli) -> AsyncIterator[AppServer]:
    """Run an app-server on `codex`'s home, ready for calls; it is gone on leaving, whatever happened."""
    words, log = (str(codex.binary), *codex.words, "app-server"), codex.home / "app-server.log"
    async with piped_process(words, cwd=codex.cwd, environment=codex.environment(), log=log) as process:
        server = AppServer(process)
        await server.initialize()
        yield server
        await server.close()
