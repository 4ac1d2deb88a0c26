"""`threadkeep serve` as it is run: keys, control token, access log and a stop, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession

from threadkeep.client import Config, Threadkeep
from threadkeep.gateway.http.keys import digest_key
from threadkeep.gateway.serve import running_gateway

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gateway.conftest import Provider

pytestmark = pytest.mark.anyio

KEY = "tkk_of-alice"
SECONDS = 120


async def test_a_gateway_with_keys_from_start_to_stop(provider: Provider, tmp_path: Path) -> None:
    """No key, no answer; with one, a recorded answer; the token in the file opens the control API; stderr is the access log."""
    keys = tmp_path / "keys.toml"
    keys.write_text(f'[keys]\n"{digest_key(KEY)}" = "alice"\n')
    store = tmp_path / "served.db"
    words = ("serve", "--json", "--port", "0", "--store", str(store), "--keys", str(keys), "--openai-upstream", provider.url)
    pipe = asyncio.subprocess.PIPE
    environ = {name: value for name, value in os.environ.items() if not name.startswith("THREADKEEP_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "threadkeep.cli",
        *words,
        stdout=pipe,
        stderr=pipe,
        cwd=tmp_path,
        env=environ | {"HOME": str(tmp_path)},
    )
    async with asyncio.timeout(SECONDS), ClientSession() as client:
        assert process.stdout is not None
        ready = json.loads(await process.stdout.readline())
        url = ready["url"]
        body = json.dumps({"model": "m", "input": [{"role": "user", "content": "the secret of the vault"}]})
        statuses = []
        for base in (f"{url}/v1", f"{url}/k/{KEY}/v1"):
            async with client.post(f"{base}/responses", data=body) as answer:
                statuses.append(answer.status)
                # What a request brings is durable before its answer ends, not before it begins.
                await answer.read()
        token = (tmp_path / "served.db.control-token").read_text().strip()
        for headers in ({"Authorization": f"Bearer {token}"}, {"X-Threadkeep-Key": KEY}):
            async with client.get(f"{url}/threadkeep/v1/threads", headers=headers) as answer:
                statuses.append(len((await answer.json())["threads"]))
        process.send_signal(signal.SIGTERM)
        out, err = await process.communicate()
    assert (ready["control_token_file"], statuses) == (str(tmp_path / "served.db.control-token"), [401, 200, 0, 1])
    assert (process.returncode, out) == (0, b"")
    told = [json.loads(line) for line in err.splitlines()]
    assert [(line["route"], line["status"], line.get("tenant")) for line in told] == [
        ("unknown", 401, None),
        ("responses", 200, "alice"),
        ("control", 200, None),
        ("control", 200, "alice"),
    ]
    assert (b"vault" in err, KEY.encode() in err, token.encode() in err) == (False, False, False)


async def test_watchers_do_not_hold_up_a_stop(provider: Provider, tmp_path: Path) -> None:
    """Leaving a running gateway ends the streams of events that are open, and waits for nothing else."""
    async with asyncio.timeout(SECONDS), Threadkeep(Config(store=str(tmp_path / "watched.db"))) as tk, ClientSession() as client:
        await tk.thread("watched")
        async with running_gateway(tk, upstream=provider.url, control_token="t" * 40) as url:
            headers = {"Authorization": f"Bearer {'t' * 40}"}
            answer = await client.get(f"{url}/threadkeep/v1/threads/watched/events", headers=headers)
            assert await answer.content.readline() == b"retry: 1000\n"
        assert await answer.content.read() == b"\n"


async def test_a_history_in_each_dialect_is_recorded_in_its_own_thread(provider: Provider, tmp_path: Path) -> None:
    """One gateway keeps all three wire languages, and knows each history again."""
    turns = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}]
    paths = {"responses": "input", "chat/completions": "messages", "messages": "messages"}
    async with Threadkeep(Config(store=str(tmp_path / "three.db"))) as tk, ClientSession() as client:
        async with running_gateway(tk, upstream=provider.url) as url:
            for path, name in paths.items():
                for length in (1, 3):
                    body = json.dumps({"model": "m", name: turns[:length]})
                    async with client.post(f"{url}/v1/{path}", data=body) as answer:
                        assert answer.status == 200
        threads = {thread.dialect: thread.turns for thread in await tk.threads()}
    assert threads == {"responses": 2, "chat": 2, "messages": 2}
