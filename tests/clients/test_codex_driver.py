"""The driver of the real Codex CLI: it reports how a run ended and leaves nothing running behind."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import http_error, say
from tests.drivers.codex import CodexCli
from tests.drivers.codex_app_server import AppServerError, app_server
from tests.drivers.npm import CODEX_0_166, install
from tests.drivers.process import ClientUnavailable, run_to_end

# `make test` does not collect this folder: its files import every SDK.
pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CodexAt = Callable[[str], CodexCli]


@pytest.mark.clients
async def test_a_failed_turn_is_reported_and_not_raised(codex_at: CodexAt) -> None:
    """A provider's refusal ends the run with exit code 1, no message, and the turn's failure among the events."""
    async with ScriptedProvider([http_error(400, "no such thing")]) as provider:
        run = await codex_at(provider.url).exec("go")
    assert (run.exit_code, run.last_message) == (1, None)
    assert run.events[-1]["type"] == "turn.failed"
    assert "no such thing" in run.events[-1]["error"]["message"]


@pytest.mark.clients
async def test_a_prompt_is_never_taken_for_an_option(codex_at: CodexAt) -> None:
    """A prompt that begins with dashes reaches the provider as text, in a new thread and in a resumed one."""
    async with ScriptedProvider([say("one"), say("two")]) as provider:
        codex = codex_at(provider.url)
        runs = [await codex.exec("--version"), await codex.resume("--last")]
    assert [run.exit_code for run in runs] == [0, 0]
    assert [request.input[-1]["content"][0]["text"] for request in provider.requests] == ["--version", "--last"]


@pytest.mark.clients
async def test_the_credential_is_sent_and_no_proxy_is_used(codex_at: CodexAt) -> None:
    """Codex sees the key made for it and nothing of the machine's own settings."""
    async with ScriptedProvider([say("one")]) as provider:
        codex = codex_at(provider.url)
        await codex.exec("go")
    assert [request.authorised for request in provider.requests] == [True]
    assert sorted(codex.environment()) == ["CODEX_HOME", "HOME", "MOCK_API_KEY", "NO_PROXY", "PATH", "no_proxy"]


@pytest.mark.clients
async def test_an_app_server_s_refusal_is_named(codex_at: CodexAt) -> None:
    """A call that Codex refuses raises with the method and Codex's own words, and the server goes on."""
    async with ScriptedProvider([say("still here")]) as provider:
        codex = codex_at(provider.url)
        async with app_server(codex) as server:
            with pytest.raises(AppServerError, match="thread/fork: "):
                await server.fork("not-a-thread")
            turn = await server.turn(await server.start(cwd=str(codex.cwd)), "go")
    assert turn.status == "completed"


@pytest.mark.clients
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
async def test_a_version_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    """A failed install says what npm could not do and leaves no half of it behind."""
    folder = tmp_path / "clients"
    with pytest.raises(ClientUnavailable, match=r"npm could not install @openai/codex@0\.0\.0-absent"):
        await install(replace(CODEX_0_166, version="0.0.0-absent"), folder)
    assert list(folder.iterdir()) == []


async def test_a_run_out_of_time_is_ended(tmp_path: Path) -> None:
    """A command that outlives its time raises, and does so after it is gone."""
    with pytest.raises(TimeoutError):
        await run_to_end(("sleep", "600"), cwd=tmp_path, environment=None, seconds=0)


async def test_a_cancelled_run_takes_its_children_along(tmp_path: Path) -> None:
    """The whole process group ends with the caller: a child's end of a pipe closes."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = ("sh", "-c", f"sleep 600 >'{pipe}' & wait")
    run = asyncio.create_task(run_to_end(words, cwd=tmp_path, environment=None, seconds=60))
    # Opening a named pipe waits for its other end, so from here on the child is known to run.
    reader = await asyncio.to_thread(os.open, pipe, os.O_RDONLY)
    run.cancel()
    await asyncio.wait([run])
    readable, _, _ = await asyncio.to_thread(select.select, [reader], [], [], 30)
    ended = readable == [reader] and os.read(reader, 1) == b""
    os.close(reader)
    assert (run.cancelled(), ended) == (True, True)
