"""What an answer says about itself: how it ended, whether it called a tool, which error it broke off with, what it cost."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doubles.model_server import ModelServer, events
from tests.llm.wires import WIRES

from threadkeep.errors import ModelError, ModelOverflow, ModelRejected, ModelUnavailable
from threadkeep.llm import ModelReply
from threadkeep.testing.model_checks import HttpReply, make_json_reply

pytestmark = pytest.mark.anyio

Event = dict[str, Any]


async def answer(dialect: str, reply: HttpReply) -> ModelReply:
    wire = WIRES[dialect]
    async with ModelServer([reply]) as server, wire.open(server.origin) as model:
        return await model.ask(wire.request)


def responses(*items: Event, status: str = "completed", **more: Any) -> HttpReply:
    """A streamed Responses answer of these items."""
    done = [{"type": "response.output_item.done", "output_index": index, "item": item} for index, item in enumerate(items)]
    return events(*done, {"type": f"response.{status}", "response": {"id": "r", "status": status, "output": items, **more}})


def chat(delta: Event, *, finish: str, usage: Event | None = None) -> HttpReply:
    """A streamed Chat Completions answer of one delta."""
    first = {"choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}]}
    return events(first, {"choices": [], "usage": usage or {}}, "[DONE]")


def messages(*blocks: Event, stop: str) -> HttpReply:
    """A streamed Messages answer of these blocks."""
    begun = [{"type": "content_block_start", "index": index, "content_block": block} for index, block in enumerate(blocks)]
    stop_event = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {}}
    return events({"type": "message_start", "message": {"id": "m"}}, *begun, stop_event, {"type": "message_stop"})


def said(text: str, **more: Any) -> Event:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **more}


def text(words: str) -> Event:
    return {"type": "text", "text": words}


CALL = {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"}
CHAT_CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}
USE = {"type": "tool_use", "id": "c1", "name": "shell", "input": {}}
OUT_OF_ROOM = {"reason": "max_output_tokens"}
FILTERED = {"reason": "content_filter"}
DECLINED = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}

ENDINGS = [
    ("responses", responses(THOUGHT, said("Done.")), ("Done.", "finished", False)),
    ("responses", responses(said("One"), said("Two")), ("One\nTwo", "finished", False)),
    ("responses", responses(said("Cut"), status="incomplete", incomplete_details=OUT_OF_ROOM), ("Cut", "length", False)),
    ("responses", responses(said(""), status="incomplete", incomplete_details=FILTERED), ("", "refused", False)),
    ("responses", responses(DECLINED), ("No.", "refused", False)),
    ("responses", responses(CALL), ("", "finished", True)),
    ("responses", responses(said("Let me look."), CALL), ("Let me look.", "finished", True)),
    ("responses", responses(), ("", "finished", False)),
    ("chat", chat({"content": "Done."}, finish="stop"), ("Done.", "finished", False)),
    ("chat", chat({"content": "<think>hm</think>\n\nDone."}, finish="stop"), ("Done.", "finished", False)),
    ("chat", chat({"content": "<think>hm and hm"}, finish="length"), ("", "length", False)),
    ("chat", chat({"reasoning_content": "hm", "content": "Done."}, finish="stop"), ("Done.", "finished", False)),
    ("chat", chat({"content": "Cut"}, finish="length"), ("Cut", "length", False)),
    ("chat", chat({"content": ""}, finish="content_filter"), ("", "refused", False)),
    ("chat", chat({"refusal": "No."}, finish="stop"), ("No.", "refused", False)),
    ("chat", chat({"tool_calls": [CHAT_CALL]}, finish="tool_calls"), ("", "finished", True)),
    ("chat", chat({"content": "Let me.", "tool_calls": [CHAT_CALL]}, finish="tool_calls"), ("Let me.", "finished", True)),
    ("messages", messages(THINKING, text("Done."), stop="end_turn"), ("Done.", "finished", False)),
    ("messages", messages(text("Do"), text("ne."), stop="end_turn"), ("Done.", "finished", False)),
    ("messages", messages(text("Cut"), stop="max_tokens"), ("Cut", "length", False)),
    ("messages", messages(text("Cut"), stop="model_context_window_exceeded"), ("Cut", "length", False)),
    ("messages", messages(stop="refusal"), ("", "refused", False)),
    ("messages", messages(USE, stop="tool_use"), ("", "finished", True)),
    ("messages", messages(stop="end_turn"), ("", "finished", False)),
]


@pytest.mark.parametrize(("dialect", "reply", "expected"), ENDINGS)
async def test_how_an_answer_ended_is_reported(dialect: str, reply: HttpReply, expected: tuple[str, str, bool]) -> None:
    """Words, ending and calls come out of each wire's own way to say them."""
    answered = await answer(dialect, reply)
    assert (answered.text, answered.ending, answered.called_tools) == expected


