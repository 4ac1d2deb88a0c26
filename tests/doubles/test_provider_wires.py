"""The scripted provider on Chat Completions and Messages: the same script in another language, streamed or whole."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, call, failed, http_error, message, say

pytestmark = pytest.mark.anyio

QUESTION = {"role": "user", "content": "go"}
THINKING = {"type": "enabled", "budget_tokens": 2_000}


async def post(provider: ScriptedProvider, path: str, body: Any) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session, session.post(f"{provider.url}{path}", json=body) as response:
        return response.status, await response.read()


async def stream(provider: ScriptedProvider, path: str, **fields: Any) -> list[dict[str, Any]]:
    status, raw = await post(provider, path, {"model": "m", "messages": [QUESTION], "stream": True, **fields})
    assert status == 200
    lines = [line for line in raw.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines if line != "data: [DONE]"]


async def whole(provider: ScriptedProvider, path: str, **fields: Any) -> Any:
    status, raw = await post(provider, path, {"model": "m", "messages": [QUESTION], **fields})
    assert status == 200
    return json.loads(raw)


async def test_chat_streams_text_then_its_reason_then_usage() -> None:
    """Deltas join to the text; usage comes last, in a chunk without choices, only where it was asked for."""
    async with ScriptedProvider([say("hello there", input_tokens=7), say("again")]) as provider:
        chunks = await stream(provider, "/chat/completions", stream_options={"include_usage": True})
        again = await stream(provider, "/chat/completions")
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "hello there"
    assert [choice["finish_reason"] for chunk in chunks[-2:] for choice in chunk["choices"]] == ["stop"]
    assert chunks[-1]["usage"]["prompt_tokens"] == 7
    assert all(chunk["choices"] for chunk in again)


async def test_chat_streams_a_call_in_pieces_and_answers_it_whole() -> None:
    """A call is opened with its id and name, grows by its arguments, and stands in the plain answer as one."""
    called = call("look", {"at": "it"}, call_id="c1", encrypted_reasoning="SEALED")
    async with ScriptedProvider([called, called]) as provider:
        chunks = await stream(provider, "/chat/completions")
        plain = await whole(provider, "/chat/completions")
    pieces = [
        delta["tool_calls"][0] for chunk in chunks for choice in chunk["choices"] if "tool_calls" in (delta := choice["delta"])
    ]
    assert (pieces[0]["id"], pieces[0]["function"]) == ("c1", {"name": "look", "arguments": ""})
    assert "".join(piece["function"]["arguments"] for piece in pieces) == '{"at": "it"}'
    assert plain["choices"][0] == {
        "index": 0,
        "message": {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "it"}'}}],
        },
        "logprobs": None,
        "finish_reason": "tool_calls",
    }


async def test_messages_stream_thinking_text_and_use_as_blocks() -> None:
    """Each block begins empty, grows by the deltas of its kind and is closed; thinking ends in its signature."""
    reply = Reply(
        items=(*say("Looking.", encrypted_reasoning="SEALED", thought="hm").items, *call("look", {"at": 1}, call_id="c1").items)
    )
    async with ScriptedProvider([reply, reply]) as provider:
        events = await stream(provider, "/messages", thinking=THINKING)
        plain = await whole(provider, "/messages", thinking=THINKING)
    starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert [block["type"] for block in starts] == ["thinking", "text", "tool_use"]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta.get("partial_json", "") for delta in deltas) == '{"at": 1}'
    (signature,) = (delta["signature"] for delta in deltas if delta["type"] == "signature_delta")
    assert plain["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": signature},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": 1}},
    ]
    assert (plain["stop_reason"], events[-2]["delta"]["stop_reason"], events[-1]) == (
        "tool_use",
        "tool_use",
        {"type": "message_stop"},
    )


async def test_messages_show_no_thinking_unasked() -> None:
    """Without a request for thinking the same reply has text alone."""
    async with ScriptedProvider([say("done", encrypted_reasoning="SEALED")]) as provider:
        plain = await whole(provider, "/messages")
    assert plain["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.parametrize(
    ("path", "last"),
    [
        ("/chat/completions", {"error": {"message": "too long", "type": "server_error", "code": "overflow"}}),
        ("/messages", {"type": "error", "error": {"type": "overflow", "message": "too long"}}),
    ],
)
async def test_a_failure_ends_a_stream_in_the_words_of_its_wire(path: str, last: dict[str, Any]) -> None:
    """`failed` begins an answer and breaks it off with the wire's own error."""
    async with ScriptedProvider([failed("overflow", "too long")]) as provider:
        events = await stream(provider, path)
    assert events[-1] == last


async def test_a_dropped_stream_lacks_its_end() -> None:
    """`drop` leaves out the event that completes an answer, on every wire."""
    reply = Reply(items=(message("cut"),), drop=True)
    async with ScriptedProvider([reply, reply]) as provider:
        chat = await post(provider, "/chat/completions", {"messages": [QUESTION], "stream": True})
        messages = await stream(provider, "/messages")
    assert not chat[1].endswith(b"[DONE]\n\n")
    assert messages[-1]["type"] == "message_delta"


async def test_an_error_says_at_the_top_that_it_is_one_on_messages() -> None:
    """The error of a script has the shape of the wire it is sent on."""
    async with ScriptedProvider([http_error(529, "busy", kind="overloaded_error")] * 2) as provider:
        _, messages = await post(provider, "/messages", {"messages": [QUESTION]})
        _, chat = await post(provider, "/chat/completions", {"messages": [QUESTION]})
    error = {"message": "busy", "type": "overloaded_error", "param": None, "code": None}
    assert (json.loads(messages), json.loads(chat)) == ({"type": "error", "error": error}, {"error": error})


async def test_tokens_are_counted_beside_the_script() -> None:
    """A count of tokens is answered, kept apart, and uses up no reply."""
    async with ScriptedProvider([say("one")]) as provider:
        status, raw = await post(provider, "/messages/count_tokens", {"messages": [QUESTION]})
        await whole(provider, "/messages")
    assert (status, set(json.loads(raw))) == (200, {"input_tokens"})
    assert [request.path for request in provider.side_requests] == ["/v1/messages/count_tokens"]
    assert [request.path for request in provider.requests] == ["/v1/messages"]


async def test_a_counting_provider_reports_what_it_was_sent() -> None:
    """Tokens are a quarter of the request's bytes, on every wire, in place of what the script says."""
    async with ScriptedProvider([say("one", input_tokens=7)], counting=True) as provider:
        answer = await whole(provider, "/messages")
    assert answer["usage"]["input_tokens"] == len(provider.requests[0].raw) // 4


async def test_side_requests_are_answered_beside_the_script() -> None:
    """What `beside` answers leaves the script alone, whenever it comes."""

    def title(received: Received) -> Reply | None:
        return say("A title") if b"title" in received.raw else None

    async with ScriptedProvider([say("one")], beside=title) as provider:
        titled = await whole(provider, "/chat/completions", messages=[{"role": "user", "content": "a title, please"}])
        answered = await whole(provider, "/chat/completions")
    texts = [answer["choices"][0]["message"]["content"] for answer in (titled, answered)]
    assert (texts, len(provider.side_requests), len(provider.requests)) == (["A title", "one"], 1, 1)
