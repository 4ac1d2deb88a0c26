"""Two real sessions of a client through one gateway, each compacting by itself: nothing of one reaches the other's model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.clients.play import titles
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, say
from tests.drivers.codex import CodexCli
from tests.drivers.codex_app_server import app_server
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import CODEX_0_169, OPENCODE
from tests.drivers.opencode import Wire, opencode_server

from threadkeep import Config, Threadkeep

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.clients,
    pytest.mark.moves_prefix(reason="the clients begin their histories anew with a summary"),
]

LONG = "The build log follows for reference. " * 200
RULES = {"alpha": "Never mention customer ALPHA-111.", "beta": "Always greet customer BETA-222."}
DRAFT = b"Answer with exactly one block, from <session_compact_state>"
DRAFTED = "<session_compact_state>\nCurrent Handoff:\n- Next: go on.\n</session_compact_state>"
SUMMARY = "## Goal\nTidy up.\n\n## Next\nGo on where we were."


def make(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def beside(received: Received) -> Reply | None:
    """Answer a request for a title, for the gateway's draft, or for a summary, which says the same of both sessions."""
    if DRAFT in received.raw:
        return say(DRAFTED)
    asked = b"You are a context summarization agent" in received.raw or b"CONTEXT CHECKPOINT COMPACTION" in received.raw
    return say(SUMMARY) if asked else titles(received)


FOLDERS = {"one folder": {"alpha": "work", "beta": "work"}, "two folders": {"alpha": "alpha", "beta": "beta"}}


@pytest.mark.parametrize("folders", FOLDERS)
@pytest.mark.parametrize("wire", [None, "chat", "messages"])
async def test_two_sessions_with_equal_summaries_keep_to_themselves(
    wire: Wire | None, folders: str, tmp_path: Path, installed: Installed
) -> None:
    """The same greeting, each its own rule after its client's compaction and the gateway's, and no word of the other's.

    With the model and the provider that opencode chooses itself, and over the other wires.
    """
    binary, work = await installed(OPENCODE), {name: tmp_path / folder for name, folder in FOLDERS[folders].items()}
    script = [say("done")] * 10
    async with (
        ScriptedProvider(script, enforcing=True, beside=beside) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url, flags=("--auto-compact", "on")) as gateway,
        opencode_server(binary, home=tmp_path / "home-a", cwd=work["alpha"], base_url=gateway.base_url, wire=wire) as alpha,
        opencode_server(binary, home=tmp_path / "home-b", cwd=work["beta"], base_url=gateway.base_url, wire=wire) as beta,
    ):
        sessions = {"alpha": (alpha, await alpha.start()), "beta": (beta, await beta.start())}
        for client, session in sessions.values():
            await client.turn(session, "Hello.")
        for name, (client, session) in sessions.items():
            await client.turn(session, RULES[name])
        for client, session in sessions.values():
            await client.summarize(session)
        for text in (f"Go on. {LONG}", f"And on. {LONG}", "/compact", "What are my rules?"):
            for client, session in sessions.values():
                await client.turn(session, text)
    told = {
        name: [request.raw.decode() for request in provider.requests if request.headers["x-session-id"] == session]
        for name, (_, session) in sessions.items()
    }
    assert {name: len(texts) for name, texts in told.items()} == {"alpha": 5, "beta": 5}
    assert [text for text in told["alpha"] if "BETA-222" in text] == []
    assert [text for text in told["beta"] if "ALPHA-111" in text] == []
    assert [name for name in RULES if any(RULES[name] not in text for text in told[name][1:])] == []
    assert provider.refusals == []
    async with Threadkeep(Config(store=str(tmp_path / "threadkeep.db"))) as tk:
        assert [thread.parent for thread in await tk.threads()] == [None, None]


@pytest.mark.parametrize("folders", FOLDERS)
@pytest.mark.parametrize("transport", ["http", "websocket"])
async def test_two_codex_sessions_keep_to_themselves(transport: str, folders: str, tmp_path: Path, installed: Installed) -> None:
    """The default model, one home, the same greeting and summary: two threads, each with its rule."""
    binary = await installed(CODEX_0_169)
    async with (
        ScriptedProvider([say("done")] * 8, enforcing=True, beside=beside, sockets=transport == "websocket") as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url, flags=("--auto-compact", "on")) as gateway,
    ):
        url = gateway.base_url.removesuffix("/v1")
        codex = CodexCli.as_run(binary, home=tmp_path / "home", cwd=tmp_path / "work", gateway_url=url, login=False)
        async with app_server(codex) as server:
            sessions = {name: await server.start(cwd=str(make(tmp_path / folder))) for name, folder in FOLDERS[folders].items()}
            for text in ("Hello.", None, "compact", f"Go on. {LONG}", "tk compact", "What are my rules?"):
                for name, session in sessions.items():
                    if text == "compact":
                        await server.compact(session)
                    else:
                        await server.turn(session, text or RULES[name])
    told = {
        name: [request.raw.decode() for request in provider.requests if request.headers["thread-id"] == session]
        for name, session in sessions.items()
    }
    assert {name: len(texts) for name, texts in told.items()} == {"alpha": 4, "beta": 4}
    assert [text for text in told["alpha"] if "BETA-222" in text] == []
    assert [text for text in told["beta"] if "ALPHA-111" in text] == []
    assert [name for name in RULES if any(RULES[name] not in text for text in told[name][1:])] == []
    assert provider.refusals == []
    async with Threadkeep(Config(store=str(tmp_path / "threadkeep.db"))) as tk:
        assert [thread.parent for thread in await tk.threads()] == [None, None]
