"""The official SDKs through a gateway whose models recall: each puts one answer together, and notices nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import message, say
from tests.gateway.recall_client import recall, recalling

from threadkeep.gateway.conversation.recall_tool import NAME

pytestmark = pytest.mark.anyio

FACT = "The staging port is 7443. Which port does staging use?"
SCRIPT = [recall("staging port", "call_r", message("Let me look.")), say("It is 7443."), say("welcome")]


async def test_the_openai_sdk_streams_one_response(store_file: Path) -> None:
    """Its accumulated response has both texts, the id of the first, and no call; its next request is accepted."""
    async with (
        ScriptedProvider(SCRIPT, enforcing=True) as provider,
        recalling(store_file, provider, "responses", streamed=True) as gateway,
        AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="sk-test", max_retries=0) as client,
    ):
        asked: list[Any] = [{"role": "user", "content": FACT}]
        async with client.responses.stream(model="m", input=asked, store=False) as stream:
            final = await stream.get_final_response()
        said: list[Any] = [item.model_dump(exclude_none=True) for item in final.output]
        again = await client.responses.create(
            model="m",
            input=[*asked, *said, {"role": "user", "content": "Thanks."}],
            store=False,
        )
    assert ([item["type"] for item in said], final.output_text) == (["message", "message"], "Let me look.It is 7443.")
    assert again.output_text == "welcome"
    before, after = provider.requests[1].input, provider.requests[2].input
    assert ([item.get("name") for item in after if item.get("type") == "function_call"], len(after)) == ([NAME], len(before) + 2)


async def test_the_openai_sdk_streams_one_completion(store_file: Path) -> None:
    """Its accumulated message has one role, both texts and no call."""
    async with (
        ScriptedProvider(SCRIPT[:2], enforcing=True) as provider,
        recalling(store_file, provider, "chat", streamed=True) as gateway,
        AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="sk-test", max_retries=0) as client,
        client.chat.completions.stream(model="m", messages=[{"role": "user", "content": FACT}]) as stream,
    ):
        final = await stream.get_final_completion()
    choice = final.choices[0]
    assert (choice.message.role, choice.message.content, choice.message.tool_calls, choice.finish_reason) == (
        "assistant",
        "Let me look.\n\nIt is 7443.",
        None,
        "stop",
    )


async def test_the_anthropic_sdk_streams_one_message(store_file: Path) -> None:
    """Its accumulated message has both blocks and no call."""
    async with (
        ScriptedProvider(SCRIPT[:2], enforcing=True) as provider,
        recalling(store_file, provider, "messages", streamed=True) as gateway,
        AsyncAnthropic(base_url=gateway.url, api_key="sk-test", max_retries=0) as client,
        client.messages.stream(model="claude-opus-5-5", max_tokens=1000, messages=[{"role": "user", "content": FACT}]) as stream,
    ):
        final = await stream.get_final_message()
    assert ([block.type for block in final.content], final.stop_reason) == (["text", "text"], "end_turn")
    assert final.usage.output_tokens == 20
