"""The real Codex CLI resumes what threadkeep exports: the history it sends is the one it would have sent from its own rollout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, call, message, reasoning, say
from tests.drivers.codex import CodexCli, CodexRun
from tests.drivers.codex_app_server import app_server
from tests.drivers.gateway_process import gateway_process

from threadkeep import Config, Threadkeep
from threadkeep.items import decode_json
from threadkeep.transfer.codex_rollouts import make_file_name
from threadkeep.transfer.export import ExportFormat, export_thread, load_codex_session
from threadkeep.transfer.importer import Importer

REASON = "a thread is resumed from two rollouts, or from one that was compacted in between"
pytestmark = [pytest.mark.anyio, pytest.mark.clients, pytest.mark.moves_prefix(reason=REASON)]

CodexAt = Callable[[str], CodexCli]
HEAD_ITEMS = {"0.150.1": 1, "0.166.0": 2}
LONG_ASK = "Never touch vendor/. Run the check. " + "The build log follows for reference. " * 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A resumed thread: how the run ended, and the history its request held."""

    run: CodexRun
    history: list[dict[str, Any]]


def bare(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item without what Codex or its provider generates anew: ids, status, empty annotations, null content."""
    kept = {key: value for key, value in item.items() if key not in ("id", "status") and (key, value) != ("content", None)}
    if isinstance(kept.get("content"), list):
        kept["content"] = [
            {key: value for key, value in part.items() if key not in ("annotations", "logprobs")} for part in kept["content"]
        ]
    kept.pop("internal_chat_message_metadata_passthrough", None)
    return kept


def script() -> list[Reply]:
    return [
        say("one done"),
        Reply(
            items=(
                reasoning("SEALED", summary="a thought"),
                message("Running it.", phase="commentary"),
                *call("exec_command", {"cmd": "echo anchored"}, call_id="call_1").items,
            )
        ),
        say("two done"),
    ]


async def export_into(codex: CodexCli, tk: Threadkeep, thread_id: str) -> str:
    """Put an exported thread beside Codex's own, and return the session's id."""
    thread = await tk.find(thread_id)
    session = await load_codex_session(tk.backend, thread)
    folder = codex.codex_home / "sessions" / "2026" / "01" / "02"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line async for line in export_thread(tk.backend, thread, ExportFormat.CODEX)]
    (folder / make_file_name(session)).write_bytes(b"".join(lines))
    return session.id


async def resume(codex: CodexCli, provider: ScriptedProvider, thread_id: str) -> Resumed:
    run = await codex.resume("GO ON", thread_id=thread_id)
    return Resumed(run=run, history=[bare(item) for item in provider.requests[-1].input])


async def test_an_exported_thread_is_resumed_as_the_original_is(codex_at: CodexAt, tmp_path: Path) -> None:
    """Two turns with reasoning and a command that really ran: from the copy Codex sends what it sends from its own rollout."""
    async with ScriptedProvider([*script(), say("from the copy"), say("from the original")], enforcing=True) as provider:
        codex = codex_at(provider.url)
        first = await codex.exec("USER ONE")
        await codex.resume("USER TWO")
        async with Threadkeep(Config(store=str(tmp_path / "h.db"))) as tk:
            report = await Importer(tk.backend).run([codex.codex_home / "sessions"])
            assert [(thread.id, thread.items > 0) for thread in report.threads] == [(first.thread_id, True)]
            assert report.problems == ()
            session = await export_into(codex, tk, report.threads[0].id)
        copy = await resume(codex, provider, session)
        original = await resume(codex, provider, first.thread_id or "")
    assert (copy.run.exit_code, copy.run.thread_id, copy.run.last_message) == (0, session, "from the copy")
    assert copy.history == original.history
    assert session != first.thread_id


@pytest.mark.parametrize("mode", ["legacy", "paginated"])
async def test_a_thread_codex_compacted_is_resumed_with_its_compacted_window(
    codex_at: CodexAt, tmp_path: Path, mode: Literal["legacy", "paginated"]
) -> None:
    """A compaction of Codex's own arrives as a checkpoint, leaves as a compaction, and shows the same history."""
    replies = [say("one done"), say("SUMMARY OF IT"), say("two done"), say("from the copy"), say("from the original")]
    async with ScriptedProvider(replies) as provider:
        codex = codex_at(provider.url)
        async with app_server(codex) as server:
            thread_id = await server.start(cwd=str(codex.cwd), history=mode)
            await server.turn(thread_id, "USER ONE")
            await server.compact(thread_id)
            await server.turn(thread_id, "USER TWO")
        async with Threadkeep(Config(store=str(tmp_path / "h.db"))) as tk:
            report = await Importer(tk.backend).run([codex.codex_home / "sessions"])
            window = (await (await tk.find(thread_id)).history()).items
            summary = (await tk.threads())[0]
            session = await export_into(codex, tk, thread_id)
            assert (await tk.verify()).ok
        copy = await resume(codex, provider, session)
        original = await resume(codex, provider, thread_id)
    assert (report.problems, summary.checkpoints) == ((), 1)
    assert copy.run.exit_code == 0
    assert copy.history == original.history
    sent = [item for item in copy.history if item in [bare(decode_json(item.raw)) for item in window]]
    assert len(sent) == len(window)


async def test_a_thread_threadkeep_compacted_is_resumed_with_the_compacted_window(
    codex_at: CodexAt, tmp_path: Path, codex_version: str
) -> None:
    """Recorded by Codex, imported, compacted here: Codex goes on from the state and the frontier, with its own context anew."""
    async with ScriptedProvider([*script(), say("three done"), say("resumed")], enforcing=True) as provider:
        codex = codex_at(provider.url)
        await codex.exec("Staging listens on 7443.")
        await codex.resume(LONG_ASK)
        await codex.resume("THREE")
        async with Threadkeep(Config(store=str(tmp_path / "h.db"))) as tk:
            report = await Importer(tk.backend).run([codex.codex_home / "sessions"])
            thread = await tk.find(report.threads[0].id)
            await thread.compact(target="50%")
            window = [bare(decode_json(item.raw)) for item in (await thread.history()).items]
            session = await export_into(codex, tk, thread.id)
        copy = await resume(codex, provider, session)
    assert (copy.run.exit_code, copy.run.last_message) == (0, "resumed")
    head = HEAD_ITEMS[codex_version] - 1
    assert copy.history[head : head + len(window)] == window
    assert copy.history[-1] == {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "GO ON"}]}
    texts = [part["text"] for item in window if item["type"] == "message" for part in item["content"]]
    (state,) = [text for text in texts if "<session_compact_state>" in text]
    memory = state.partition("Current Handoff:")[0]
    assert [memory.count(text) for text in ("Staging listens on 7443.", "Never touch vendor/. Run the check.")] == [1, 1]
    assert [text for text in texts if LONG_ASK.strip() in text] == []


