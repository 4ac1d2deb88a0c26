"""What passes through the gateway passes unchanged, in both directions and as it comes."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientPayloadError, ClientSession, web
from yarl import URL

from threadkeep.gateway.app import Gateway
from threadkeep.gateway.http.routes import PROVIDERS
from threadkeep.gateway.http.server import run_server
from threadkeep.gateway.http.upstream import open_upstream_session

if TYPE_CHECKING:
    from tests.gateway.conftest import Headers, Proxy

pytestmark = pytest.mark.anyio

OWN = (b"x-odd", b"x-many", b"authorization", b"anthropic-beta", b"user-agent", b"accept-encoding", b"content-type")


def _both(upstream: str) -> dict[str, str]:
    return dict.fromkeys(PROVIDERS, upstream)


async def test_a_request_arrives_as_it_was_sent(proxy: Proxy) -> None:
    """Method, path, query, body and every end-to-end header reach the provider, repeated headers in their order."""
    body = b'{"any": "\xc3\xbc", "spaced" : 1}'
    headers = [
        ("X-Many", "first"),
        ("X-Odd", "gr\u00fc\u00df"),
        ("X-Many", "second"),
        ("Authorization", "Bearer secret"),
        ("User-Agent", "some-client/1"),
        ("Accept-Encoding", "br;q=0.5, gzip"),
        ("Content-Type", "application/json"),
    ]
    target = URL(f"{proxy.url}/v1/files/a%2Fb?x=%20y&x=2&empty", encoded=True)
    async with proxy.client.put(target, data=body, headers=headers) as answer:
        await answer.read()
    [seen] = proxy.provider.seen
    assert (seen.method, seen.target, seen.body) == ("PUT", "/v1/files/a%2Fb?x=%20y&x=2&empty", body)
    assert seen.named(*OWN) == [(name.lower().encode(), value.encode()) for name, value in headers]
    assert seen.named(b"content-length", b"transfer-encoding") == [(b"content-length", str(len(body)).encode())]


async def test_nothing_is_added_to_a_request(proxy: Proxy) -> None:
    """A request without agent, accepted forms or type reaches the provider without them."""
    skipped = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
    async with proxy.client.post(f"{proxy.url}/v1/files", data=b"x", skip_auto_headers=skipped) as answer:
        await answer.read()
    [seen] = proxy.provider.seen
    assert [name for name, _ in seen.headers] == [b"host", b"content-length"]


async def test_what_speaks_of_one_connection_stays_there(proxy: Proxy) -> None:
    """Hop-by-hop headers, those the Connection header names included, are not forwarded; the host is the provider's own."""
    headers = {"Connection": "x-mine, keep-alive", "X-Mine": "1", "TE": "trailers", "Proxy-Authorization": "Basic eA=="}
    async with proxy.client.get(f"{proxy.url}/v1/models", headers=headers) as answer:
        await answer.read()
    [seen] = proxy.provider.seen
    assert seen.named(b"x-mine", b"te", b"proxy-authorization", b"keep-alive") == []
    assert seen.named(b"host") == [(b"host", proxy.provider.url.removeprefix("http://").encode())]


async def test_an_answer_arrives_as_it_was_sent(proxy: Proxy) -> None:
    """Status, every end-to-end header with its repetitions, and the bytes of the body reach the client."""

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.Response(status=418, body=b"\x00\xffbytes")
        for name, value in (("Set-Cookie", "a=1"), ("X-Request-Id", "r1"), ("Set-Cookie", "b=2"), ("Keep-Alive", "timeout=9")):
            answer.headers.add(name, value)
        return answer

    proxy.provider.handler = handler
    async with proxy.client.get(f"{proxy.url}/v1/models") as answer:
        body = await answer.read()
        direct = await proxy.client.get(f"{proxy.provider.url}/v1/models")
        assert (answer.status, body) == (418, b"\x00\xffbytes")
        assert _compared(answer.raw_headers) == _compared(direct.raw_headers)
        assert (b"set-cookie", b"b=2") in _compared(answer.raw_headers)


