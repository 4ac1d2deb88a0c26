"""A transport to any server that speaks Chat Completions, over aiohttp alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Final

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from threadkeep.errors import ModelError, ModelUnavailable
from threadkeep.llm.failures import read_refusal
from threadkeep.llm.provider import CONNECT_SECONDS, IDLE_SECONDS, NO_HEADERS, Incoming

# Everything aiohttp raises over a request: its own errors, the sockets' errors and timeouts.
HTTP_ERRORS: Final = (ClientError, OSError, TimeoutError)

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
                raise await self._read_refusal(response)
            yield Incoming(content_type=response.headers.get("content-type", ""), chunks=self._read_chunks(response))
        finally:
            # Closed, not released: a connection with half an answer in it is useless, and the server notices that we stopped.
            response.close()

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
        self._session = None

    async def _send(self, path: str, body: bytes, *, headers: Mapping[str, str], idle_s: float) -> ClientResponse:
        authorised = {} if self._key is None else {"authorization": f"Bearer {self._key}"}
        try:
            return await self._open_session().post(
                self._base_url + path,
                # aiohttp warns about raw bytes beyond 1 MB, which it writes at once.
                data=BytesIO(body),
                headers={"content-type": "application/json", "user-agent": "threadkeep", **authorised, **headers},
                # A credential never follows a redirect.
                allow_redirects=False,
                timeout=ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=idle_s),
            )
        except HTTP_ERRORS as error:
            failure = self._name_error(error)
        raise failure

    def _open_session(self) -> ClientSession:
        if self._session is None:
            # A server may close a kept connection just as it is used again, and a request is never repeated unasked. A new
            # connection costs little beside an answer.
            self._session = ClientSession(connector=TCPConnector(force_close=True), cookie_jar=DummyCookieJar())
        return self._session

    async def _read_chunks(self, response: ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except HTTP_ERRORS as error:
            failure: ModelError = self._name_error(error)
        else:
            return
        raise failure

    async def _read_refusal(self, response: ClientResponse) -> ModelError:
        body = b""
        async for chunk in self._read_chunks(response):
            body += chunk
            if len(body) > MAX_REFUSAL_BYTES:
                break
        lowered = {name.lower(): value for name, value in response.headers.items()}
        return read_refusal(self._name, status=response.status, body=body, headers=lowered, secrets=self.secrets)

    def _name_error(self, error: BaseException) -> ModelUnavailable:
        # The text of a client's error can hold the whole URL, and more; its type says enough.
        if isinstance(error, TimeoutError):
            return ModelUnavailable(self._name, reason=f"it was silent for too long ({type(error).__name__})")
        return ModelUnavailable(self._name, reason=f"the connection failed or was closed ({type(error).__name__})")
