"""Answers the gateway writes read like a provider's.

Of one dialect alone: the events and errors are the Responses API's; the other files test_*_answer.py have others'.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from threadkeep.dialects import Answer, Reply
from threadkeep.dialects.responses.replies import (
    ResponsesReplyReader,
    read_reply,
    render_answer,
    render_answer_stream,
    render_error,
)
from threadkeep.items import Item

MESSAGE = (
    b'{"id":"msg_1","type":"message","status":"completed","role":"assistant",'
    b'"content":[{"type":"output_text","text":"done","annotations":[],"logprobs":[]}]}'
)
REPLY = Reply(items=(Item(MESSAGE),), input_tokens=0, output_tokens=0, cached_tokens=0, response_id="resp_1", outcome="completed")


def events(stream: bytes) -> list[dict[str, Any]]:
    """Return the data of each event, whose first line must name the same type."""
    found = []
    for block in stream.decode().removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def streamed(text: str) -> bytes:
    return render_answer_stream(Answer(text=text, response_id="resp_1", message_id="msg_1", model="m", created_at=17))


def test_a_streamed_answer_is_the_sequence_a_provider_sends() -> None:
    """Every event of a one-message response is there, numbered from zero."""
    assert [(event["sequence_number"], event["type"]) for event in events(streamed("done"))] == snapshot(
        [
            (0, "response.created"),
            (1, "response.in_progress"),
            (2, "response.output_item.added"),
            (3, "response.content_part.added"),
            (4, "response.output_text.delta"),
            (5, "response.output_text.done"),
            (6, "response.content_part.done"),
            (7, "response.output_item.done"),
            (8, "response.completed"),
        ]
    )


def test_a_streamed_answer_reads_back() -> None:
    """The assembler reads from it what was said, byte for byte."""
    assembler = ResponsesReplyReader()
    assert assembler.feed(streamed("done")) is True
    assert assembler.reply == REPLY


@given(st.text())
def test_any_text_survives_a_stream(text: str) -> None:
    """Line breaks of every kind within the text do not break the events."""
    parsed = events(streamed(text))
    assert [event["delta"] for event in parsed if "delta" in event] == [text]
    assert parsed[-1]["response"]["output"][0]["content"][0]["text"] == text


def test_an_answer_in_one_piece_is_the_completed_response() -> None:
    """A request without a stream gets the object that ends a stream, and it reads back the same."""
    body = render_answer(Answer(text="done", response_id="resp_1", message_id="msg_1", model="m", created_at=17))
    assert json.loads(body) == events(streamed("done"))[-1]["response"]
    assert read_reply(body) == REPLY


def test_errors_have_the_providers_shape() -> None:
    """A client finds message, type and code where it looks for them."""
    assert [json.loads(render_error(status, "some_code", "what, which")) for status in (413, 502)] == snapshot(
        [
            {"error": {"message": "what, which", "type": "invalid_request_error", "param": None, "code": "some_code"}},
            {"error": {"message": "what, which", "type": "server_error", "param": None, "code": "some_code"}},
        ]
    )
