"""Tenants share a gateway and a file, and nothing else: no thread, no digest, no search result, no checkpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession, web

from threadkeep.client import Config, Threadkeep
from threadkeep.gateway.http.keys import Keys, digest_key
from threadkeep.gateway.serve import make_tenant_rules, running_gateway
from threadkeep.store import Record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.gateway.conftest import Provider

pytestmark = pytest.mark.anyio

ALICE, BOB = "tkk_alice-key", "tkk_bob-key"
KEYS = Keys({digest_key(ALICE): "alice", digest_key(BOB): "bob", digest_key("tkk_second"): "alice"})
HISTORY = [
    {"role": "user" if number % 2 == 0 else "assistant", "content": f"Step {number} of the vault. " + "word " * 400}
    for number in range(13)
]


@pytest.fixture
async def tk(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Threadkeep]:
    async with Threadkeep(Config(store=str(tmp_path / "shared.db"), model_context_window=20_000)) as opened:
        yield opened


async def say(url: str, history: list[dict[str, Any]], *, key: str, path: str = "/v1/responses", credential: str = "sk") -> Any:
    """Send a history as a client that resends it whole; return the answer."""
    field = "input" if path.endswith("responses") else "messages"
    headers = {"X-Threadkeep-Key": key, "Authorization": f"Bearer {credential}"}
    body = json.dumps({"model": "m", field: history})
    async with ClientSession() as client, client.post(url + path, data=body, headers=headers) as answer:
        assert answer.status == 200
        return await answer.json(content_type=None)


async def chains(tk: Threadkeep, tenant: str) -> list[bytes]:
    """Return every chain digest a tenant has."""
    found: list[Record] = []
    store = await tk.for_tenant(tenant)
    for summary in await store.threads():
        found.extend(await (await store.find(summary.id)).records())
    return [record.chain for record in found if record.chain is not None]


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/messages"])
async def test_the_same_history_under_two_keys_is_two_threads(tk: Threadkeep, provider: Provider, path: str) -> None:
    """Each tenant gets a thread of its own, with digests the other cannot guess; the file's own tenant has none."""
    async with running_gateway(tk, upstream=provider.url, keys=KEYS) as url:
        for key in (ALICE, BOB):
            await say(url, HISTORY[:3], key=key, path=path)
    alice, bob = await tk.for_tenant("alice"), await tk.for_tenant("bob")
    [hers], [his] = await alice.threads(), await bob.threads()
    assert (hers.turns, his.turns, hers.id != his.id, await tk.threads()) == (2, 2, True, [])
    assert set(await chains(tk, "alice")).isdisjoint(await chains(tk, "bob"))
    assert await bob.backend.store.lookup(await chains(tk, "alice")) == []


async def test_a_rotated_credential_or_key_keeps_the_thread(tk: Threadkeep, provider: Provider) -> None:
    """Whose thread it is depends on the tenant alone."""
    async with running_gateway(tk, upstream=provider.url, keys=KEYS) as url:
        await say(url, HISTORY[:1], key=ALICE, credential="sk-old")
        await say(url, HISTORY[:3], key=ALICE, credential="sk-new")
        await say(url, HISTORY[:5], key="tkk_second", credential="sk-new")
    [thread] = await (await tk.for_tenant("alice")).threads()
    assert thread.turns == 3


async def test_a_checkpoint_of_one_tenant_is_not_applied_to_another(tk: Threadkeep, provider: Provider) -> None:
    """After one of them compacted, the same history of the other still goes upstream as it is."""
    asked = {"role": "user", "content": "/compact"}
    more = {"role": "user", "content": "Go on."}
    async with running_gateway(tk, upstream=provider.url, keys=KEYS) as url:
        for key in (ALICE, BOB):
            await say(url, HISTORY, key=key)
        told = await say(url, [*HISTORY, asked], key=ALICE)
        answer = told["output"][0]
        for key in (ALICE, BOB):
            await say(url, [*HISTORY, asked, answer, more], key=key)
    sent = [len(seen.body) for seen in provider.seen]
    assert "Compacted" in json.dumps(answer)
    assert sent[-2] < sent[0] * 0.8
    assert sent[-1] > sent[0] * 0.99
    alice, bob = await tk.for_tenant("alice"), await tk.for_tenant("bob")
    assert [thread.checkpoints for thread in await alice.threads()] == [1]
    assert [thread.checkpoints for thread in await bob.threads()] == [0]


async def test_a_search_finds_only_ones_own(tk: Threadkeep, provider: Provider) -> None:
    """No words find what another tenant said."""
    async with running_gateway(tk, upstream=provider.url, keys=KEYS) as url:
        await say(url, [{"role": "user", "content": "the code of the vault is 4711"}], key=ALICE)
        await say(url, [{"role": "user", "content": "what is the weather"}], key=BOB)
    found = {}
    for tenant in ("alice", "bob"):
        store = await tk.for_tenant(tenant)
        [summary] = await store.threads()
        found[tenant] = len(await (await store.find(summary.id)).recall("vault 4711"))
    assert (found["alice"] >= 1, found["bob"]) == (True, 0)


async def test_nothing_of_a_credential_or_key_is_stored(tk: Threadkeep, provider: Provider, tmp_path: Path) -> None:
    """No file of the store holds a byte of either."""
    async with running_gateway(tk, upstream=provider.url, keys=KEYS) as url:
        await say(url, HISTORY[:3], key=ALICE, credential="sk-very-secret")
    await tk.backend.store.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert (b"sk-very-secret" in stored, ALICE.encode() in stored, b"vault" in stored) == (False, False, True)


@pytest.mark.parametrize(
    ("table", "modes"),
    [
        ({}, ["off", "off", "off"]),
        ({"tenant:alice": "on"}, ["on", "on", "off"]),
        ({"route:chat": "background"}, ["off", "background", "background"]),
        ({"tenant:alice": "on", "route:chat": "background"}, ["on", "on", "background"]),
    ],
)
def test_compaction_is_switched_on_for_a_tenant_or_a_route(table: dict[str, str], modes: list[str]) -> None:
    """`auto_compact_for` names tenants and routes besides clients and models; the tenant counts first."""
    found = [
        make_tenant_rules(Config(tenant=tenant, auto_compact_for=table), dialect=dialect, auto_compact=False).auto_compact
        for tenant, dialect in (("alice", "responses"), ("alice", "chat"), ("bob", "chat"))
    ]
    assert found == modes


async def test_only_who_asked_for_it_is_compacted(tmp_path: Path, provider: Provider) -> None:
    """Where a provider finds a history too long, the tenant that switched compaction on is answered, the other is refused."""

    async def handler(request: web.Request) -> web.StreamResponse:
        too_long = len(provider.seen[-1].body) > 15_000
        error = {"error": {"message": "x", "code": "context_length_exceeded"}}
        return web.json_response(error if too_long else {"id": "r"}, status=400 if too_long else 200)

    provider.handler = handler
    config = Config(store=str(tmp_path / "some.db"), auto_compact_for={"tenant:alice": "on"})
    statuses = []
    async with Threadkeep(config) as tk, running_gateway(tk, upstream=provider.url, keys=KEYS) as url, ClientSession() as client:
        for key in (ALICE, BOB):
            body = json.dumps({"model": "m", "input": HISTORY})
            async with client.post(f"{url}/v1/responses", data=body, headers={"X-Threadkeep-Key": key}) as answer:
                statuses.append(answer.status)
    assert statuses == [200, 400]
