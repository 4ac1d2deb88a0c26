"""OpenAI through its own SDK."""

from __future__ import annotations

from collections.abc import Mapping

import httpx2
from openai import APIStatusError, AsyncOpenAI, AsyncStream, OpenAIError

from threadkeep.llm.sdk import CARRIER_ERRORS, SdkClient


class OpenAIErrors:
    """What the SDK may raise; see `threadkeep.llm.sdk.SdkErrors` for the contract."""

    raised = (OpenAIError, *CARRIER_ERRORS)

    def answer_in(self, error: Exception) -> httpx2.Response | None:
        return error.response if isinstance(error, APIStatusError) else None


def openai_client(name: str, *, base_url: str, key: str, organization: str | None, project: str | None) -> SdkClient:
    """Return what carries requests to OpenAI, or to whoever stands at `base_url` in its place."""
    client = AsyncOpenAI(api_key=key, base_url=base_url, organization=organization, project=project, max_retries=0)

    async def send(path: str, body: bytes, headers: Mapping[str, str], limits: httpx2.Timeout) -> AsyncStream[object]:
        return await client.post(
            path,
            cast_to=object,
            content=body,
            # A credential goes where it was meant to go, and nowhere else.
            options={"headers": headers, "timeout": limits, "follow_redirects": False},
            stream=True,
            stream_cls=AsyncStream[object],
        )

    return SdkClient(name, secret=key, send=send, close=client.close, errors=OpenAIErrors())
