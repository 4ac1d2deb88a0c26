"""The Claude Agent SDK with the real Claude Code, its sessions kept in threadkeep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    SessionKey,
    SystemMessage,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
    query,
)
from tests.clients.conftest import Installed
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, call, say
from tests.drivers.claude_code import ClaudeCode
from tests.drivers.npm import CLAUDE_CODE

from threadkeep import Config, Threadkeep
from threadkeep.adapters.bridge import shared
from threadkeep.adapters.claude_agent_sdk import ThreadkeepSessionStore
from threadkeep.dialects import MESSAGES
from threadkeep.store import RecordKind

pytestmark = [pytest.mark.anyio, pytest.mark.clients, pytest.mark.moves_prefix(reason="the client compacts by itself")]

NEEDLE = "BX-90417"
RECALL = "mcp__threadkeep__recall"


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Close what the bridge opened, as the end of a process does."""
    yield
    shared.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine with a Claude Code of its own, whose sessions are in one store with those of others."""

    claude: ClaudeCode
    store: ThreadkeepSessionStore

    async def say(self, prompt: str, *, resume: str | None = None, fork: bool = False) -> ResultMessage:
        options = ClaudeAgentOptions(
            cli_path=str(self.claude.binary),
            env={**self.claude.environment(), "CLAUDE_CONFIG_DIR": str(self.claude.home / ".claude")},
            cwd=str(self.claude.cwd),
            session_store=self.store,
            resume=resume,
            fork_session=fork,
            permission_mode="bypassPermissions",
            mcp_servers={"threadkeep": self.store.recall_server()},
            allowed_tools=[RECALL],
        )
        ended: ResultMessage | None = None
        async for message in query(prompt=prompt, options=options):
            assert not (isinstance(message, SystemMessage) and message.subtype == "mirror_error"), message
            if isinstance(message, ResultMessage):
                ended = message
        assert ended is not None
        return ended


def canonical(messages: list[dict[str, Any]]) -> list[bytes]:
    return [MESSAGES.canonical(MESSAGES.parse(message)) for message in messages]


def spoken(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is of the conversation; the client writes its reminders anew for every request."""
    return [each for each in messages if each["role"] != "system" and "<system-reminder>" not in str(each)]


def script() -> Iterator[Reply]:
    yield call("Bash", {"command": f"echo the bollard has the serial {NEEDLE}"}, call_id="toolu_1")
    yield say("It is noted.")
    for number in (1, 2, 3):
        yield say(f"<summary>SUMMARY {number}</summary>")
        yield say(f"work {number} is done")
    yield call(RECALL, {"query": "serial of the bollard"}, call_id="toolu_r")
    yield say(f"It is {NEEDLE}.")
    yield say("the other way")


async def test_a_session_goes_on_elsewhere_after_three_compactions(installed: Installed, tmp_path: Path) -> None:
    """Resumed on another machine from the store alone; the needle comes back by recall; a fork has a thread of its own."""
    binary = await installed(CLAUDE_CODE)
    config, cwd = Config(store=str(tmp_path / "agent.db")), tmp_path / "work"
    async with ScriptedProvider(list(script())) as provider:
        base_url = provider.url.removesuffix("/v1")

        def machine(name: str) -> Machine:
            claude = ClaudeCode(binary, home=tmp_path / name, cwd=cwd, base_url=base_url)
            return Machine(claude=claude, store=ThreadkeepSessionStore(config))

        one = machine("one")
        session = (await one.say("Look the serial of the bollard up.")).session_id
        for number in (1, 2, 3):
            await one.say("/compact", resume=session)
            await one.say(f"Do work {number}.", resume=session)
        shared.close()
        two = machine("two")
        answered = await two.say("What was the serial of the bollard?", resume=session)
        sent = provider.requests[-1].body["messages"]
        forked = (await two.say("Try it the other way.", resume=session, fork=True)).session_id
        key: SessionKey = {"project_key": project_key_for_directory(str(cwd)), "session_id": session}
        listed = {info.session_id for info in await list_sessions_from_store(two.store, directory=str(cwd))}
        told = await get_session_messages_from_store(two.store, forked, directory=str(cwd))
        thread_id = await two.store.thread_id(key)
    assert (answered.session_id, answered.result) == (session, f"It is {NEEDLE}.")
    assert NEEDLE in str(sent[-1])
    assert "SUMMARY 3" in str(sent[0])
    assert listed == {session, forked}
    assert "the other way" in str(told[-1].message)
    assert two.store.trouble is None
    assert thread_id == session
    async with Threadkeep(config) as tk:
        thread = await tk.thread(session)
        history = await thread.history()
        window = [MESSAGES.canonical(item) for item in history.items]
        assert [each for each in canonical(spoken(sent)) if each in window] == canonical(spoken(sent))
        assert sum(record.kind is RecordKind.CHECKPOINT for record in await thread.records()) == 3
        assert any(NEEDLE in hit.text for hit in await thread.recall("echo the bollard has the serial"))
        assert (await tk.verify()).problems == ()
        assert {summary.id for summary in await tk.threads()} == {session, forked}
    assert not [path for path in tmp_path.glob("agent.db*") if b"sk-ant-mock" in path.read_bytes()]
