"""Limits from a provider's own list of models: asked for once, as the client, where something compacts by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from tests.gateway.client import ENDPOINTS, WIRES, talk

from threadkeep import Config, Threadkeep
from threadkeep.dialects import Reply, find_dialect
from threadkeep.gateway.conversation.conversations import RecordedConversations
from threadkeep.gateway.conversation.model_windows import read_windows
from threadkeep.gateway.conversation.proxy_interface import Forward, Incoming, ProviderAnswer
from threadkeep.gateway.conversation.rules import Rules

if TYPE_CHECKING:
    from tests.doubles.wires import WireName
    from tests.gateway.conftest import ProxyWith

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("told", "windows"),
    [
        ({"data": [{"id": "a", "context_length": 32_768}, {"id": "b"}]}, {"a": 32_768}),
        ({"data": [{"id": "a", "max_model_len": 8_192}]}, {"a": 8_192}),
        ({"data": [{"id": "a", "meta": {"n_ctx": 4_096}}]}, {"a": 4_096}),
        ({"models": [{"slug": "a", "context_window": 272_000}]}, {"a": 272_000}),
        ({"type": "model", "id": "a", "max_input_tokens": 200_000}, {"a": 200_000}),
        ({"data": [{"id": "a", "context_length": 7}, {"id": 3, "context_length": 9_000}, "b", None]}, {}),
        ({"data": "none"}, {}),
        (["a"], {}),
    ],
)
async def test_every_way_of_telling_a_window_is_understood(told: Any, windows: dict[str, int]) -> None:
    """What is no list, or no window anybody could work in, tells nothing."""
    assert read_windows(json.dumps(told).encode()) == windows
    assert read_windows(b"\xff{") == {}


@pytest.mark.parametrize("wire", WIRES)
async def test_a_provider_is_asked_once_for_what_nobody_configured(tk: Threadkeep, wire: WireName) -> None:
    """From its answer on, its models' own windows decide when a conversation is compacted."""
    asked: list[str] = []

    async def list_models(path: str, *, is_at_root: bool = False) -> ProviderAnswer:
        asked.append(path)
        return ProviderAnswer(status=200, headers={}, body=b'{"data": [{"id": "m", "context_length": 10000}]}')

    client = talk(tk, wire, rules=Rules(auto_compact="on"))
    client.fields["model"] = "m"
    incoming = Incoming(path=ENDPOINTS[wire], headers={}, body=b"", read_path=list_models)
    for text in ("One.", "Two."):
        await client.ask(text)
        decided = await client.conversations.open(replace(incoming, body=client.body()))
        assert isinstance(decided, Forward)
        await decided.finished(Reply(outcome="failed"))
        await client.conversations.wait_idle()
    assert asked == [{"messages": "/models/m", "gemini": "/models/gemini-3-pro"}.get(wire, "/models")]
    assert (tk.backend.find_limits("m").hard, tk.backend.find_limits("other")) == (9_000, tk.backend.limits)


async def test_a_server_with_another_apis_list_tells_its_windows(tk: Threadkeep) -> None:
    """A server of many languages has no path for one model; its list is found all the same."""
    asked: list[str] = []

    async def list_models(path: str, *, is_at_root: bool = False) -> ProviderAnswer:
        asked.append(path)
        told = b'{"data": [{"id": "m", "max_model_len": 10000}]}'
        return ProviderAnswer(status=200 if path == "/models" else 404, headers={}, body=told if path == "/models" else b"{}")

    client = talk(tk, "messages", rules=Rules(auto_compact="on"))
    client.fields["model"] = "m"
    await client.ask("One.")
    incoming = Incoming(path="/messages", headers={}, body=client.body(), read_path=list_models)
    decided = await client.conversations.open(incoming)
    assert isinstance(decided, Forward)
    await decided.finished(Reply(outcome="failed"))
    await client.conversations.wait_idle()
    assert (asked, tk.backend.find_limits("m").hard) == (["/models/m", "/models"], 9_000)


