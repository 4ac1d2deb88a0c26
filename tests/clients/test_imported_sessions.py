"""Sessions that the real pi and the real Claude Code wrote: imported, their windows are what the clients send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.clients.conftest import Installed
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import call, say
from tests.drivers.claude_code import ClaudeCode
from tests.drivers.codex import CodexCli
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import CLAUDE_CODE, CLAUDE_CODE_2_1_328, CODEX_0_169, PI
from tests.drivers.pi import pi_process

from threadkeep import Config, Threadkeep
from threadkeep.dialects import MESSAGES
from threadkeep.store import RecordKind
from threadkeep.threads import TurnBody, decode_body
from threadkeep.transfer.importer import Importer

pytestmark = [pytest.mark.anyio, pytest.mark.clients, pytest.mark.moves_prefix(reason="the clients compact by themselves")]


def canonical(messages: list[dict[str, Any]]) -> list[bytes]:
    return [MESSAGES.canonical(MESSAGES.parse(message)) for message in messages]


async def window(tk: Threadkeep, thread_id: str) -> list[bytes]:
    return [MESSAGES.canonical(item) for item in (await (await tk.find(thread_id)).history()).items]


async def test_a_session_of_pi_with_a_compaction_and_a_fork(installed: Installed, tmp_path: Path) -> None:
    """Tool call, compaction, fork: each session's window is the last request that pi made of it, and the answer."""
    binary = await installed(PI)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("hello")
    replies = [
        say("one"),
        call("read", {"path": "a.txt"}, call_id="toolu_1"),
        say("two"),
        say("THE SUMMARY"),
        say("three"),
        say("four"),
    ]
    async with ScriptedProvider(replies) as provider:
        home, cwd = tmp_path / "home", tmp_path / "work"
        async with pi_process(binary, home=home, cwd=cwd, base_url=provider.url, wire="messages") as pi:
            await pi.turn("USER ONE")
            await pi.turn("USER TWO " + "and more " * 12_000)
            await pi.compact()
            await pi.turn("USER THREE")
            original = await pi.session_file()
            await pi.fork(before=(await pi.said())[-1])
            await pi.turn("FORKED")
            forked = await pi.session_file()
        sent = [canonical(request.body["messages"]) for request in provider.requests[-2:]]
    async with Threadkeep(Config(store=str(tmp_path / "h.db"))) as tk:
        report = await Importer(tk.backend).run([original, forked])
        first, second = (thread.id for thread in report.threads)
        assert [(await window(tk, first))[:-1], (await window(tk, second))[:-1]] == sent
        assert (await tk.backend.store.get(second)).parent == first
        assert (await tk.verify()).ok
    assert report.problems == ()


async def test_a_session_of_claude_code_with_a_compaction(installed: Installed, tmp_path: Path) -> None:
    """What was said, called and answered is the window, in order; after `/compact`, the summary and what it preserved.

    The client's own reminders are left out: it writes them anew for every request, and the transcript holds what they are of.
    """
    binary = await installed(CLAUDE_CODE)
    replies = [
        say("one"),
        call("Bash", {"command": "echo hi"}, call_id="toolu_1"),
        say("two"),
        say("THE SUMMARY"),
        say("A TITLE"),
    ]
    async with ScriptedProvider(replies) as provider:
        base_url = provider.url.removesuffix("/v1")
        claude = ClaudeCode(binary, home=tmp_path / "home", cwd=tmp_path / "work", base_url=base_url)
        first = await claude.turn("USER ONE")
        await claude.turn("USER TWO", resume=first.session_id)
        talked = tmp_path / "home" / ".claude" / "projects"
        async with Threadkeep(Config(store=str(tmp_path / "h.db"))) as tk:
            before = await Importer(tk.backend).run([talked])
            shown = await window(tk, first.session_id or "")
            asked = [provider.requests[index].body["messages"] for index in (1, 2)]
            await claude.turn("/compact", resume=first.session_id)
            after = await Importer(tk.backend).run([talked])
            compacted = await (await tk.find(first.session_id or "")).history()
            views = [MESSAGES.view(item) for item in compacted.items]
            assert (await tk.verify()).ok
    plain = [message for message in asked[1] if message["role"] != "system" and "<system-reminder>" not in str(message)]
    assert [each for each in canonical(plain) if each in shown] == canonical(plain)
    assert [len(report.problems) for report in (before, after)] == [0, 0]
    assert [thread.id for thread in after.threads] == [first.session_id]
    assert compacted.checkpoint is not None
    assert views[0].context == "client_summary"
    assert "THE SUMMARY" in views[0].text


