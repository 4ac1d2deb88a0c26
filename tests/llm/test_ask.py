"""Asking a model over each wire: what goes out, what comes back, what an answer that is none becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.doubles.model_server import ModelServer, events, streamed
from tests.llm.wires import CHAT, MESSAGES, RESPONSES, Wire, request_of

from threadkeep.dialects import RESPONSES as RESPONSE_DIALECT
from threadkeep.errors import ModelUnavailable

pytestmark = pytest.mark.anyio


UNKEPT = {"store": False, "include": ["reasoning.encrypted_content"]}
SENT: dict[str, dict[str, Any]] = {
    "responses": {**RESPONSES.question, **UNKEPT, "model": "gpt-test", "stream": True},
    "chat": {**CHAT.question, "model": "qwen", "stream": True, "stream_options": {"include_usage": True}},
    "messages": {**MESSAGES.question, "model": "claude-test", "stream": True},
}


async def test_a_question_goes_out_as_it_is_but_for_who_is_asked_and_how(wire: Wire) -> None:
    """The model and streaming are set, every other field and item arrives as it was; the credential comes along."""
    async with ModelServer([streamed(wire.dialect, "At the start.")]) as server, wire.open(server.origin) as model:
        reply = await model.ask(wire.request)
    received = server.requests[0]
    assert (received.method, received.path, received.authorised) == ("POST", wire.path, True)
    assert received.body == SENT[wire.dialect]
    assert received.headers["content-type"] == "application/json"
    assert (reply.text, reply.ending, reply.called_tools) == ("At the start.", "finished", False)


async def test_items_keep_their_exact_bytes() -> None:
    """What a client wrote is sent as it was written, spaces and number forms included."""
    request = RESPONSE_DIALECT.split(b'{"input": [ {"role":"user",  "content":"caf\\u00e9", "weight": 1.00} ], "x": 1e3}')
    assert request is not None
    async with ModelServer([streamed("responses", "ok")]) as server, RESPONSES.open(server.origin) as model:
        await model.ask(request)
    item = b'{"role":"user",  "content":"caf\\u00e9", "weight": 1.00}'
    unkept = b'"store":false,"include":["reasoning.encrypted_content"]'
    assert server.requests[0].raw == b'{"input":[' + item + b'],"x":1e3,' + unkept + b',"model":"gpt-test","stream":true}'


async def test_openai_keeps_nothing_unless_told_to_and_is_sent_no_reasoning_that_only_it_has() -> None:
    """`store` and `include` of the caller count; a bare id of reasoning is sent only where the provider keeps it."""
    stored = {"type": "reasoning", "id": "rs_1", "summary": []}
    question = {"role": "user", "content": "Go on."}
    asked: tuple[dict[str, Any], ...] = ({}, {"store": True}, {"include": []})
    async with ModelServer([streamed("responses", "ok")] * 3) as server, RESPONSES.open(server.origin) as model:
        for more in asked:
            await model.ask(request_of("responses", {"input": [stored, question], **more}))
    bodies = [{name: request.body.get(name) for name in ("input", "store", "include")} for request in server.requests]
    assert bodies == [
        {"input": [question], **UNKEPT},
        {"input": [stored, question], **UNKEPT, "store": True},
        {"input": [question], **UNKEPT, "include": []},
    ]


async def test_a_model_that_does_not_reason_is_not_asked_for_its_reasoning() -> None:
    """OpenAI refuses that."""
    plain = replace(RESPONSES, named=lambda origin: "openai:gpt-4o")
    async with ModelServer([streamed("responses", "ok")]) as server, plain.open(server.origin) as model:
        await model.ask(request_of("responses", {"input": [{"role": "user", "content": "Go on."}]}))
    assert (server.requests[0].body["store"], "include" in server.requests[0].body) == (False, False)


async def test_a_model_of_anthropic_is_always_given_a_bound() -> None:
    """A request without `max_tokens`, which the API refuses, gets one."""
    request = request_of("messages", {"messages": [{"role": "user", "content": "hi"}]})
    async with ModelServer([streamed("messages", "ok")]) as server, MESSAGES.open(server.origin) as model:
        await model.ask(request)
    assert server.requests[0].body["max_tokens"] == 8192


async def test_anthropic_is_told_the_version_that_histories_are_written_in() -> None:
    """A newer one, which the SDK would ask for by itself, refuses what clients of today send."""
    async with ModelServer([streamed("messages", "ok")]) as server, MESSAGES.open(server.origin) as model:
        await model.ask(MESSAGES.request)
    assert server.requests[0].headers["anthropic-version"] == "2023-06-01"


async def test_nobody_there_is_worth_another_attempt(wire: Wire) -> None:
    """A server that cannot be reached is unavailable."""
    async with ModelServer([]) as server:
        origin = server.origin
    async with wire.open(origin) as model:
        with pytest.raises(ModelUnavailable, match="connection"):
            await model.ask(wire.request)


async def test_a_closed_model_may_be_closed_again(wire: Wire) -> None:
    """Closing is safe at any time, before the first question too."""
    model = wire.open("http://127.0.0.1:9")
    await model.aclose()
    await model.aclose()


async def test_counts_of_a_streamed_answer_are_reported(wire: Wire) -> None:
    """What the provider counted is in the reply, as far as the stream says it."""
    async with ModelServer([COUNTED[wire.dialect]]) as server, wire.open(server.origin) as model:
        reply = await model.ask(wire.request)
    assert (reply.input_tokens, reply.output_tokens, reply.cached_tokens) == (120, 9, 100)


_USAGE = {"input_tokens": 120, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 100}}
COUNTED = {
    "responses": events({"type": "response.completed", "response": {"id": "r", "output": [], "usage": _USAGE}}),
    "chat": events(
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]},
        {
            "choices": [],
            "usage": {"prompt_tokens": 120, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 100}},
        },
        "[DONE]",
    ),
    "messages": events(
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 20, "cache_read_input_tokens": 100}}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ),
}