def _compared(raw: tuple[tuple[bytes, bytes], ...]) -> Headers:
    """Return the headers that must be the same through the gateway as without it; the clock may tick in between."""
    own = (b"content-length", b"transfer-encoding", b"keep-alive", b"connection", b"date")
    return [(name.lower(), value) for name, value in raw if name.lower() not in own]


async def test_each_chunk_is_relayed_before_the_next_exists(proxy: Proxy) -> None:
    """The provider writes its next chunk only when the client has the one before."""
    received = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"one")
        await received.wait()
        await answer.write(b"two")
        return answer

    proxy.provider.handler = handler
    async with proxy.client.get(f"{proxy.url}/v1/stream") as answer:
        assert await answer.content.readany() == b"one"
        received.set()
        assert await answer.content.read() == b"two"


@pytest.mark.parametrize(("path", "method"), [("/v1/models", "GET"), ("/v1/responses", "POST")])
async def test_a_client_that_does_not_read_holds_up_its_provider(proxy: Proxy, path: str, method: str) -> None:
    """A slow client fills some buffers and then the provider waits for it; once it reads, it gets every byte."""
    piece, pieces = b"x" * 65_536, 1_000
    progress: asyncio.Queue[None] = asyncio.Queue()

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for _ in range(pieces):
            await answer.write(piece)
            progress.put_nowait(None)
        return answer

    proxy.provider.handler = handler
    async with proxy.client.request(method, proxy.url + path, data=b"{}" if method == "POST" else None) as answer:
        written = 0
        try:
            while True:
                await asyncio.wait_for(progress.get(), timeout=1)
                written += 1
        except TimeoutError:
            assert written < pieces / 2
        received = 0
        async for chunk in answer.content.iter_any():
            received += len(chunk)
    assert received == len(piece) * pieces


async def test_a_request_body_is_relayed_while_it_is_written(proxy: Proxy) -> None:
    """The client writes its next piece only when the provider has the one before."""
    arrived = asyncio.Event()
    pieces: list[bytes] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        pieces.append(await request.content.readany())
        arrived.set()
        pieces.append(await request.content.read())
        return web.Response()

    async def upload() -> AsyncIterator[bytes]:
        yield b"one"
        await arrived.wait()
        yield b"two"

    proxy.provider.read_first = False
    proxy.provider.handler = handler
    async with proxy.client.post(f"{proxy.url}/v1/files", data=upload()) as answer:
        assert answer.status == 200
    assert pieces == [b"one", b"two"]


async def test_compressed_answers_stay_compressed(proxy: Proxy) -> None:
    """On routes that are not read, a compressed answer is relayed with its encoding and its exact bytes."""
    packed = gzip.compress(b'{"data": []}')

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    proxy.provider.handler = handler
    async with proxy.client.get(f"{proxy.url}/v1/models", headers={"Accept-Encoding": "gzip"}) as answer:
        assert (answer.headers["Content-Encoding"], await answer.read()) == ("gzip", packed)
    assert proxy.provider.seen[0].named(b"accept-encoding") == [(b"accept-encoding", b"gzip")]


