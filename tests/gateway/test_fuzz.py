"""Whatever clients and providers send, the gateway stays up, mixes no tenants, and loses no record it acknowledged."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import pytest
import zstandard
from aiohttp import ClientError, ClientSession, web

from threadkeep.client import Config, Threadkeep
from threadkeep.dialects import DIALECTS, Answer, find_dialect
from threadkeep.gateway.conversation.proxy_interface import Forward, Smaller
from threadkeep.gateway.http.keys import Keys, digest_key
from threadkeep.gateway.serve import running_gateway

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gateway.conftest import Provider, Proxy

TENANTS = {"alice": "tkk_alice-key", "bob": "tkk_bob-key"}
KEYS = Keys({digest_key(key): tenant for tenant, key in TENANTS.items()})
REQUESTS = int(os.environ.get("THREADKEEP_FUZZ_REQUESTS", "150"))
AT_ONCE = 8
SECONDS = 60 + REQUESTS

METHODS = ("GET", "POST", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "PROPFIND", "bad\x00", "")
PATHS = (
    *("/v1/responses", "/v1/chat/completions", "/v1/messages", "/responses", "/messages") * 4,
    *(
        "/v1/models",
        "/v1/messages/count_tokens",
        "/v1/responses/compact",
        "/v1",
        "/v1/",
        "/",
        "",
        "*",
        "//",
        "/k/",
        "/k//v1/models",
    ),
    *("/v1/../x", "/v1/%2e%2e/x", "/v1/%00", "/v1/a b", "/metrics", "/healthz", "/readyz", "/threadkeep/v1/threads", "/v1/\xff"),
    *(
        "/threadkeep/v1/threads/x/window",
        "/threadkeep/v1/threads/%2e%2e/undo",
        "/v1/responses?x=%zz",
        "/v1/responses;x",
        "/v1?/../..",
    ),
)
CODINGS = ("gzip", "zstd", "deflate", "br", "gzip, zstd", "identity", "GZIP", "x" * 300, ",", "\x00")


@dataclass(slots=True)
class Told:
    """What a tenant said that the gateway answered in full, and everything that it was answered."""

    acknowledged: list[str] = field(default_factory=list)
    heard: bytearray = field(default_factory=bytearray)
    spoken: int = 0


def history(chance: Random, tenant: str, told: Told, path: str) -> bytes:
    """Return a request a client could make, with a text no other request has; it marks whose it is."""
    told.spoken += 1
    text = f"{tenant}-said-{told.spoken}"
    message = {"role": "user", "content": text + " " + "x" * chance.choice((0, 10, 5_000))}
    name = "input" if "responses" in path else "messages"
    return json.dumps({"model": "m", "stream": chance.random() < 0.5, name: [message], "tools": []}).encode()


def spoiled(chance: Random, body: bytes) -> bytes:
    """Return a body that something happened to."""
    broken = bytearray(body)
    match chance.randrange(8):
        case 0:
            return bytes(chance.randbytes(chance.randrange(300)))
        case 1:
            for _ in range(chance.randrange(1, 6)):
                broken[chance.randrange(len(broken))] = chance.randrange(256)
            return bytes(broken)
        case 2:
            return body[: chance.randrange(len(body))]
        case 3:
            return b"[" * 50_000
        case 4:
            return b'{"input":' + b'[{"role":"user","content":' * 2_000 + b'""' + b"}]" * 2_000 + b"}"
        case 5:
            odd = chance.choice(["\ud800", "\x00", "\u2028", "e\u0301" * 50, "\U0001f600"])
            return json.dumps({"input": [{"role": "user", "content": odd}, None, 1, [], {"type": odd}], "messages": odd}).encode()
        case 6:
            return b'{"input": 1e999999, "messages": [{}], "model": [], "stream": "yes"}'
        case _:
            return b""


def headers(chance: Random, tenant: str, *, length: int) -> list[bytes]:
    """Return header lines: mostly right, some wrong, twice, or hostile."""
    lines = [b"Host: 127.0.0.1"] if chance.random() < 0.97 else [chance.choice([b"Host: evil.example", b"Host:", b"X: 1"])]
    if chance.random() < 0.9:
        lines.append(b"X-Threadkeep-Key: " + TENANTS[tenant].encode())
    for _ in range(chance.randrange(3)):
        name = chance.choice([b"X-Odd", b"Authorization", b"x-codex-turn-metadata", b"anthropic-beta", b"Connection", b"Expect"])
        value = chance.choice([b"{", b"a, b", b"100-continue", b"close", b"\xff\xfe", b"x" * 2_000, b'{"request_kind": 7}'])
        lines.append(name + b": " + value)
    if chance.random() < 0.1:
        lines.append(b"Content-Encoding: " + chance.choice(CODINGS).encode())
    lines.append(f"Content-Length: {length}".encode())
    return lines


async def exchange(port: int, request: bytes, *, is_whole: bool) -> bytes:
    """Send bytes and return everything that comes back before the connection ends. What is not whole ends with the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        async with asyncio.timeout(SECONDS):
            await writer.drain()
            if not is_whole:
                writer.write_eof()
            head = await reader.readuntil(b"\r\n\r\n")
            if b"content-length:" in head.lower() and not request.startswith(b"HEAD"):
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                return head + await reader.readexactly(length)
            return head + (await reader.readuntil(b"0\r\n\r\n") if b"chunked" in head.lower() else b"")
    except (ConnectionError, asyncio.IncompleteReadError) as error:
        return error.partial if isinstance(error, asyncio.IncompleteReadError) else b""
    finally:
        writer.close()


