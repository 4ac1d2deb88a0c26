"""Answers the gateway writes read like a provider's.

Of one dialect alone: the events and errors are the Messages API's; the other files test_*_answer.py have others'.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from threadkeep.dialects import MESSAGES, Answer, Reply
from threadkeep.items import Item

REPLY = Reply(
    items=(Item(b'{"role":"assistant","content":[{"type":"text","text":"done"}]}'),),
    input_tokens=0,
    output_tokens=0,
    cached_tokens=0,
    response_id="msg_1",
    outcome="completed",
)


def answer(text: str) -> Answer:
    return Answer(text=text, response_id="resp_1", message_id="msg_1", model="m", created_at=17)


def events(stream: bytes) -> list[dict[str, Any]]:
    """Return the data of each event, whose first line must name the same type."""
    found = []
    for block in stream.decode().removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_a_streamed_answer_is_the_sequence_a_provider_sends() -> None:
    """Every event of a message with one text is there."""
    assert events(MESSAGES.wire.render_answer_stream(answer("done"))) == snapshot(
        [
            {
                "type": "message_start",
                "message": {
                    "id": "msg_1",
                    "type": "message",
                    "role": "assistant",
                    "model": "m",
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": {
                        "input_tokens": 0,
                        "cache_creation_input_tokens": 0,
                        "cache_read_input_tokens": 0,
                        "output_tokens": 0,
                    },
                },
            },
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "done"}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0},
            },
            {"type": "message_stop"},
        ]
    )


def test_a_streamed_answer_reads_back() -> None:
    """The reader reads from it what was said."""
    reader = MESSAGES.wire.make_reader()
    assert reader.feed(MESSAGES.wire.render_answer_stream(answer("done"))) is True
    assert reader.reply == REPLY


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_a_stream(text: str) -> None:
    """Line breaks of every kind within the text do not break the events."""
    parsed = events(MESSAGES.wire.render_answer_stream(answer(text)))
    assert [event["delta"]["text"] for event in parsed if event["type"] == "content_block_delta"] == [text]


def test_an_answer_in_one_piece_reads_back_the_same() -> None:
    """A request without a stream gets the whole message."""
    body = MESSAGES.wire.render_answer(answer("done"))
    assert json.loads(body) == snapshot(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "done"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0},
        }
    )
    assert MESSAGES.wire.read_reply(body) == REPLY


def test_errors_have_the_providers_shape() -> None:
    """A client finds type and message where it looks for them, and the code beside them."""
    statuses = (400, 401, 403, 404, 409, 413, 429, 500, 502, 529)
    bodies = [json.loads(MESSAGES.wire.render_error(status, "some_code", "what, which")) for status in statuses]
    assert bodies[0] == snapshot(
        {"type": "error", "error": {"type": "invalid_request_error", "message": "what, which", "code": "some_code"}}
    )
    assert [body["error"]["type"] for body in bodies] == snapshot(
        [
            "invalid_request_error",
            "authentication_error",
            "permission_error",
            "not_found_error",
            "invalid_request_error",
            "request_too_large",
            "rate_limit_error",
            "api_error",
            "api_error",
            "overloaded_error",
        ]
    )
