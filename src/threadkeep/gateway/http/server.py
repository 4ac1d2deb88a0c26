"""Starts and stops the server around a gateway."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType

import uvicorn
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

from threadkeep.errors import CannotListen, PortTaken, UnsafeBind
from threadkeep.gateway.http.exchange import Receive, Scope, Send
from threadkeep.gateway.http.guards import is_loopback
from threadkeep.gateway.http.upstream import MESSAGE_BYTES

App = Callable[[Scope, Receive, Send], Awaitable[None]]

# How long a stop waits for running streams. Service managers kill after about 90 s; by then every record must be written.
GRACE_SECONDS = 60
# How long streams that were cut off then have to write down that they were.
RECORD_SECONDS = 5
BACKLOG = 2048


async def serve(
    gateway_app: App,
    *,
    host: str,
    port: int,
    on_ready: Callable[[str], None],
    on_stop: Callable[[], None] = lambda: None,
    takes_signals: bool = True,
    has_keys: bool = False,
) -> None:
    """Serve until SIGINT, SIGTERM or cancellation, then let running streams finish, for at most `GRACE_SECONDS`.

    A second signal does not wait for them. `on_ready` is called with the real URL once requests are accepted; port 0
    takes a free one. `on_stop` is called when no one new is let in, before running answers are waited for.
    `takes_signals=False` leaves signals to whoever embeds the server. Returns normally after a signal, so that the caller can
    close what the gateway used. Runs on the event loop it is called in; uvloop is the fast one.

    Raises:
        UnsafeBind: `host` is not this machine alone, and the gateway asks for no keys.
        PortTaken: Something listens there already.
        CannotListen: The system refuses the address or port.
    """
    listener = _listen(host, port, has_keys=has_keys)
    server = _Server(gateway_app, on_ready=on_ready, on_stop=on_stop, takes_signals=takes_signals)
    try:
        await server.serve(sockets=[listener])
    except asyncio.CancelledError:
        if server.started:
            await server.shutdown(sockets=[listener])
        raise
    finally:
        listener.close()


@asynccontextmanager
async def run_server(
    gateway_app: App, *, host: str = "127.0.0.1", port: int = 0, on_stop: Callable[[], None] = lambda: None
) -> AsyncIterator[str]:
    """Serve inside the block, which is given the URL; leaving it stops the server. Signals stay with the caller.

    Raises:
        UnsafeBind: `host` is not this machine alone.
        PortTaken: Something listens there already.
        CannotListen: The system refuses the address or port.
    """
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(gateway_app, host=host, port=port, on_ready=ready.set_result, on_stop=on_stop, takes_signals=False)
    )
    await asyncio.wait((serving, ready), return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():
        await serving
    try:
        yield ready.result()
    finally:
        serving.cancel()
        await asyncio.wait((serving,))


def _listen(host: str, port: int, *, has_keys: bool) -> socket.socket:
    """Return a socket bound to this machine and nothing else, unless whoever calls must have a key."""
    if not (is_loopback(host) or (has_keys and host)):
        raise UnsafeBind(host)
    # The name is not looked up: what a resolver says about it is not what the promise above rests on.
    address = "127.0.0.1" if host.lower().removesuffix(".") == "localhost" else host
    # The protocol is named because event loops set TCP_NODELAY only where it is: without it a short answer waits 40 ms.
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(host, port) from error
        raise CannotListen(host, port, reason=error.strerror or str(error)) from error
    return listener


class _SocketProtocol(WSProtocol):
    def shutdown(self) -> None:
        """Leave the socket to the application, which lets running answers end and closes it."""


class _Server(uvicorn.Server):
    def __init__(self, app: App, *, on_ready: Callable[[str], None], on_stop: Callable[[], None], takes_signals: bool) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                interface="asgi3",
                http="httptools",
                ws=_SocketProtocol,
                # Compressed frames may hold a thousand times what arrives; the longest frame is as long as the longest request.
                ws_per_message_deflate=False,
                ws_max_size=MESSAGE_BYTES,
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                # A relayed answer carries the provider's own date.
                date_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._takes_signals = takes_signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for listener in sockets or ():
            host, port, *_ = listener.getsockname()
            self._on_ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets=sockets)
        left = list(self.server_state.tasks)
        for task in left:
            # A second cancellation would interrupt what the first one let the task still do.
            if not task.cancelling():
                task.cancel()
        if left:
            await asyncio.wait(left, timeout=RECORD_SECONDS)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals while serving, without raising them again at the end: that would kill the process before its clean-up."""
        if not self._takes_signals or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