async def test_what_is_configured_comes_first_and_nobody_asks_where_nothing_compacts() -> None:
    """A window that a person set stays, and with compaction off no provider is bothered."""

    async def list_models(path: str, *, is_at_root: bool = False) -> ProviderAnswer:
        raise AssertionError(f"asked for {path}")

    body = b'{"model": "m", "input": [{"role": "user", "content": "hi"}]}'
    incoming = Incoming(path="/responses", headers={}, body=body, read_path=list_models)
    async with Threadkeep(Config(store="memory:", model_windows={"m": 50_000})) as tk:
        tk.backend.add_windows({"m": 8_000})
        assert tk.backend.find_limits("m").hard == 45_000
        conversations = RecordedConversations(tk, find_dialect("responses"), rules=Rules(auto_compact="on"))
        assert isinstance(await conversations.open(incoming), Forward)
        await conversations.close()
    async with Threadkeep(Config(store="memory:")) as tk:
        conversations = RecordedConversations(tk, find_dialect("responses"), rules=Rules())
        assert isinstance(await conversations.open(incoming), Forward)
        await conversations.close()


async def test_the_list_is_asked_for_as_the_client_through_the_proxy(tk: Threadkeep, proxy_with: ProxyWith) -> None:
    """With the client's credential, at the provider its request goes to; an answer that is none changes nothing."""
    conversations = RecordedConversations(tk, find_dialect("chat"), rules=Rules(auto_compact="on"))

    async def of(tenant: str | None, dialect: str) -> RecordedConversations:
        return conversations

    async def handler(request: web.Request) -> web.StreamResponse:
        listed = request.path.endswith("/models")
        return web.json_response({"data": [{"id": "m", "max_model_len": 16_000}]} if listed else {"choices": []})

    async with proxy_with(conversations=of) as proxy:
        proxy.provider.handler = handler
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
        headers = {"Authorization": "Bearer k"}
        async with proxy.client.post(f"{proxy.url}/v1/chat/completions", data=body, headers=headers) as answer:
            await answer.read()
        await conversations.wait_idle()
        await conversations.close()
        listed = [seen for seen in proxy.provider.seen if seen.target == "/v1/models"]
    assert [(seen.method, seen.named(b"authorization")) for seen in listed] == [("GET", [(b"authorization", b"Bearer k")])]
    assert tk.backend.find_limits("m").hard == 14_400


@pytest.mark.parametrize(
    ("properties", "hard"),
    [
        ({"default_generation_settings": {"n_ctx": 16_000}, "total_slots": 4}, 14_400),
        ({"default_generation_settings": []}, 29_491),
    ],
)
async def test_llama_cpp_tells_the_window_it_was_started_with(
    tk: Threadkeep, proxy_with: ProxyWith, properties: Any, hard: int
) -> None:
    """Not below /v1 and not in its list, which tells of the model; without a readable answer the list counts."""
    conversations = RecordedConversations(tk, find_dialect("chat"), rules=Rules(auto_compact="on"))

    async def of(tenant: str | None, dialect: str) -> RecordedConversations:
        return conversations

    async def handler(request: web.Request) -> web.StreamResponse:
        listed = {"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131_072, "n_ctx": 32_768}}]}
        answers = {"/v1/models": listed, "/props": properties}
        return web.json_response(answers.get(request.path, {"choices": []}), headers={"Server": "llama.cpp"})

    async with proxy_with(conversations=of) as proxy:
        proxy.provider.handler = handler
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
        async with proxy.client.post(
            f"{proxy.url}/v1/chat/completions", data=body, headers={"Authorization": "Bearer k"}
        ) as answer:
            await answer.read()
        await conversations.wait_idle()
        await conversations.close()
        asked = [seen.target for seen in proxy.provider.seen if seen.method == "GET"]
    assert asked == ["/v1/models", "/props?model=m"]
    assert tk.backend.find_limits("m").hard == hard
