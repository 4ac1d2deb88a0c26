"""The server starts where it safely can, says where, and stops without breaking an answer."""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession, web

from threadkeep.dialects import Reply
from threadkeep.errors import PortTaken, UnsafeBind
from threadkeep.gateway.http import server
from threadkeep.gateway.http.server import run_server, serve

if TYPE_CHECKING:
    from tests.gateway.conftest import Proxy

pytestmark = pytest.mark.anyio


def on_ready(url: str) -> None:
    raise AssertionError(f"ready at {url}")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.com", ""])
async def test_only_this_machine_is_listened_on(proxy: Proxy, host: str) -> None:
    """An address that others can reach is refused before anything is bound."""
    with pytest.raises(UnsafeBind):
        await serve(proxy.app, host=host, port=0, on_ready=on_ready)


async def test_a_port_in_use_is_said_to_be(proxy: Proxy) -> None:
    """A taken port is named in the error, and whoever has it keeps it."""
    port = int(proxy.url.rpartition(":")[2])
    with pytest.raises(PortTaken) as caught:
        await serve(proxy.app, host="127.0.0.1", port=port, on_ready=on_ready)
    assert (caught.value.host, caught.value.port) == ("127.0.0.1", port)
    async with proxy.client.get(f"{proxy.url}/healthz") as answer:
        assert answer.status == 200


async def test_a_failed_start_leaves_running_by_the_same_error(proxy: Proxy) -> None:
    """The block around a server that cannot start is never entered."""
    with pytest.raises(UnsafeBind):
        async with run_server(proxy.app, host="0.0.0.0"):
            raise AssertionError


@pytest.mark.parametrize(("host", "shown"), [("localhost", "127.0.0.1"), ("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
async def test_port_zero_is_a_free_port_and_the_url_is_real(proxy: Proxy, host: str, shown: str) -> None:
    """The URL that is reported can be called as it is."""
    if host == "::1" and not _has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    async with run_server(proxy.app, host=host) as url, proxy.client.get(f"{url}/healthz") as answer:
        assert (answer.status, url.rpartition(":")[0]) == (200, f"http://{shown}")


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


async def test_answers_name_no_server(proxy: Proxy) -> None:
    """What serves the gateway is nobody's business."""
    async with proxy.client.get(f"{proxy.url}/healthz") as answer:
        assert {name.lower() for name in answer.headers} == {"content-type", "content-length"}


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_a_running_stream_finish(proxy: Proxy, stop: signal.Signals) -> None:
    """After a signal no one new is let in, a stream under way comes to its end, and then `serve` returns."""
    stopping = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"begun ")
        await stopping.wait()
        await answer.write(b"ended")
        return answer

    proxy.provider.handler = handler
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    serving = asyncio.create_task(serve(proxy.app, host="127.0.0.1", port=0, on_ready=ready.set_result))
    url = await ready
    async with ClientSession() as client, client.get(f"{url}/v1/models") as answer:
        assert await answer.content.readany() == b"begun "
        signal.raise_signal(stop)
        await _refuses_connections(int(url.rpartition(":")[2]))
        stopping.set()
        assert await answer.content.read() == b"ended"
    await serving
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


async def _refuses_connections(port: int) -> None:
    """Return once nobody listens on `port` any more."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            # It stood in the queue when the listener was closed.
            continue


async def test_a_cancelled_server_lets_a_running_stream_finish(proxy: Proxy) -> None:
    """Cancellation stops the server as a signal does."""
    stopping = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"begun ")
        await stopping.wait()
        await answer.write(b"ended")
        return answer

    proxy.provider.handler = handler
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(proxy.app, host="127.0.0.1", port=0, on_ready=ready.set_result))
    url = await ready
    async with ClientSession() as client, client.get(f"{url}/v1/models") as answer:
        assert await answer.content.readany() == b"begun "
        serving.cancel()
        await _refuses_connections(int(url.rpartition(":")[2]))
        stopping.set()
        assert await answer.content.read() == b"ended"
    await asyncio.wait((serving,))
    assert serving.cancelled()


async def test_a_stream_that_outlasts_the_grace_is_cut_and_reported(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """When `serve` returns, the conversation has been told that its answer broke off."""
    monkeypatch.setattr(server, "GRACE_SECONDS", 0)

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"data: 1\n\n")
        await asyncio.Event().wait()
        return answer

    proxy.provider.handler = handler
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(proxy.app, host="127.0.0.1", port=0, on_ready=ready.set_result))
    async with ClientSession() as client, client.post(f"{await ready}/v1/responses", data=b"{}") as answer:
        assert await answer.content.readany() == b"data: 1\n\n"
        signal.raise_signal(signal.SIGTERM)
        await serving
        assert proxy.script.replies == [Reply(outcome="cut")]
