"""What is heard of an answer while it comes in, from a real server and from hostile bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doubles.model_server import ModelServer, events, streamed, unstreamed

from threadkeep import Session, Threadkeep
from threadkeep.dialects import DIALECTS, find_dialect
from threadkeep.dialects import Answer as Spoken
from threadkeep.llm import Delta
from threadkeep.llm.answers import DeltaReader
from threadkeep.session import Asked, Event, Said
from threadkeep.testing.model_checks import HttpReply

pytestmark = pytest.mark.anyio


def chunk(**delta: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def sse(*data: dict[str, Any]) -> bytes:
    return b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in data)


async def heard_from(tk: Threadkeep, reply: HttpReply) -> list[Event]:
    async with ModelServer([reply]) as server:
        session = await Session.open(tk, "t", model=f"tiny@{server.origin}/v1")
        return [event async for event in session.stream("Hello?") if not isinstance(event, Asked)]


async def test_words_are_heard_as_they_come(tk: Threadkeep) -> None:
    """Piece by piece, thoughts apart, and the whole answer at the end."""
    reply = events(
        chunk(reasoning_content="hm"),
        chunk(content="Hel"),
        chunk(content="lo."),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        "[DONE]",
    )
    *said, answer = await heard_from(tk, reply)
    assert said == [Said(text="hm", is_thought=True), Said(text="Hel"), Said(text="lo.")]
    assert getattr(answer, "text", None) == "Hello."


async def test_a_server_that_does_not_stream_is_heard_all_at_once(tk: Threadkeep) -> None:
    """One piece, the whole of it."""
    said = [event for event in await heard_from(tk, unstreamed("chat", "All of it.")) if isinstance(event, Said)]
    assert said == [Said(text="All of it.")]


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize("size", [1, 7, 97])
def test_every_dialect_is_understood_however_its_bytes_are_cut(dialect: str, size: int) -> None:
    """The pieces amount to what was said."""
    text = "Grüße from <afar>, and 你好."
    body = find_dialect(dialect).wire.render_answer_stream(
        Spoken(text=text, response_id="r", message_id="m", model="x", created_at=1_700_000_000)
    )
    reader = DeltaReader(find_dialect(dialect))
    heard = [delta for start in range(0, len(body), size) for delta in reader.feed(body[start : start + size])]
    assert "".join(delta.text for delta in heard if not delta.is_thought) == text


def test_thinking_of_each_dialect_is_told_apart() -> None:
    """What a model thinks is heard as a thought."""
    kinds: dict[str, dict[str, Any]] = {
        "responses": {"type": "response.reasoning_summary_text.delta", "delta": "hm"},
        "messages": {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        "chat": chunk(reasoning_content="hm"),
        "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "hm", "thought": True}]}}]},
    }
    heard = {dialect: DeltaReader(find_dialect(dialect)).feed(sse(event)) for dialect, event in kinds.items()}
    assert heard == {dialect: [Delta(text="hm", is_thought=True)] for dialect in kinds}


@given(st.integers(1, 9), st.sampled_from(["", "\n "]))
def test_thoughts_left_in_the_answer_are_told_apart_however_they_are_cut(size: int, before: str) -> None:
    """Local servers leave `<think>` at the beginning of what is said; tags elsewhere are words."""
    text = before + "<think>first this < that</think>\n\nThen </think> this."
    reader = DeltaReader(find_dialect("chat"))
    heard = [
        delta for start in range(0, len(text), size) for delta in reader.feed(sse(chunk(content=text[start : start + size])))
    ]
    assert "".join(delta.text for delta in heard if delta.is_thought) == "first this < that"
    assert "".join(delta.text for delta in heard if not delta.is_thought) == "Then </think> this."


@given(st.binary(max_size=200))
def test_hostile_bytes_are_never_an_error(noise: bytes) -> None:
    """Whatever comes in, the worst is that nothing is heard."""
    for dialect in DIALECTS:
        reader = DeltaReader(find_dialect(dialect))
        reader.feed(b"data: " + noise + b"\n\n")
        reader.feed(b'data: {"choices":[{"delta":[1]}],"delta":7,"type":"response.output_text.delta"}\n\n')


async def test_a_streamed_answer_is_the_one_that_is_recorded(tk: Threadkeep) -> None:
    """What was heard and what is in the thread are the same words."""
    said = [event for event in await heard_from(tk, streamed("chat", "Word for word.")) if isinstance(event, Said)]
    thread = await tk.thread("t")
    assert "".join(event.text for event in said) == "Word for word."
    assert thread.dialect.view((await thread.history()).items[-1]).text == "Word for word."
