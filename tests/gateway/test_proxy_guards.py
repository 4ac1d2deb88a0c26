"""Who is served: this machine, and no web page that pretends to be it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from threadkeep.gateway.http.guards import is_host_allowed, is_loopback, is_origin_allowed

if TYPE_CHECKING:
    from tests.gateway.conftest import Proxy

pytestmark = pytest.mark.anyio

PATHS = ["/healthz", "/v1/models", "/v1/responses"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost@evil.example", ""),
        *("127.0.0.1#.evil.example", "127.0.0.1?.evil.example", "127.0.0.1/.evil.example", "127.0.0.1\\.evil.example"),
    ],
)
async def test_a_foreign_host_is_refused(proxy: Proxy, path: str, host: str) -> None:
    """A request that names another host is refused on every path, and the provider is not asked."""
    async with proxy.client.post(proxy.url + path, headers={"Host": host}) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (403, "host_not_allowed")
    assert (proxy.provider.seen, proxy.script.opened) == ([], [])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example", "file://"])
async def test_a_foreign_page_is_refused(proxy: Proxy, path: str, origin: str) -> None:
    """A request that a page from elsewhere makes is refused on every path, and the provider is not asked."""
    async with proxy.client.post(proxy.url + path, headers={"Origin": origin}) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (403, "origin_not_allowed")
    assert (proxy.provider.seen, proxy.script.opened) == ([], [])


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:9999"},
        {"Host": "[::1]:80"},
        {"Host": "127.8.9.1"},
        {"Host": "Gateway.Test:80"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://127.0.0.1"},
    ],
)
async def test_this_machine_is_served(proxy: Proxy, headers: dict[str, str]) -> None:
    """Loopback names and addresses, and hosts that were allowed by name, are served."""
    async with proxy.client.get(f"{proxy.url}/healthz", headers=headers) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("line", [b"GET /v1/models HTTP/1.1\r\nX-Odd: \xff", b"GET /v1/models?a=\xff HTTP/1.1"])
async def test_what_could_not_be_passed_on_unchanged_is_refused(proxy: Proxy, line: bytes) -> None:
    """Bytes that neither a URL nor a UTF-8 header can hold are refused rather than altered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
    writer.write(line + b"\r\nHost: localhost\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
    writer.close()
    await writer.wait_closed()
    assert proxy.provider.seen == []


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("LOCALHOST.", True), ("127.0.0.2", True), ("::1", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "192.168.1.4", "localhost.example", "127.1", "", "[::1]")],
)
def test_only_this_machine_is_loopback(host: str, *, loopback: bool) -> None:
    """A name or an address counts as this machine only if it cannot be another."""
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    "header",
    ["[::1", "a:b:c", "localhost:99999", "x@localhost", "//localhost", "local\thost", "localhost#", "localhost?", "localhost/"],
)
def test_a_host_that_cannot_be_read_is_not_allowed(header: str) -> None:
    """A malformed Host header is refused, never an error."""
    assert not is_host_allowed(header, allowed=())
    assert not is_origin_allowed(header)