async def test_redirects_are_the_clients_affair(proxy: Proxy) -> None:
    """A redirect is relayed, not followed."""

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "/v1/elsewhere"})

    proxy.provider.handler = handler
    async with proxy.client.get(f"{proxy.url}/v1/models", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (307, "/v1/elsewhere")
    assert [seen.target for seen in proxy.provider.seen] == ["/v1/models"]


async def test_a_cookie_is_kept_by_nobody_but_the_client(proxy: Proxy) -> None:
    """What a provider sets for one client is not sent along with the request of another."""

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(headers={"Set-Cookie": "session=1"})

    proxy.provider.handler = handler
    # Cookies are kept for names only, so the provider must be called by one.
    by_name = proxy.provider.url.replace("127.0.0.1", "localhost")
    async with open_upstream_session() as session:
        app = Gateway(upstreams=_both(by_name), conversations=proxy.script.of, session=session, version="0")
        async with run_server(app) as url:
            for _ in range(2):
                async with ClientSession() as client, client.get(f"{url}/v1/models") as answer:
                    assert answer.headers["Set-Cookie"] == "session=1"
    assert [seen.named(b"cookie") for seen in proxy.provider.seen] == [[], []]


async def test_a_head_request_has_no_body(proxy: Proxy) -> None:
    """Methods other than GET and POST pass through; the answer to HEAD ends with its headers."""
    async with proxy.client.head(f"{proxy.url}/v1/models") as answer:
        assert (answer.status, await answer.read()) == (200, b"")
    assert [seen.method for seen in proxy.provider.seen] == ["HEAD"]


@pytest.mark.parametrize(("path", "method"), [("/v1/models", "GET"), ("/v1/responses", "POST")])
async def test_a_client_that_leaves_takes_its_request_along(proxy: Proxy, path: str, method: str) -> None:
    """When the client closes its connection in mid-answer, the provider sees its own connection close."""

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"data: 1\n\n")
        await asyncio.Event().wait()
        return answer

    proxy.provider.handler = handler
    async with proxy.client.request(method, proxy.url + path, data=b"{}" if method == "POST" else None) as answer:
        assert await answer.content.readany() == b"data: 1\n\n"
        answer.close()
        await proxy.provider.left.wait()


async def test_a_client_that_leaves_before_the_answer_takes_its_request_along(proxy: Proxy) -> None:
    """The same while the provider has not answered at all yet."""
    asked = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.Event().wait()
        return web.Response()

    proxy.provider.handler = handler
    asking = asyncio.create_task(proxy.client.get(f"{proxy.url}/v1/models").__aenter__())
    await asked.wait()
    asking.cancel()
    await proxy.provider.left.wait()


async def test_an_answer_that_breaks_off_does_not_look_whole(proxy: Proxy) -> None:
    """When the provider dies in mid-answer the client gets what came, and then an error."""

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return answer

    proxy.provider.handler = handler
    async with proxy.client.get(f"{proxy.url}/v1/models") as answer:
        assert await answer.content.readany() == b"half"
        with pytest.raises(ClientPayloadError):
            await answer.content.read()
    assert proxy.app.failures == {"relay.upstream_cut": 1}


async def test_a_provider_that_is_not_there(proxy: Proxy, unused_port: int) -> None:
    """The client is told which host and port could not be reached, in the provider's own error shape, and not the path."""
    app = Gateway(
        upstreams=_both(f"http://127.0.0.1:{unused_port}/secret/v1"),
        conversations=proxy.script.of,
        session=proxy.client,
        version="0",
    )
    async with run_server(app) as url, proxy.client.get(f"{url}/v1/models") as answer:
        error = json.loads(await answer.read())["error"]
    assert (answer.status, error["code"], error["type"]) == (502, "upstream_unreachable", "server_error")
    assert re.match(rf"127\.0\.0\.1:{unused_port} could not be reached", error["message"])
    assert "secret" not in error["message"]


async def test_a_gateway_without_traffic_is_healthy(proxy: Proxy) -> None:
    """The health check answers without asking the provider."""
    async with proxy.client.get(f"{proxy.url}/healthz") as answer:
        assert (answer.status, await answer.json()) == (200, {"ok": True, "version": "1.2.3"})
    assert proxy.provider.seen == []


@pytest.mark.parametrize("path", ["/", "/v2/models", "/v1x", "/healthz/x"])
async def test_other_paths_are_unknown(proxy: Proxy, path: str) -> None:
    """What is neither the API nor the gateway's own is refused, not relayed."""
    async with proxy.client.get(proxy.url + path) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (404, "unknown_path")
    assert proxy.provider.seen == []
