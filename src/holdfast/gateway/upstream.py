"""The provider's side of one exchange."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    DummyCookieJar,
    ServerTimeoutError,
    TCPConnector,
)
from multidict import CIMultiDict
from yarl import URL

CONNECT_SECONDS = 30
# A model that thinks for minutes sends nothing meanwhile; a provider silent for longer than this is not coming back.
IDLE_SECONDS = 600

# No total: a stream that flows may flow for hours.
TIMEOUT = ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=IDLE_SECONDS)

# What the client library would add where the client sent nothing.
AUTOMATIC_HEADERS = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")


def upstream_session() -> ClientSession:
    """Return a session that leaves what passes through it alone: no cookie is kept, nothing is decompressed, none waits.

    Must be called inside the event loop that uses it; the caller closes it.
    """
    return ClientSession(auto_decompress=False, connector=TCPConnector(limit=0), cookie_jar=DummyCookieJar(), timeout=TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """Why the provider's answer never began, as the client is told."""

    status: int
    code: str
    message: str


class Upstream:
    """A provider at a base URL, as its own clients would be given it (`https://api.openai.com/v1`).

    A URL without a path means the provider's root, whose API is under `/v1`.
    """

    def __init__(self, base: str, *, session: ClientSession) -> None:
        url = URL(base)
        if url.scheme not in ("http", "https") or url.host is None:
            raise ValueError(f"an upstream is an http:// or https:// URL, not {base!r}")
        self._base = str(url).rstrip("/") if url.path.strip("/") else f"{url.origin()}/v1"
        self._place = f"{url.host_subcomponent}:{url.port}"
        self._session = session

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: CIMultiDict[str], body: bytes | AsyncIterator[bytes] | None
    ) -> AsyncIterator[ClientResponse | Unanswered]:
        """Send a request and yield the answer once its headers are here; `target` is a path and query, already encoded.

        An answer not read to its end is abandoned: the connection is closed, which the provider can notice.
        """
        answer = await self._send(method, target, headers=headers, body=body)
        try:
            yield answer
        finally:
            if isinstance(answer, ClientResponse):
                answer.close()

    async def _send(
        self, method: str, target: str, *, headers: CIMultiDict[str], body: bytes | AsyncIterator[bytes] | None
    ) -> ClientResponse | Unanswered:
        # Raw bytes beyond 1 MB would be written in one go, and warned about.
        data = BytesIO(body) if isinstance(body, bytes) else body
        try:
            return await self._session.request(
                method,
                URL(self._base + target, encoded=True),
                headers=headers,
                data=data,
                allow_redirects=False,
                auto_decompress=False,
                skip_auto_headers=AUTOMATIC_HEADERS,
                timeout=TIMEOUT,
            )
        except (ClientError, TimeoutError) as error:
            return self._unanswered(error)

    def _unanswered(self, error: Exception) -> Unanswered:
        # The text of a client error can hold the whole URL; only where it was sent to is said.
        if isinstance(error, ServerTimeoutError) and not isinstance(error, ConnectionTimeoutError):
            message = f"{self._place} did not answer within {IDLE_SECONDS} s"
            return Unanswered(status=504, code="upstream_timeout", message=message)
        message = f"{self._place} could not be reached, or closed the connection before it answered ({type(error).__name__})"
        return Unanswered(status=502, code="upstream_unreachable", message=message)