async def test_everything_a_model_produced_is_in_the_reply() -> None:
    """Reasoning and calls are kept beside what was said, in output order."""
    answered = await answer("responses", responses(THOUGHT, said("Let me look."), CALL))
    assert len(answered.items) == 3


async def test_what_a_provider_charges_is_reported() -> None:
    """Where usage names a cost, it is passed on; elsewhere there is none."""
    priced = await answer("chat", chat({"content": "ok"}, finish="stop", usage={"prompt_tokens": 3, "cost": 0.0125}))
    unpriced = await answer("chat", chat({"content": "ok"}, finish="stop", usage={"prompt_tokens": 3, "cost": "lots"}))
    assert (priced.cost_usd, unpriced.cost_usd) == (0.0125, None)


def failing(code: str) -> HttpReply:
    """A Responses stream that fails after it has begun."""
    return responses(status="failed", error={"code": code, "message": "it went wrong"})


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
TOO_LONG = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 800 maximum"}}
BROKEN_KEY = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}

FAILURES: list[tuple[str, HttpReply, type[ModelError], dict[str, Any]]] = [
    ("responses", failing("context_length_exceeded"), ModelOverflow, {"limit_tokens": None}),
    ("responses", failing("server_error"), ModelUnavailable, {"reason": "it went wrong"}),
    ("responses", failing("rate_limit_exceeded"), ModelUnavailable, {"reason": "it went wrong"}),
    ("responses", failing("never_heard_of"), ModelUnavailable, {"reason": "it went wrong"}),
    ("responses", failing("insufficient_quota"), ModelRejected, {"status": 402, "reason": "it went wrong"}),
    ("responses", failing("invalid_prompt"), ModelRejected, {"status": 400, "reason": "it went wrong"}),
    ("responses", events({"type": "error", "code": "server_error", "message": "sorry"}), ModelUnavailable, {"reason": "sorry"}),
    ("chat", events({"error": {"code": 502, "message": "upstream"}}), ModelUnavailable, {"reason": "upstream"}),
    ("chat", events({"error": {"code": 400, "message": "bad"}}), ModelRejected, {"status": 400, "reason": "bad"}),
    ("chat", events({"error": {"type": "exceed_context_size_error", "n_ctx": 4096}}), ModelOverflow, {"limit_tokens": 4096}),
    ("chat", make_json_reply({"error": "out of memory"}), ModelUnavailable, {"reason": "out of memory"}),
    ("messages", events(OVERLOADED), ModelUnavailable, {"reason": "Overloaded"}),
    ("messages", events(TOO_LONG), ModelOverflow, {"limit_tokens": 800}),
    ("messages", events(BROKEN_KEY), ModelRejected, {"status": 401, "reason": "invalid x-api-key"}),
]


@pytest.mark.parametrize(("dialect", "reply", "kind", "attributes"), FAILURES)
async def test_an_error_within_a_stream_is_understood(
    dialect: str, reply: HttpReply, kind: type[ModelError], attributes: dict[str, Any]
) -> None:
    """A provider that fails after it took the request says why, and that decides what is raised."""
    with pytest.raises(kind) as caught:
        await answer(dialect, reply)
    assert {name: getattr(caught.value, name) for name in attributes} == attributes