async def test_a_thread_the_gateway_recorded_can_be_taken_back_to_codex(codex_at: CodexAt, tmp_path: Path) -> None:
    """What came through the gateway has no rollout of its own; an exported one is made of what was recorded."""
    store = tmp_path / "h.db"
    async with ScriptedProvider([*script(), say("resumed")], enforcing=True) as provider:
        async with gateway_process(store, upstream=provider.url) as gateway:
            codex = codex_at(gateway.base_url)
            await codex.exec("USER ONE")
            await codex.resume("USER TWO")
        async with Threadkeep(Config(store=str(store))) as tk:
            thread = await tk.find((await tk.threads())[0].id)
            window = [bare(decode_json(item.raw)) for item in (await thread.history()).items]
            direct = codex_at(provider.url)
            session = await export_into(direct, tk, thread.id)
        copy = await resume(direct, provider, session)
    assert (copy.run.exit_code, copy.run.last_message) == (0, "resumed")
    at = copy.history.index(window[0])
    assert copy.history[at : at + len(window)] == window


async def test_a_fork_and_a_revert_of_codex_arrive_with_their_histories(
    codex_at: CodexAt, tmp_path: Path, codex_version: str
) -> None:
    """Both hold only their own lines and refer to the rollout they left; here each is a fork with the window Codex sends."""
    replies = [say("one done"), say("two done"), say("three done"), say("forked"), say("reverted")]
    async with ScriptedProvider(replies, enforcing=True) as provider:
        codex = codex_at(provider.url)
        async with app_server(codex) as server:
            thread_id = await server.start(cwd=str(codex.cwd), history="paginated")
            await server.turn(thread_id, "USER ONE")
            second = await server.turn(thread_id, "USER TWO")
            third = await server.turn(thread_id, "USER THREE")
            fork = await server.fork(thread_id, before_turn=third.id)
            await server.turn(fork, "FORKED")
            await server.revert(thread_id, before_turn=second.id)
        await resume(codex, provider, thread_id)
        async with Threadkeep(Config(store=str(tmp_path / "h.db"))) as tk:
            report = await Importer(tk.backend).run([codex.codex_home / "sessions"])
            reverted = next(thread.id for thread in report.threads if thread.id.startswith(f"{thread_id}-"))
            windows = [
                [bare(decode_json(item.raw)) for item in (await (await tk.find(name)).history()).items]
                for name in (fork, reverted)
            ]
            parents = [(await tk.backend.store.get(name)).parent for name in (fork, reverted)]
            assert (await tk.verify()).ok
    head = HEAD_ITEMS[codex_version] - 1
    sent = [[bare(item) for item in request.input][head:] for request in provider.requests[-2:]]
    assert report.problems == ()
    assert parents == [thread_id, thread_id]
    assert [window[:-1] for window in windows] == sent
