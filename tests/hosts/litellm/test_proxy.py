"""LiteLLM's proxy as its users start it, with threadkeep named in its config: what the model was sent, whole."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.doubles.provider import ScriptedProvider
from tests.hosts.litellm.play import TURNS, WINDOW_TOKENS, essential, expected, history, items, replies, sent, states

from threadkeep.client import Config, Threadkeep

pytestmark = [pytest.mark.hosts, pytest.mark.anyio, pytest.mark.moves_prefix(reason="each compaction moves it once")]

KEY = "sk-proxy"
READY = b"Uvicorn running on"
CONFIG = """
model_list:
  - model_name: scripted
    litellm_params: {{model: openai/scripted, api_base: "{url}", api_key: sk-upstream}}
litellm_settings:
  callbacks: [threadkeep.adapters.litellm.hook]
"""


@asynccontextmanager
async def proxy(folder: Path, url: str) -> AsyncIterator[str]:
    """Run the proxy until the block ends, then kill it."""
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(url=url), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("litellm")),
        *("--config", str(config), "--host", "127.0.0.1", "--port", str(port)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=_environ(folder),
        cwd=folder,
    )
    assert process.stdout is not None
    lines: list[bytes] = []
    while line := await process.stdout.readline():
        lines.append(line)
        if READY in line:
            break
    else:
        raise AssertionError(b"".join(lines[-40:]).decode())
    draining = asyncio.create_task(process.stdout.read())
    try:
        yield f"http://127.0.0.1:{port}/v1/chat/completions"
    finally:
        process.kill()
        await process.wait()
        await draining


def _environ(folder: Path) -> Mapping[str, str]:
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return inherited | {
        "HOME": str(folder),
        "THREADKEEP_STORE": str(folder / "threads.db"),
        "THREADKEEP_MODEL_CONTEXT_WINDOW": str(WINDOW_TOKENS),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MASTER_KEY": KEY,
        "NO_PROXY": "127.0.0.1",
        "PYTHONUNBUFFERED": "1",
    }


async def test_a_conversation_through_the_proxy_survives_its_death(tmp_path: Path) -> None:
    """The proxy is killed in the middle and started again: three compactions, one thread, nothing twice, all of it whole."""
    shown = [*history()]
    headers = {"authorization": f"Bearer {KEY}", "x-litellm-session-id": "s"}

    async def ask(client: aiohttp.ClientSession, url: str, messages: list[dict[str, Any]]) -> None:
        async with client.post(url, json={"model": "scripted", "messages": messages}, headers=headers) as answer:
            assert answer.status == 200, await answer.text()

    async with ScriptedProvider(replies(), counting=True) as model, aiohttp.ClientSession() as client:
        for part in (shown[:TURNS], shown[TURNS:]):
            async with proxy(tmp_path, model.url) as url:
                for messages in part:
                    await ask(client, url, messages)
    store = tmp_path / "threads.db"
    async with Threadkeep(Config(store=str(store))) as tk:
        (summary,) = await tk.threads()
        recalled = await (await tk.find(summary.id)).recall("heliotrope-2")
    kept = await states(store, summary.id)
    assert len(kept) >= 3
    assert [sent(request) for request in model.requests] == expected(model.requests, kept)
    assert await items(store, summary.id) == [essential(message) for message in shown[-1][1:]]
    assert any("report 2 is on file under heliotrope-2" in hit.text for hit in recalled)
