"""Sessions that the real pi and the real Claude Code wrote: imported, their windows are what the clients send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.clients.conftest import Installed
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import call, say
from tests.drivers.claude_code import ClaudeCode
from tests.drivers.npm import CLAUDE_CODE, PI
from tests.drivers.pi import pi_process

from threadkeep import Config, Threadkeep
from threadkeep.dialects import MESSAGES
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
