"""Anthropic through its own SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import httpx2
from anthropic import AnthropicError, APIStatusError, AsyncAnthropic, AsyncStream

from threadkeep.llm.sdk import CARRIER_ERRORS, SdkClient

# The version the dialect reads and histories are written in. A newer one, which the SDK would ask for, refuses fields that
# clients still send, `temperature` among them.
VERSION: Final = "2023-06-01"


class AnthropicErrors:
    """What the SDK may raise; see `threadkeep.llm.sdk.SdkErrors` for the contract."""

    raised = (AnthropicError, *CARRIER_ERRORS)

    def answer_in(self, error: Exception) -> httpx2.Response | None:
        return error.response if isinstance(error, APIStatusError) else None


def anthropic_client(name: str, *, base_url: str, api_key: str | None, auth_token: str | None) -> SdkClient:
    """Return what carries requests to Anthropic, or to whoever stands at `base_url` in its place; one credential is enough."""
    client = AsyncAnthropic(api_key=api_key, auth_token=auth_token, base_url=base_url, max_retries=0)

    async def send(path: str, body: bytes, headers: Mapping[str, str], limits: httpx2.Timeout) -> AsyncStream[object]:
        return await client.post(
            path,
            cast_to=object,
            content=body,
            # A credential goes where it was meant to go, and nowhere else.
            options={"headers": {"anthropic-version": VERSION, **headers}, "timeout": limits, "follow_redirects": False},
            stream=True,
            stream_cls=AsyncStream[object],
        )

    return SdkClient(name, secret=api_key or auth_token or "", send=send, close=client.close, errors=AnthropicErrors())
