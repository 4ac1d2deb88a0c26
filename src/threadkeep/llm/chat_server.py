"""Any server that speaks Chat Completions, over aiohttp alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Final

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from threadkeep.errors import ModelError, ModelUnavailable
from threadkeep.llm.failures import read_refusal
from threadkeep.llm.provider import CONNECT_SECONDS, IDLE_SECONDS, NO_HEADERS, Incoming

# Everything aiohttp raises over a request: its own tree, the sockets' errors and timeouts.
FOREIGN: Final = (ClientError, OSError, TimeoutError)

MAX_REFUSAL_BYTES: Final = 64 * 1024


class ChatServer:
    """A server at a base URL such as `http://127.0.0.1:8080/v1`; see `threadkeep.llm.provider.Transport` for the contract."""

    def __init__(self, name: str, *, base_url: str, key: str | None) -> None:
        self._name = name
        self._base_url = base_url
        self._key = key
        self._session: ClientSession | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        return () if self._key is None else (self._key,)

    @asynccontextmanager
    async def exchange(
        self, path: str, body: bytes, *, headers: Mapping[str, str] = NO_HEADERS, idle_s: float = IDLE_SECONDS
    ) -> AsyncIterator[Incoming]:
        response = await self._send(path, body, headers=headers, idle_s=idle_s)
        try:
            if response.status >= 300:
                raise await self._refusal(response)
            yield Incoming(content_type=response.headers.get("content-type", ""), chunks=self._chunks(response))
        finally:
            # Not released: a connection with half an answer in it is of no use, and the server notices that nobody listens.
            response.close()

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
        self._session = None

    async def _send(self, path: str, body: bytes, *, headers: Mapping[str, str], idle_s: float) -> ClientResponse:
        authorised = {} if self._key is None else {"authorization": f"Bearer {self._key}"}
        try:
            return await self._opened().post(
                self._base_url + path,
                # Raw bytes beyond 1 MB would be written in one go, and warned about.
                data=BytesIO(body),
                headers={"content-type": "application/json", "user-agent": "threadkeep", **authorised, **headers},
                # A credential goes where it was meant to go, and nowhere else.
                allow_redirects=False,
                timeout=ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=idle_s),
            )
        except FOREIGN as error:
            failure = self._unavailable(error)
        raise failure

    def _opened(self) -> ClientSession:
        if self._session is None:
            # A connection that is kept may be closed by the server in the moment it is used again, and a question is never sent
            # twice unasked. An answer takes seconds, a new connection does not.
            self._session = ClientSession(connector=TCPConnector(force_close=True), cookie_jar=DummyCookieJar())
        return self._session

    async def _chunks(self, response: ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except FOREIGN as error:
            failure: ModelError = self._unavailable(error)
        else:
            return
        raise failure

    async def _refusal(self, response: ClientResponse) -> ModelError:
        body = b""
        async for chunk in self._chunks(response):
            body += chunk
            if len(body) > MAX_REFUSAL_BYTES:
                break
        lowered = {name.lower(): value for name, value in response.headers.items()}
        return read_refusal(self._name, status=response.status, body=body, headers=lowered, secrets=self.secrets)

    def _unavailable(self, error: BaseException) -> ModelUnavailable:
        # The text of a client's error can hold the whole URL, and more; its kind says enough.
        if isinstance(error, TimeoutError):
            return ModelUnavailable(self._name, reason=f"it was silent for too long ({type(error).__name__})")
        return ModelUnavailable(self._name, reason=f"the connection failed or was closed ({type(error).__name__})")