async def attack(port: int, chance: Random, tenant: str, told: Told) -> None:
    """Make one request as a tenant, right or wrong, and note what came of it."""
    path = chance.choice(PATHS)
    whole = history(chance, tenant, told, path)
    text = f"{tenant}-said-{told.spoken}"
    right = is_whole = chance.random() < 0.4
    if right:
        path = chance.choice(["/v1/responses", "/v1/chat/completions", "/v1/messages"])
        whole = history(chance, tenant, told, path)
        text = f"{tenant}-said-{told.spoken}"
        lines = [b"Host: localhost", b"X-Threadkeep-Key: " + TENANTS[tenant].encode(), b"Connection: close"]
        packed = chance.choice([whole, whole, gzip.compress(whole), zstandard.compress(whole)])
        if packed is not whole:
            lines.append(b"Content-Encoding: " + (b"gzip" if packed[:2] == b"\x1f\x8b" else b"zstd"))
        lines.append(f"Content-Length: {len(packed)}".encode())
        method, body = "POST", packed
    else:
        method = chance.choice(METHODS)
        body = spoiled(chance, whole) if chance.random() < 0.7 else whole
        length = len(body) if chance.random() < 0.95 else chance.choice([0, len(body) + 50, 10**12])
        lines = headers(chance, tenant, length=length)
        is_whole = length <= len(body)
    line = f"{method} {path} HTTP/1.1\r\n".encode("latin-1")
    answer = await exchange(port, line + b"\r\n".join(lines) + b"\r\n\r\n" + body, is_whole=is_whole)
    told.heard += answer
    if right and answer.startswith(b"HTTP/1.1 200 ") and b"ANSWERED" in answer:
        told.acknowledged.append(text)


def hostile(chance: Random) -> object:
    """Return a provider that echoes who asked, in answers of every shape, some broken."""

    async def handler(request: web.Request) -> web.StreamResponse:
        asked = (await request.read())[:4_000]
        echo = next((name for name in TENANTS if name.encode() in asked), "nobody")
        if chance.random() < 0.4:
            return web.json_response({"id": "r", "status": "completed", "output": [], "echo": f"{echo} ANSWERED"})
        if chance.random() < 0.2:
            return web.Response(
                status=chance.choice([400, 413, 429, 500, 529, 204, 304]), body=b"context length " + echo.encode()
            )
        types = ["text/event-stream", "application/json", "text/plain", "", "application/json; charset=\xff"]
        answer = web.StreamResponse(headers={"Content-Type": chance.choice(types)})
        await answer.prepare(request)
        for _ in range(chance.randrange(6)):
            event = chance.choice(
                [
                    b'data: {"type":"response.completed","response":{"id":"r","output":[]}}\n\n',
                    b'event: x\ndata: {"choices":[{"delta":{"content":"' + echo.encode() + b'"}}]}\n\n',
                    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text"}}\r\n\r\n',
                    b"data: [DONE]\n\n",
                    b"data: {\n\n",
                    chance.randbytes(50),
                    b"\n" * 100,
                ]
            )
            await answer.write(event[: chance.randrange(1, len(event) + 1)])
        if chance.random() < 0.2 and request.transport is not None:
            request.transport.abort()
        return answer

    return handler


