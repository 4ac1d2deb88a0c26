"""The gateway can ask a provider something of its own, as the client whose request it holds."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from threadkeep.gateway.conversation.proxy_interface import AnswerTooLong, Forward, Incoming, ProviderAnswer
from threadkeep.gateway.http.routes import PROVIDERS

if TYPE_CHECKING:
    from tests.gateway.conftest import Proxy, ProxyWith

pytestmark = pytest.mark.anyio

BODY = b'{"model": "m", "input": "hi"}'
OWN = b'{"input": "summarise"}'


class Asking:
    """A conversation that asks the provider something of its own while it decides."""

    def __init__(self, *, beside: tuple[str, dict[str, str]] | None = None) -> None:
        self._beside = beside
        self.heard: ProviderAnswer | ConnectionError | None = None

    async def of(self, tenant: str | None, dialect: str) -> Asking:
        return self

    async def open(self, incoming: Incoming) -> Forward:
        assert incoming.ask_provider is not None
        assert incoming.ask_path is not None
        try:
            if self._beside is None:
                self.heard = await incoming.ask_provider(OWN)
            else:
                path, headers = self._beside
                self.heard = await incoming.ask_path(path, OWN, headers)
        except ConnectionError as error:
            self.heard = error
        return Forward(body=incoming.body, finished=self.finished)

    async def finished(self, reply: object) -> None:
        """Nothing is kept."""


async def ask(proxy: Proxy, path: str = "/v1/responses?x=1") -> None:
    headers = {"Authorization": "Bearer secret", "X-Codex": "1", "Content-Type": "application/json", "Accept-Encoding": "gzip"}
    async with proxy.client.post(proxy.url + path, data=BODY, headers=headers) as answer:
        await answer.read()


async def test_it_is_sent_where_and_as_the_clients_own(proxy_with: ProxyWith) -> None:
    """Path, query, credentials and every other header are the client's; the body is the gateway's; the answer comes whole."""
    asking = Asking()
    async with proxy_with(conversations=asking.of) as proxy:

        async def handler(request: web.Request) -> web.StreamResponse:
            answer = web.StreamResponse(status=202, headers={"X-Request-Id": "r"})
            await answer.prepare(request)
            await answer.write(b"one ")
            await answer.write(b"two")
            return answer

        proxy.provider.handler = handler
        await ask(proxy)
        own, clients = proxy.provider.seen
    compared = (b"authorization", b"x-codex", b"content-type", b"accept-encoding")
    assert (own.method, own.target, own.body, clients.body) == ("POST", "/v1/responses?x=1", OWN, BODY)
    assert own.named(*compared) == clients.named(*compared)
    assert own.named(b"authorization", b"accept-encoding", b"content-length") == [
        (b"authorization", b"Bearer secret"),
        (b"accept-encoding", b"identity"),
        (b"content-length", str(len(OWN)).encode()),
    ]
    assert isinstance(asking.heard, ProviderAnswer)
    assert (asking.heard.status, asking.heard.body, asking.heard.headers["x-request-id"]) == (202, b"one two", "r")


async def test_an_answer_compressed_all_the_same_is_read(proxy_with: ProxyWith) -> None:
    """A provider may compress although it was asked not to."""
    asking = Asking()
    async with proxy_with(conversations=asking.of) as proxy:

        async def handler(request: web.Request) -> web.StreamResponse:
            return web.Response(body=gzip.compress(b"plain"), headers={"Content-Encoding": "gzip"})

        proxy.provider.handler = handler
        await ask(proxy)
    assert isinstance(asking.heard, ProviderAnswer)
    assert asking.heard.body == b"plain"


async def test_a_provider_that_breaks_off_is_a_connection_error(proxy_with: ProxyWith) -> None:
    """Half an answer is none, and what is raised holds no credential."""
    asking = Asking()
    async with proxy_with(conversations=asking.of) as proxy:

        async def handler(request: web.Request) -> web.StreamResponse:
            answer = web.StreamResponse()
            await answer.prepare(request)
            await answer.write(b"half")
            assert request.transport is not None
            request.transport.abort()
            return answer

        proxy.provider.handler = handler
        async with proxy.client.post(f"{proxy.url}/v1/responses", data=BODY, headers={"X-Api-Key": "secret"}) as answer:
            assert answer.status == 200
    assert isinstance(asking.heard, ConnectionError)
    assert "secret" not in str(asking.heard)


async def test_a_provider_that_is_not_there_is_a_connection_error(proxy_with: ProxyWith, unused_port: int) -> None:
    """The same where nobody listens."""
    asking = Asking()
    nowhere = dict.fromkeys(PROVIDERS, f"http://127.0.0.1:{unused_port}")
    async with proxy_with(conversations=asking.of, upstreams=nowhere) as proxy:
        await ask(proxy)
    assert isinstance(asking.heard, ConnectionError)


async def test_another_path_is_asked_with_the_clients_headers_and_one_more(proxy_with: ProxyWith) -> None:
    """What the API calls for joins what the client already says under the same name."""
    asking = Asking(beside=("/messages/other", {"anthropic-beta": "compact-1"}))
    async with proxy_with(conversations=asking.of) as proxy:
        headers = {"Authorization": "Bearer secret", "Anthropic-Beta": "context-1m"}
        async with proxy.client.post(f"{proxy.url}/v1/messages", data=BODY, headers=headers) as answer:
            await answer.read()
        own, clients = proxy.provider.seen
    assert (own.target, own.body, clients.target) == ("/v1/messages/other", OWN, "/v1/messages")
    assert own.named(b"authorization", b"anthropic-beta") == [
        (b"authorization", b"Bearer secret"),
        (b"anthropic-beta", b"context-1m,compact-1"),
    ]
    assert clients.named(b"anthropic-beta") == [(b"anthropic-beta", b"context-1m")]


async def test_an_answer_that_does_not_end_is_broken_off(proxy_with: ProxyWith) -> None:
    """A model that goes on and on is left, and its provider can notice."""
    asking = Asking()
    async with proxy_with(conversations=asking.of) as proxy:

        async def handler(request: web.Request) -> web.StreamResponse:
            if len(proxy.provider.seen) > 1:
                return web.json_response({})
            answer = web.StreamResponse()
            await answer.prepare(request)
            while True:
                await answer.write(bytes(1024 * 1024))

        proxy.provider.handler = handler
        await ask(proxy)
        assert isinstance(asking.heard, AnswerTooLong)


async def test_nothing_of_a_credential_is_shown(proxy: Proxy) -> None:
    """What a conversation is given can be printed without saying who asked."""
    await ask(proxy)
    [incoming] = proxy.script.opened
    assert ("secret" in repr(incoming), incoming.headers["authorization"]) == (False, "Bearer secret")
