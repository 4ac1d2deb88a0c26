"""What both providers' SDKs share: they know how to reach and authenticate; the bytes are ours, and so is asking again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol

import httpx2

from threadkeep.errors import ModelError, ModelUnavailable
from threadkeep.llm.failures import refused
from threadkeep.llm.provider import CONNECT_SECONDS, IDLE_SECONDS, NO_HEADERS, Incoming

# Everything that what carries the bytes raises over a request, or while an answer is read.
CARRIER_ERRORS: Final = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError)


class OpenedStream(Protocol):
    """A stream of an SDK, of which only the answer beneath it is used."""

    response: httpx2.Response


class SdkErrors(Protocol):
    """What an SDK may raise, and what that means."""

    @property
    def raised(self) -> tuple[type[Exception], ...]: ...

    def answer_in(self, error: Exception) -> httpx2.Response | None:
        """Return the provider's own refusal that an exception stands for; None where no answer came."""
        ...


Send = Callable[[str, bytes, Mapping[str, str], httpx2.Timeout], Awaitable[OpenedStream]]


class SdkClient:
    """A provider behind its own SDK; see `threadkeep.llm.provider.Transport` for the contract."""

    def __init__(self, name: str, *, secret: str, send: Send, close: Callable[[], Awaitable[None]], errors: SdkErrors) -> None:
        self._name = name
        self._secret = secret
        self._send = send
        self._close = close
        self._errors = errors

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self._secret,)

    @asynccontextmanager
    async def exchange(
        self, path: str, body: bytes, *, headers: Mapping[str, str] = NO_HEADERS, idle_s: float = IDLE_SECONDS
    ) -> AsyncIterator[Incoming]:
        stream = await self._opened(path, body, headers=headers, idle_s=idle_s)
        try:
            content_type = stream.response.headers.get("content-type", "")
            yield Incoming(content_type=content_type, chunks=self._chunks(stream.response))
        finally:
            await stream.response.aclose()

    async def aclose(self) -> None:
        await self._close()

    async def _opened(self, path: str, body: bytes, *, headers: Mapping[str, str], idle_s: float) -> OpenedStream:
        sent = {"content-type": "application/json", **headers}
        try:
            return await self._send(path, body, sent, httpx2.Timeout(idle_s, connect=CONNECT_SECONDS))
        except self._errors.raised as error:
            failure = understood(error, errors=self._errors, name=self._name, secrets=self.secrets)
        # Raised out here so that the SDK's exception, which holds the request and its credential, does not hang on ours.
        raise failure

    async def _chunks(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.aiter_bytes():
                yield chunk
        except CARRIER_ERRORS as error:
            failure = understood(error, errors=self._errors, name=self._name, secrets=self.secrets)
        else:
            return
        raise failure


def understood(error: Exception, *, errors: SdkErrors, name: str, secrets: tuple[str, ...] = ()) -> ModelError:
    """Return what an exception of an SDK means for whoever asked `name`."""
    answer = errors.answer_in(error)
    if answer is None:
        # The text of a client's error can hold the whole URL, and more; its kind says enough.
        return ModelUnavailable(name, reason=f"the connection failed or was closed ({type(error).__name__})")
    headers = {key.lower(): value for key, value in answer.headers.items()}
    return refused(name, status=answer.status_code, body=answer.content, headers=headers, secrets=secrets)
