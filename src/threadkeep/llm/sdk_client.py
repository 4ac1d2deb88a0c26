"""OpenAI and Anthropic through their own SDKs, which know how to reach and authenticate; the bytes are ours, and so are retries.

Importing an SDK takes up to a second, so each is imported only when a client for it is made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import httpx2

from threadkeep.errors import ModelError, ModelUnavailable
from threadkeep.llm.failures import read_refusal
from threadkeep.llm.provider import CONNECT_SECONDS, IDLE_SECONDS, NO_HEADERS, Incoming

# What the HTTP client below both SDKs raises over a request, or while an answer is read.
HTTP_ERRORS: Final = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError)

# The version the dialect reads and histories are written in. A newer one, which the SDK would ask for, refuses fields that
# clients still send, `temperature` among them.
ANTHROPIC_VERSION: Final = "2023-06-01"


class SdkStream(Protocol):
    """A stream of an SDK, of which only the HTTP response beneath it is used."""

    response: httpx2.Response


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkErrors:
    """The exceptions of an SDK: the base of them all, and the one that holds a provider's refusal as its `response`."""

    base: type[Exception]
    refusal: type[Exception]


Post = Callable[[str, bytes, Mapping[str, str], httpx2.Timeout], Awaitable[SdkStream]]


class SdkClient:
    """A provider behind its own SDK; see `threadkeep.llm.provider.Transport` for the contract.

    `errors` are the SDK's own exceptions.
    """

    def __init__(self, name: str, *, secret: str, post: Post, close: Callable[[], Awaitable[None]], errors: SdkErrors) -> None:
        self._name = name
        self._secret = secret
        self._post = post
        self._close = close
        self._errors = errors

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self._secret,)

    @asynccontextmanager
    async def exchange(
        self, path: str, body: bytes, *, headers: Mapping[str, str] = NO_HEADERS, idle_s: float = IDLE_SECONDS
    ) -> AsyncIterator[Incoming]:
        stream = await self._send(path, body, headers=headers, idle_s=idle_s)
        try:
            content_type = stream.response.headers.get("content-type", "")
            yield Incoming(content_type=content_type, chunks=self._read_chunks(stream.response))
        finally:
            await stream.response.aclose()

    async def aclose(self) -> None:
        await self._close()

    async def _send(self, path: str, body: bytes, *, headers: Mapping[str, str], idle_s: float) -> SdkStream:
        sent = {"content-type": "application/json", **headers}
        try:
            return await self._post(path, body, sent, httpx2.Timeout(idle_s, connect=CONNECT_SECONDS))
        except (self._errors.base, *HTTP_ERRORS) as error:
            failure = name_sdk_error(error, errors=self._errors, name=self._name, secrets=self.secrets)
        # Raised out here so that the SDK's exception, which holds the request and its credential, does not hang on ours.
        raise failure

    async def _read_chunks(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.aiter_bytes():
                yield chunk
        except HTTP_ERRORS as error:
            failure = name_sdk_error(error, errors=self._errors, name=self._name, secrets=self.secrets)
        else:
            return
        raise failure


def connect_openai(name: str, *, base_url: str, key: str, organization: str | None, project: str | None) -> SdkClient:
    """Return a client for OpenAI, or for another server at `base_url`."""
    from openai import APIStatusError, AsyncOpenAI, AsyncStream, OpenAIError

    client = AsyncOpenAI(api_key=key, base_url=base_url, organization=organization, project=project, max_retries=0)
    errors = SdkErrors(base=OpenAIError, refusal=APIStatusError)
    return SdkClient(name, secret=key, post=_bind_post(client.post, AsyncStream[object], {}), close=client.close, errors=errors)


def connect_anthropic(name: str, *, base_url: str, api_key: str | None, auth_token: str | None) -> SdkClient:
    """Return a client for Anthropic, or for another server at `base_url`; one credential is enough."""
    from anthropic import AnthropicError, APIStatusError, AsyncAnthropic, AsyncStream

    client = AsyncAnthropic(api_key=api_key, auth_token=auth_token, base_url=base_url, max_retries=0)
    post = _bind_post(client.post, AsyncStream[object], {"anthropic-version": ANTHROPIC_VERSION})
    errors = SdkErrors(base=AnthropicError, refusal=APIStatusError)
    return SdkClient(name, secret=api_key or auth_token or "", post=post, close=client.close, errors=errors)


def _bind_post(post: Callable[..., Awaitable[Any]], stream_type: type[SdkStream], own_headers: Mapping[str, str]) -> Post:
    """Return the one call made of an SDK: a streamed POST of our bytes. A credential never follows a redirect."""

    async def send(path: str, body: bytes, headers: Mapping[str, str], limits: httpx2.Timeout) -> SdkStream:
        options = {"headers": {**own_headers, **headers}, "timeout": limits, "follow_redirects": False}
        stream: SdkStream = await post(path, cast_to=object, content=body, options=options, stream=True, stream_cls=stream_type)
        return stream

    return send


def name_sdk_error(error: Exception, *, errors: SdkErrors, name: str, secrets: tuple[str, ...] = ()) -> ModelError:
    """Return what an exception of an SDK, or of the HTTP client below it, means for the caller of the model `name`."""
    answer = getattr(error, "response", None) if isinstance(error, errors.refusal) else None
    if not isinstance(answer, httpx2.Response):
        # The text of a client's error can hold the whole URL, and more; its type says enough.
        return ModelUnavailable(name, reason=f"the connection failed or was closed ({type(error).__name__})")
    headers = {key.lower(): value for key, value in answer.headers.items()}
    return read_refusal(name, status=answer.status_code, body=answer.content, headers=headers, secrets=secrets)
