"""The real Codex over WebSocket, with its default model, through the gateway to providers with and without WebSocket."""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.doubles.provider import BYTES_PER_TOKEN, ScriptedProvider
from tests.doubles.script import Received, Reply, call, say
from tests.drivers.codex import CodexCli
from tests.drivers.codex_app_server import app_server
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import CODEX_0_169

from threadkeep import Config, Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

RULE = "Never touch vendor/. Staging listens on 7443."
LONG_ASK = "Run the check. " + "The build log follows for reference. " * 400
STATE = b"session_compact_state"
HEAD = ["additional_tools", *["message"] * 4]


@pytest.mark.moves_prefix(reason="two sessions go on from one, and one of them is compacted")
@pytest.mark.parametrize("transport", ["http", "websocket"])
async def test_a_session_with_a_tool_a_broken_answer_a_compaction_and_a_fork(
    tmp_path: Path, installed: Installed, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    """Each process connects anew and sends its history; within a turn only what is new. The provider gets all, every time."""
    monkeypatch.setenv("THREADKEEP_GATEWAY_WEBSOCKET", "on")
    script = [
        say("one done"),
        call("exec_command", {"cmd": "echo anchored"}, call_id="call_1"),
        Reply(items=say("half").items, drop=True),
        say("two done"),
        say("three done"),
        say("four done"),
        call("exec_command", {"cmd": "echo still anchored"}, call_id="call_2"),
        say("five done"),
        say("other done"),
    ]
    binary = await installed(CODEX_0_169)
    async with (
        ScriptedProvider(script, enforcing=True, sockets=transport == "websocket") as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
    ):

        def codex(home: str) -> CodexCli:
            return CodexCli(
                binary, home=tmp_path / home, cwd=tmp_path / "work", base_url=gateway.base_url, model=None, websockets=True
            )

        first = codex("home")
        runs = [await first.exec(RULE), await first.resume("TWO")]
        # Codex indexes its sessions by absolute paths, and makes the index anew where it is missing.
        shutil.copytree(tmp_path / "home", tmp_path / "other", ignore=shutil.ignore_patterns("*.sqlite*"))
        runs += [await first.resume(text) for text in (LONG_ASK, "THREE", "tk compact mind the port", "FIVE")]
        runs.append(await codex("other").resume("OTHER"))
    assert [run.exit_code for run in runs] == [0] * 7
    assert [run.last_message for run in runs[:4]] == ["one done", "two done", "three done", "four done"]
    assert (runs[4].last_message or "").startswith("Compacted")
    assert [run.last_message for run in runs[5:]] == ["five done", "other done"]
    histories = [request.input for request in provider.requests]
    assert [[item["type"] for item in history[:5]] for history in histories] == [HEAD] * 9
    assert all(RULE in str(history) for history in histories)
    assert ["session_compact_state" in str(history) for history in histories] == [False] * 6 + [True, True, False]
    assert [text in str(histories[-1]) for text in ("TWO", "OTHER", "THREE", "FIVE")] == [True, True, False, False]
    assert not any("tk compact" in str(history) for history in histories)
    assert not any("previous_response_id" in request.body for request in provider.requests)
    assert any(len(frame["input"]) == 1 for frame in provider.socket_frames) == (transport == "websocket")


NOTES = "".join(f"{number:04d} the build log says nothing of interest here\n" for number in range(450))
LIMIT_TOKENS = 29_000
RULES = ("Never touch vendor/ in `src`.", "Staging listens on 7443, not 8080.")
DRAFT = b"Answer with exactly one block, from <session_compact_state>"
DRAFTED = "<session_compact_state>\nCurrent Handoff:\n- Next: read it once more.\n</session_compact_state>"
SUMMARY = "The notes were read; go on."


def read_notes() -> Reply:
    """Answer as Codex' default models do, whose one tool runs a script that calls the others."""
    script = 'const done = await tools.exec_command({cmd: "cat notes.txt"}); text(done.output);'
    return Reply(items=({"type": "custom_tool_call", "name": "exec", "input": script},))


def draft(received: Received) -> Reply | None:
    """Answer what the gateway asks for itself."""
    return say(DRAFTED) if DRAFT in received.raw else None


@pytest.mark.moves_prefix(reason="a session that is compacted and forked")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("key", ["variable", "login"])
@pytest.mark.parametrize(("upstream", "mode"), [("websocket", "auto"), ("http", "auto"), ("http", "on")])
async def test_a_long_session_with_broken_sockets(
    tmp_path: Path, installed: Installed, monkeypatch: pytest.MonkeyPatch, upstream: str, mode: str, key: str
) -> None:
    """Settings of `threadkeep run`: the provider, the gateway and a kill cut sockets, both compact, two sessions go on from one.

    Every request that the provider gets has the tools, the rules in the user's words, whole pairs, and fits.
    """
    monkeypatch.setenv("THREADKEEP_GATEWAY_WEBSOCKET", mode)
    monkeypatch.setenv("THREADKEEP_MODEL_AUTO_COMPACT_TOKEN_LIMIT", str(LIMIT_TOKENS))
    read, held = read_notes(), asyncio.Event()
    script = [
        *(each for number in range(3) for each in (read, say(f"{number} done"))),
        *(Reply(items=say("half").items, drop=True), read, say("cut done")),
        *(say("not heard", hold=held), read, say("killed done")),
        *(read, say("stopped done"), read, say("more done")),
        say(SUMMARY),
        *(each for number in range(5) for each in (read, say(f"fork {number} done"))),
    ]
    home, work, store = tmp_path / "home", tmp_path / "work", tmp_path / "threadkeep.db"
    work.mkdir()
    (work / "notes.txt").write_text(NOTES)
    sockets = upstream == "websocket"
    async with ScriptedProvider(script, enforcing=True, counting=True, sockets=sockets, beside=draft) as provider:
        run = partial(gateway_process, store, upstream=provider.url, flags=("--auto-compact", "on"))
        async with run() as first:
            url = first.base_url.removesuffix("/v1")
            port = int(url.rpartition(":")[2])
            codex = CodexCli.as_run(await installed(CODEX_0_169), home=home, cwd=work, gateway_url=url, login=key == "login")
            async with app_server(codex) as server:
                session = await server.start(cwd=str(work))
                turns = [await server.turn(session, f"{' '.join(RULES)} Read notes.txt.")]
                turns += [await server.turn(session, text) for text in ("Read it again.", "And again.", "Cut.")]
                asked = len(provider.requests)
                killed = asyncio.create_task(server.turn(session, "Killed."))
                await provider.arrived(asked + 1)
                await first.kill()
                held.set()
                async with run(port=port):
                    turns.append(await killed)
                async with run(port=port):
                    turns += [await server.turn(session, text) for text in ("Stopped.", "More.")]
                    await server.compact(session)
                    fork = await server.fork(session)
                    turns += [await server.turn(name, "Go on.") for name in (session, fork, session, fork)]
                    early = await server.fork(session, before_turn=turns[1].id)
                    turns.append(await server.turn(early, "Another way."))
    texts = ["0 done", "1 done", "2 done", "cut done", "killed done", "stopped done", "more done"]
    assert [(turn.status, turn.text) for turn in turns] == [
        ("completed", text) for text in (*texts, *(f"fork {number} done" for number in range(5)))
    ]
    assert provider.refusals == []
    tools, instructions = provider.requests[0].input[0]["tools"], provider.requests[0].input[1]["content"]
    for request in provider.requests:
        assert (request.input[0].get("tools"), request.input[1]["content"]) == (tools, instructions)
        assert [rule for rule in RULES if rule not in request.raw.decode()] == []
        assert len(request.raw) // BYTES_PER_TOKEN <= LIMIT_TOKENS
        assert "previous_response_id" not in request.body
    compacted = [STATE in request.raw for request in provider.requests]
    assert compacted[:-2] == [*[False] * 5, *[True] * (len(script) - 7)]
    assert "Read it again." not in str(provider.requests[-1].input)
    assert any(len(frame["input"]) == 1 for frame in provider.socket_frames) == sockets
    async with Threadkeep(Config(store=str(store))) as tk:
        *forks, root = await tk.threads()
        assert (root.parent, {thread.parent for thread in forks}, len(forks)) == (None, {root.id}, 2)
        assert root.checkpoints >= 4
        assert (await tk.verify()).problems == ()