TOOLS = {
    "codex": ("exec_command", {"cmd": "echo hi"}),
    "claude": ("Bash", {"command": "echo hi"}),
    "pi": ("read", {"path": "a.txt"}),
}
LONG = "The port is 7443 and the host is staging; both stand in the configuration beside the others. " * 3


class Session:
    """One session of a client that is resumed in a new process for each turn, here through the gateway and there without."""

    def __init__(self, client: str, binary: Path, folder: Path) -> None:
        self._client = client
        self._binary = binary
        self._home, self._cwd = folder / "home", folder / "work"
        self._name: str | None = None
        self._file: Path | None = None
        self._cwd.mkdir()
        (self._cwd / "a.txt").write_text("hello")
        self.folder = self._home / {"codex": ".codex/sessions", "claude": ".claude/projects", "pi": "sessions"}[client]

    async def turn(self, text: str, base_url: str) -> None:
        if self._client == "pi":
            keywords: Any = {"home": self._home, "cwd": self._cwd, "base_url": base_url, "wire": "messages"}
            async with pi_process(self._binary, **keywords, session=self._file) as pi:
                await pi.turn(text)
                self._file = await pi.session_file()
        elif self._client == "codex":
            codex = CodexCli(self._binary, home=self._home, cwd=self._cwd, base_url=base_url, model=None)
            run = await (codex.exec(text) if self._name is None else codex.resume(text, thread_id=self._name))
            self._name = self._name or run.thread_id
        else:
            claude = ClaudeCode(self._binary, home=self._home, cwd=self._cwd, base_url=base_url.removesuffix("/v1"))
            self._name = (await claude.turn(text, resume=self._name)).session_id


@pytest.mark.parametrize("steps", ["dd i g i g", "gg i g i", "g d i i g i"])
@pytest.mark.parametrize("client", TOOLS)
async def test_a_session_is_one_thread_whatever_brings_it(installed: Installed, tmp_path: Path, client: str, steps: str) -> None:
    """Turns through the gateway (g), directly (d), and imports (i) of the client's file: one thread with each turn once."""
    binary = await installed({"codex": CODEX_0_169, "claude": CLAUDE_CODE_2_1_328, "pi": PI}[client])
    session = Session(client, binary, tmp_path)
    turns = sum(step in "dg" for step in steps)
    name, arguments = TOOLS[client]
    replies = [call(name, arguments, call_id="toolu_1"), *(say(f"done {number}. {LONG}") for number in range(turns))]
    store = tmp_path / "h.db"
    async with ScriptedProvider(replies) as provider, gateway_process(store, upstream=provider.url) as gateway:
        for index, step in enumerate(steps.replace(" ", "")):
            if step == "i":
                async with Threadkeep(Config(store=str(store))) as tk:
                    report = await Importer(tk.backend).run([session.folder])
                    assert (len(report.threads), report.problems) == (1, ())
            else:
                await session.turn(f"Ask number {index}.", provider.url if step == "d" else gateway.base_url)
    async with Threadkeep(Config(store=str(store))) as tk:
        rows = await tk.backend.store.threads(limit=9)
        records = await (await tk.find(rows[0].id)).records()
        asked = [decode_body(record.body, TurnBody).preview for record in records if record.kind is RecordKind.TURN]
        assert (await tk.verify()).ok
    assert len(rows) == 1
    assert asked == [f"Ask number {index}." for index, step in enumerate(steps.replace(" ", "")) if step != "i"]