@contextmanager
def crashes() -> Iterator[list[str]]:
    """Collect what the server logs as an error of the application: only a provider that broke off may be among them."""
    found: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kind = record.exc_info[0] if record.exc_info else None
            if record.levelno >= logging.ERROR and not (kind is not None and issubclass(kind, ClientError)):
                found.append(self.format(record))

    collect = Collect()
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio", "threadkeep.gateway")]
    for logger in loggers:
        logger.addHandler(collect)
    try:
        yield found
    finally:
        for logger in loggers:
            logger.removeHandler(collect)


@pytest.mark.anyio
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_hostile_traffic_breaks_nothing(provider: Provider, tmp_path: Path, seed: int) -> None:
    """There is no crash, no text of another tenant and no lost record, and `verify` finds no problem."""
    chance = Random(seed)
    provider.handler = hostile(chance)  # type: ignore[assignment]  # a handler, as `hostile` says
    told = {tenant: Told() for tenant in TENANTS}
    config = Config(store=str(tmp_path / "fuzzed.db"))
    with crashes() as found:
        async with asyncio.timeout(SECONDS), Threadkeep(config) as tk:
            async with running_gateway(tk, upstream=provider.url, keys=KEYS, control_token="t" * 40) as url:
                port = int(url.rpartition(":")[2])
                for _ in range(REQUESTS // AT_ONCE):
                    tenants = [chance.choice(list(TENANTS)) for _ in range(AT_ONCE)]
                    await asyncio.gather(*(attack(port, chance, tenant, told[tenant]) for tenant in tenants))
                async with ClientSession() as client, client.get(f"{url}/readyz") as answer:
                    assert answer.status == 200
            verdicts = [await (await tk.for_tenant(tenant)).verify() for tenant in (*TENANTS, "local")]
            assert [verdict.problems for verdict in verdicts] == [(), (), ()]
            for tenant, heard in told.items():
                [other] = set(TENANTS) - {tenant}
                assert other.encode() not in heard.heard
                await _recorded(await tk.for_tenant(tenant), heard.acknowledged, other=other)
    assert found == []
    assert all(len(heard.acknowledged) > REQUESTS // 40 for heard in told.values())


async def _recorded(store: Threadkeep, texts: list[str], *, other: str) -> None:
    """Check that a tenant's records hold each of these texts, and none of another's."""
    bodies: list[bytes] = []
    for summary in await store.threads(limit=10_000):
        bodies.extend(record.body for record in await (await store.find(summary.id)).records())
    stored = b"\n".join(bodies)
    assert [text for text in texts if text.encode() not in stored] == []
    assert f"{other}-said".encode() not in stored


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize("looked_at", [True, False])
async def test_any_cut_of_a_stream_is_relayed_byte_for_byte(proxy: Proxy, dialect: str, *, looked_at: bool) -> None:
    """However the provider's bytes fall into chunks, the client gets them all and the conversation reads the same reply."""
    chance = Random(7)
    wire = find_dialect(dialect).wire
    stream = wire.render_answer_stream(Answer(text="grüße " * 40, response_id="r", message_id="m", model="m", created_at=1))
    reader = wire.make_reader()
    reader.feed(stream)

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        cuts = sorted(chance.sample(range(1, len(stream)), chance.randrange(12)))
        for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            await answer.write(stream[start:stop])
        return answer

    async def nothing_smaller() -> Smaller | None:
        return None

    proxy.provider.handler = handler
    proxy.script.decide = lambda incoming: Forward(
        body=incoming.body, finished=proxy.script.finished, overflowed=nothing_smaller if looked_at else None
    )
    endpoints = find_dialect(dialect).api.endpoints
    path = endpoints.mount + {"gemini": "/models/m:streamGenerateContent?alt=sse"}.get(dialect, endpoints.turn)
    for _ in range(20):
        async with proxy.client.post(proxy.url + path, data=b"{}") as answer:
            assert await answer.read() == stream
    assert proxy.script.replies == [reader.reply] * 20
    assert reader.reply.outcome == "completed"
