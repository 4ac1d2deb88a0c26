"""Answers the gateway writes read like a provider's.

Of one dialect alone: the events and errors are Chat Completions'; the other files test_*_answer.py have others'.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from threadkeep.dialects import CHAT, Answer, Reply


def answer(text: str) -> Answer:
    return Answer(text=text, response_id="chatcmpl-1", message_id="msg_1", model="m", created_at=17)


def chunks(stream: bytes) -> list[dict[str, Any]]:
    """Return the chunks of a stream, which must end as a provider's does."""
    *blocks, end = stream.decode().removesuffix("\n\n").split("\n\n")
    assert end == "data: [DONE]"
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


def test_a_streamed_answer_is_the_sequence_a_provider_sends() -> None:
    """Role, text, and the reason it ended; every chunk has a choice, for clients that look at the first."""
    assert chunks(CHAT.wire.render_answer_stream(answer("done"))) == snapshot(
        [
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 17,
                "model": "m",
                "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}],
            },
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 17,
                "model": "m",
                "choices": [{"index": 0, "delta": {"content": "done"}, "logprobs": None, "finish_reason": None}],
            },
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 17,
                "model": "m",
                "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}],
                "usage": {
                    "prompt_tokens": 0,
                    "completion_tokens": 0,
                    "total_tokens": 0,
                    "prompt_tokens_details": {"cached_tokens": 0},
                    "completion_tokens_details": {"reasoning_tokens": 0},
                },
            },
        ]
    )


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_a_stream(text: str) -> None:
    """Line breaks of every kind within the text do not break the events, and the reader hears every word."""
    reader = CHAT.wire.make_reader()
    assert reader.feed(CHAT.wire.render_answer_stream(answer(text))) is True
    assert reader.reply == Reply(
        items=(CHAT.parse({"role": "assistant", "content": text}),),
        input_tokens=0,
        output_tokens=0,
        cached_tokens=0,
        response_id="chatcmpl-1",
        outcome="completed",
    )


def test_an_answer_in_one_piece_says_the_same() -> None:
    """A request without a stream gets one object, whose message is the streamed one's equal."""
    reader = CHAT.wire.make_reader()
    reader.feed(CHAT.wire.render_answer_stream(answer("done")))
    whole = CHAT.wire.read_reply(CHAT.wire.render_answer(answer("done")))
    assert [CHAT.canonical(item) for item in whole.items] == [CHAT.canonical(item) for item in reader.reply.items]
    assert json.loads(CHAT.wire.render_answer(answer("done"))) == snapshot(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 17,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "done", "refusal": None, "annotations": []},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": {
                "prompt_tokens": 0,
                "completion_tokens": 0,
                "total_tokens": 0,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0},
            },
        }
    )


def test_errors_have_the_providers_shape() -> None:
    """A client finds message, type and code where it looks for them."""
    assert [json.loads(CHAT.wire.render_error(status, "some_code", "what, which")) for status in (413, 502)] == snapshot(
        [
            {"error": {"message": "what, which", "type": "invalid_request_error", "param": None, "code": "some_code"}},
            {"error": {"message": "what, which", "type": "server_error", "param": None, "code": "some_code"}},
        ]
    )
