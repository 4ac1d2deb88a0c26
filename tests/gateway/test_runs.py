"""What belongs to one launch of a client, and how it knows whose gateway it asks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import say

from threadkeep.client import Config, Threadkeep
from threadkeep.gateway.control.identity import answer_identity, ask_identity, make_identity
from threadkeep.gateway.http.metrics import MOST_RUNS, Runs
from threadkeep.gateway.http.server import run_server
from threadkeep.gateway.serve import Serving, open_gateway

TOKEN = "the-token-of-this-store"
ONE, OTHER = "0123456789abcdef", "fedcba9876543210"
LONG = "The build log says nothing of interest here. " * 450


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[tuple[ScriptedProvider, str]]:
    """A gateway that compacts before eight thousand tokens, and its provider."""
    config = Config(store="memory:", auto_compact="on", model_auto_compact_token_limit=8_000)
    script = [say(f"{number} {LONG}") for number in range(4)]
    async with ScriptedProvider(script, enforcing=True) as provider, Threadkeep(config) as tk:
        serving = Serving(upstream=provider.url, control_token=TOKEN, identity=make_identity(config))
        async with open_gateway(tk, serving) as app, run_server(app, on_stop=app.stop) as url:
            yield provider, url


@pytest.mark.anyio
async def test_a_run_is_counted_apart(gateway: tuple[ScriptedProvider, str]) -> None:
    """Requests below `/run/ID` count for that run alone, with their threads, compactions, and tokens on both sides."""
    provider, url = gateway
    history: list[dict[str, str]] = []
    authorised = {"Authorization": f"Bearer {TOKEN}"}

    async def say_to(client: ClientSession, base: str, text: str) -> None:
        history.append({"role": "user", "content": text})
        async with client.post(f"{base}/v1/chat/completions", json={"model": "m", "messages": history}) as answer:
            history.append({"role": "assistant", "content": (await answer.json())["choices"][0]["message"]["content"]})

    async with ClientSession() as client:
        for number in range(3):
            await say_to(client, f"{url}/run/{ONE}", f"Rule {number}: never touch file {number}.")
        history.clear()
        await say_to(client, url, "Hello.")
        async with client.get(f"{url}/threadkeep/v1/runs/{ONE}", headers=authorised) as answer:
            counted = await answer.json()
        async with client.get(f"{url}/threadkeep/v1/runs/{OTHER}", headers=authorised) as answer:
            nothing = await answer.json()
        async with client.get(f"{url}/threadkeep/v1/runs/{ONE}") as answer:
            assert answer.status == 401
    assert nothing == {"requests": 0, "client_tokens": 0, "provider_tokens": 0, "compactions": 0, "threads": []}
    sent = [len(request.raw) for request in provider.requests]
    assert (counted["requests"], counted["compactions"], len(counted["threads"])) == (3, 1, 1)
    assert counted["provider_tokens"] == sum(-(-size // 4) for size in sent[:3])
    assert counted["client_tokens"] > counted["provider_tokens"]
    assert [request.path for request in provider.requests] == ["/v1/chat/completions"] * 4


@pytest.mark.anyio
async def test_a_websocket_is_refused_at_once(gateway: tuple[ScriptedProvider, str]) -> None:
    """426 makes Codex go on over HTTP; passed on as a plain request it would try again and again."""
    provider, url = gateway
    provider._script = ()
    asked = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "x"}
    async with ClientSession() as client, client.get(f"{url}/v1/responses", headers=asked) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (426, "no_websocket")
    assert provider.requests == []


@pytest.mark.anyio
async def test_a_gateway_proves_that_it_holds_the_token(gateway: tuple[ScriptedProvider, str]) -> None:
    """Whoever asks learns nothing to answer the next question with, and the token is not said."""
    provider, url = gateway
    provider._script = ()
    nonces = ("a" * 16, "b" * 16)
    proofs = []
    async with ClientSession() as client:
        for nonce in nonces:
            async with client.get(f"{url}/threadkeep/v1/identity?nonce={nonce}") as answer:
                body = await answer.text()
                proofs.append(json.loads(body)["proof"])
                assert TOKEN not in body
        async with client.get(f"{url}/threadkeep/v1/identity") as answer:
            assert answer.status == 400
    assert proofs[0] != proofs[1]


def test_an_identity_is_believed_only_with_the_same_token() -> None:
    identity = make_identity(Config())

    def ask(path: str) -> bytes:
        answer = answer_identity(path.partition("?")[2].encode(), identity, token=TOKEN)
        assert answer is not None
        return answer

    def lie(path: str) -> bytes:
        return ask(path).replace(b'"needs_keys\\":false', b'"needs_keys\\":true ')

    def answer_something(path: str) -> bytes:
        return b"<html>"

    def refuse(path: str) -> bytes:
        raise ConnectionRefusedError

    assert ask_identity(ask, token=TOKEN) == identity
    assert ask(f"?nonce={'n' * 16}") != lie(f"?nonce={'n' * 16}")
    assert [ask_identity(how, token=TOKEN) for how in (lie, answer_something, refuse)] == [None] * 3
    assert ask_identity(ask, token="another") is None


def test_settings_that_matter_to_a_client_make_another_identity() -> None:
    """Where a gateway listens does not."""
    config = Config()
    assert make_identity(replace(config, port=1, access_log="off")) == make_identity(config)
    others: list[dict[str, Any]] = [
        {"openai_upstream": "http://a"},
        {"model_context_window": 1},
        {"auto_compact": "on"},
        {"keys_file": "k"},
    ]
    identities = [make_identity(replace(config, **other)) for other in others]
    assert make_identity(config) not in identities
    assert len({str(identity) for identity in identities}) == len(others)


def test_old_runs_are_forgotten() -> None:
    """No client can fill the memory with names of runs."""
    runs = Runs()
    runs.get_run("oldest00").add_thread("t1")
    for number in range(MOST_RUNS):
        runs.get_run(f"run{number:08d}")
    assert runs.find("oldest00").threads == []
