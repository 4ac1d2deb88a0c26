"""Every client behind one face: a conversation that a test leads, whatever the client's own way of being led."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.drivers.claude_code import ClaudeCode
from tests.drivers.codex import CodexCli
from tests.drivers.codex_app_server import AppServer, app_server
from tests.drivers.opencode import Opencode, opencode_server
from tests.drivers.opencode import Wire as OpencodeWire
from tests.drivers.pi import Pi, pi_process
from tests.drivers.pi import Wire as PiWire


class Talk(Protocol):
    """One conversation. Turns are counted from 1, the ones the gateway answers included."""

    async def say(self, text: str) -> str | None:
        """Say something and return the answer; None where the client reports a failure."""
        ...

    async def fork(self, *, before: int | None = None) -> Talk:
        """Return another conversation that shares everything, or everything before a turn."""
        ...

    async def revert(self, *, to: int) -> None:
        """Take back a turn and everything after it."""
        ...

    async def compact(self) -> None:
        """Have the client compact the conversation in its own way."""
        ...


class Opening(Protocol):
    """Opens a client in a folder, at a base URL: for a new conversation, or for one it left in a process that is gone."""

    def __call__(self, folder: Path, base_url: str, left: Talk | None = None) -> AbstractAsyncContextManager[Talk]: ...


class Unable(Exception):
    """The client has no such ability; a test that asks for it all the same is wrong."""


@dataclass(slots=True)
class OpencodeTalk:
    server: Opencode
    session_id: str
    said: list[str] = field(default_factory=list)

    async def say(self, text: str) -> str | None:
        turn = await self.server.turn(self.session_id, text)
        self.said.append(turn.message_id)
        return None if turn.error else turn.text

    async def fork(self, *, before: int | None = None) -> Talk:
        place = None if before is None else self.said[before - 1]
        return OpencodeTalk(self.server, await self.server.fork(self.session_id, before=place))

    async def revert(self, *, to: int) -> None:
        await self.server.revert(self.session_id, to=self.said[to - 1])
        del self.said[to - 1 :]

    async def compact(self) -> None:
        await self.server.summarize(self.session_id)


def opencode(binary: Path, wire: OpencodeWire) -> Opening:
    @asynccontextmanager
    async def opened(folder: Path, base_url: str, left: Talk | None = None) -> AsyncIterator[Talk]:
        home, work = folder / "home", folder / "work"
        async with opencode_server(binary, home=home, cwd=work, base_url=base_url, wire=wire) as server:
            if isinstance(left, OpencodeTalk):
                yield OpencodeTalk(server, left.session_id, left.said)
            else:
                yield OpencodeTalk(server, await server.start())

    return opened


@dataclass(slots=True)
class CodexTalk:
    server: AppServer
    thread_id: str
    turns: list[str] = field(default_factory=list)

    async def say(self, text: str) -> str | None:
        turn = await self.server.turn(self.thread_id, text)
        self.turns.append(turn.id)
        return turn.text if turn.status == "completed" else None

    async def fork(self, *, before: int | None = None) -> Talk:
        place = None if before is None else self.turns[before - 1]
        return CodexTalk(self.server, await self.server.fork(self.thread_id, before_turn=place))

    async def revert(self, *, to: int) -> None:
        await self.server.revert(self.thread_id, before_turn=self.turns[to - 1])
        del self.turns[to - 1 :]

    async def compact(self) -> None:
        await self.server.compact(self.thread_id)


def codex(binary: Path) -> Opening:
    @asynccontextmanager
    async def opened(folder: Path, base_url: str, left: Talk | None = None) -> AsyncIterator[Talk]:
        client = CodexCli(binary, home=folder / "home", cwd=folder / "work", base_url=base_url)
        async with app_server(client) as server:
            if isinstance(left, CodexTalk):
                await server.resume(left.thread_id)
                yield CodexTalk(server, left.thread_id, left.turns)
            else:
                yield CodexTalk(server, await server.start(cwd=str(client.cwd)))

    return opened


@dataclass(slots=True)
class ClaudeTalk:
    client: ClaudeCode
    session_id: str | None = None
    parent: str | None = None

    async def say(self, text: str) -> str | None:
        parent, self.parent = self.parent, None
        run = await self.client.turn(text, resume=self.session_id or parent, fork=parent is not None)
        self.session_id = run.session_id
        return run.text if run.exit_code == 0 else None

    async def fork(self, *, before: int | None = None) -> Talk:
        if before is not None:
            raise Unable("Claude Code forks a session at its end")
        return ClaudeTalk(self.client, parent=self.session_id)

    async def revert(self, *, to: int) -> None:
        raise Unable("Claude Code takes nothing back in a script")

    async def compact(self) -> None:
        await self.say("/compact")


def claude_code(binary: Path, model: str | None) -> Opening:
    @asynccontextmanager
    async def opened(folder: Path, base_url: str, left: Talk | None = None) -> AsyncIterator[Talk]:
        url = base_url.removesuffix("/v1")
        client = ClaudeCode(binary, home=folder / "home", cwd=folder / "work", base_url=url, model=model)
        yield ClaudeTalk(client, left.session_id if isinstance(left, ClaudeTalk) else None)

    return opened


@dataclass(slots=True)
class PiTalk:
    """Several sessions share one process; the one that is spoken in is opened first."""

    client: Pi
    session: Path

    async def say(self, text: str) -> str | None:
        await self._open()
        return await self.client.turn(text)

    async def fork(self, *, before: int | None = None) -> Talk:
        await self._open()
        await self.client.fork(before=None if before is None else (await self.client.said())[before - 1])
        return PiTalk(self.client, await self.client.session_file())

    async def revert(self, *, to: int) -> None:
        branch = await self.fork(before=to)
        assert isinstance(branch, PiTalk)
        self.session = branch.session

    async def compact(self) -> None:
        await self._open()
        await self.client.compact()

    async def _open(self) -> None:
        # A session is written with its first answer; until then it is the one that is open.
        if self.session.exists() and await self.client.session_file() != self.session:
            await self.client.switch(self.session)


def pi(binary: Path, wire: PiWire) -> Opening:
    @asynccontextmanager
    async def opened(folder: Path, base_url: str, left: Talk | None = None) -> AsyncIterator[Talk]:
        home, work = folder / "home", folder / "work"
        session = left.session if isinstance(left, PiTalk) else None
        async with pi_process(binary, home=home, cwd=work, base_url=base_url, wire=wire, session=session) as client:
            yield PiTalk(client, await client.session_file())

    return opened
