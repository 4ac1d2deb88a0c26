"""What is read from a streamed answer, however its bytes are cut and whatever they are.

Of one dialect alone: the events and their ends are Chat Completions'; the other files test_*_stream.py have others'.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.dialects import CHAT, Reply, reply_reader
from threadkeep.dialects.chat import replies
from threadkeep.items import Item, ItemKind

FIXTURES = Path(__file__).parent / "fixtures" / "chat"
STREAMS = {path.stem: path.read_bytes() for path in (FIXTURES / "streams").glob("*.sse")}


def said(**fields: object) -> tuple[Item]:
    return (CHAT.parse({"role": "assistant", **fields}),)


def function(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


REPLIES = {
    "text": Reply(
        items=said(content="grüß ✓\n"),
        input_tokens=120,
        output_tokens=7,
        cached_tokens=100,
        response_id="chatcmpl-1",
        outcome="completed",
    ),
    "parallel_calls": Reply(
        items=said(
            content=None,
            tool_calls=[
                function("call_1", "bash", '{"command":"ls"}'),
                {"id": "call_2", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin Patch"}},
            ],
        ),
        response_id="chatcmpl-2",
        outcome="completed",
    ),
    "thoughts": Reply(
        items=said(
            content="Found it.",
            reasoning_content="Let me look.",
            reasoning="Short.",
            reasoning_details=[
                {"type": "reasoning.text", "text": "Let me look."},
                {"type": "reasoning.encrypted", "data": "c2VjcmV0"},
            ],
        ),
        input_tokens=9,
        output_tokens=4,
        response_id="gen-1",
        outcome="completed",
    ),
    "old_function": Reply(
        items=said(content=None, function_call={"name": "weather", "arguments": '{"city":"Oslo"}'}),
        response_id="chatcmpl-3",
        outcome="completed",
    ),
    "without_done": Reply(
        items=said(content="Half a sentence"), input_tokens=3, output_tokens=2, response_id="x", outcome="incomplete"
    ),
    "two_choices": Reply(items=said(content="first"), response_id="x", outcome="completed"),
    "error": Reply(response_id="x", outcome="failed"),
    "refusal_and_audio": Reply(
        items=said(content="", refusal="I would rather not.", audio={"id": "audio_1"}), response_id="x", outcome="incomplete"
    ),
    "careless_server": Reply(
        items=said(content="Two calls.", tool_calls=[function("a", "ls", '{"path": "."}'), function("b", "cat", '{"path":"x"}')]),
        input_tokens=5,
        output_tokens=6,
        outcome="completed",
    ),
    "same_index": Reply(
        items=said(content=None, tool_calls=[function("a", "ls", "{}"), function("b", "pwd", '{"a":1}')]),
        response_id="x",
        outcome="completed",
    ),
}


def assembled(data: bytes, cuts: list[int] | None = None) -> Reply:
    """Return the reply to `data`, fed in pieces that end at `cuts`."""
    reader = CHAT.wire.make_reader()
    for start, stop in pairwise([0, *sorted(cuts or []), len(data)]):
        reader.feed(data[start:stop])
    return reader.reply


def event(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(finish_reason: str | None = None, /, **fields: object) -> bytes:
    return event(choices=[{"index": 0, "delta": fields, "finish_reason": finish_reason}])


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_every_recorded_stream_gives_its_reply(name: str) -> None:
    """Deltas of every form become one message as a client would send it back, with its usage and its end."""
    assert assembled(STREAMS[name]) == REPLIES[name]


@settings(deadline=None)
@given(st.data(), st.sampled_from(sorted(STREAMS)), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_cuts_do_not_matter(data: st.DataObject, name: str, eol: bytes) -> None:
    """Any chunking of a stream, within a character or a line end too, gives the same reply."""
    stream = STREAMS[name].replace(b"\n", eol)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=40))
    assert assembled(stream, cuts) == REPLIES[name]


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_one_byte_at_a_time(name: str) -> None:
    """A stream that arrives byte by byte gives the same reply."""
    assert assembled(STREAMS[name], list(range(len(STREAMS[name])))) == REPLIES[name]


NEAR_EVENTS = st.lists(
    st.sampled_from(
        [
            b"data:",
            b"data: [DONE]\n\n",
            b"\n",
            b"\r",
            b"\xff",
            b'data: {"choices":[{"delta":{"content":"x"}',
            b'data: {"choices":[{"delta":{"content":"\\ud83d"}',
            b'data: {"choices":[{"delta":{"tool_calls":[{"index":-1,"id":3,"function":{"name":"a","arguments":[]}}]}',
            b'data: {"choices":[{"delta":{"tool_calls":[{"index":99999999999999999999,"custom":{"input":"\xc3"}}]}',
            b'data: {"choices":[{"delta":{"reasoning_details":[{"a":"\xff"},3,{"b":1}]}',
            b',"finish_reason":"stop"',
            b',"index":true',
            b"}]}\n\n",
            b'data: {"usage":{"prompt_tokens":"x","completion_tokens":5}}\n\n',
            b'data: {"error":1}\n\n',
            b"[" * 3000,
            b"data: null\n\n",
        ]
    ),
    max_size=30,
).map(b"".join)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(), NEAR_EVENTS), st.lists(st.integers(0, 200)))
def test_nothing_raises_and_cuts_never_matter(data: bytes, cuts: list[int]) -> None:
    """Garbage is read without an error, to one reply whatever the cuts; every item of it can be seen."""
    reply = assembled(data, [cut for cut in cuts if cut <= len(data)])
    assert reply == assembled(data)
    assert all(CHAT.view(item).kind is not ItemKind.OPAQUE for item in reply.items)
    assert isinstance(CHAT.wire.read_reply(data), Reply)


def test_the_end_is_seen_with_its_blank_line() -> None:
    """`feed` turns true with the byte that ends `[DONE]`, not before and for good."""
    stream = STREAMS["text"]
    reader = CHAT.wire.make_reader()
    seen = [reader.feed(stream[index : index + 1]) for index in range(len(stream))]
    assert seen == [False] * (len(stream) - 1) + [True]
    assert reader.feed(delta(content="late")) is True
    assert reader.reply == REPLIES["text"]


def test_an_error_is_the_end() -> None:
    """Nothing follows an error, and half a message is none."""
    reader = CHAT.wire.make_reader()
    assert reader.feed(delta("stop", content="x")) is False
    assert reader.feed(event(error={"message": "no"}, choices=[])) is True
    assert reader.reply == Reply(outcome="failed")


@pytest.mark.parametrize(
    ("finish_reason", "outcome"),
    [
        ("stop", "completed"),
        ("tool_calls", "completed"),
        ("function_call", "completed"),
        ("eos", "completed"),
        ("length", "incomplete"),
        ("content_filter", "incomplete"),
        ("error", "failed"),
        ("", "cut"),
        (None, "cut"),
    ],
)
def test_every_end_has_its_outcome(finish_reason: str | None, outcome: str) -> None:
    """A finish reason names how the answer ended, whether or not `[DONE]` follows; servers have words of their own."""
    assert assembled(delta(finish_reason, content="x")).outcome == outcome


def test_a_stream_without_its_end_is_cut() -> None:
    """Half a message is not an item; what was counted is there."""
    stream = delta(content="I was") + event(id="x", choices=[], usage={"prompt_tokens": 4})
    assert assembled(stream) == Reply(input_tokens=4, response_id="x", outcome="cut")


def test_done_without_a_finish_reason_is_an_end() -> None:
    """Some servers never name a reason; an answer without any choice is still none."""
    assert assembled(delta(content="x") + b"data: [DONE]\n\n") == Reply(items=said(content="x"), outcome="completed")
    assert assembled(b"data: [DONE]\n\n") == Reply(outcome="cut")


def test_a_call_keeps_its_index_whatever_order_it_comes_in() -> None:
    """Calls are listed by their index, and pieces of several may alternate."""
    pieces = [
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": ""}},
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
        {"index": 1, "function": {"arguments": "2"}},
        {"index": 0, "function": {"arguments": "1"}},
    ]
    stream = b"".join(delta(tool_calls=[piece]) for piece in pieces) + delta("tool_calls")
    assert assembled(stream).items == said(content=None, tool_calls=[function("a", "f", "1"), function("b", "g", "2")])


def test_a_new_id_without_a_name_is_the_same_call() -> None:
    """Some servers make up an id for every piece; the first one counts."""
    first = delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}])
    second = delta("tool_calls", tool_calls=[{"index": 0, "id": "z", "function": {"name": "", "arguments": "}"}}])
    assert assembled(first + second).items == said(content=None, tool_calls=[function("a", "f", "{}")])


def test_an_emoji_cut_in_two_costs_that_character_alone() -> None:
    """A chunk that ends within a surrogate pair is read all the same."""
    stream = delta(content="ok \ud83d") + delta("stop", content="\ude00 go")
    assert assembled(stream).items == said(content="ok \ufffd\ufffd go")


def test_what_is_no_thought_is_dropped() -> None:
    """Only JSON objects in UTF-8 are kept among the details; what stands beside the others is still read."""
    details = b'[{"a":"\xff"},3,null,{"b": 1.0}]'
    stream = b'data: {"choices":[{"delta":{"content":"x","reasoning_details":' + details + b',"tool_calls":[3]}}]}\n\n'
    assert assembled(stream + delta("stop")).items == (
        Item(b'{"role":"assistant","content":"x","reasoning_details":[{"b": 1.0}]}'),
    )


@pytest.mark.parametrize("count", [-1, True, "7", 1.5, 10**30, None, {}])
def test_a_count_that_is_none_costs_nothing_else(count: object) -> None:
    """An absurd token count is no count; what stands beside it is still read."""
    stream = event(id="r", choices=[], usage={"prompt_tokens": count, "completion_tokens": 7})
    assert assembled(stream) == Reply(output_tokens=7, response_id="r", outcome="cut")


@pytest.mark.parametrize(
    "piece",
    [
        {"content": "y" * 40},
        {"reasoning_details": [{"a": "y" * 40}]},
        {"function_call": {"arguments": "y" * 40}},
        {"tool_calls": [{"function": {"name": "f", "arguments": "y" * 40}}]},
    ],
)
def test_a_message_beyond_the_limit_is_not_kept(piece: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """A message without end is let go of whole; how it ended and what it cost is still told."""
    monkeypatch.setattr(reply_reader, "MAX_REPLY_BYTES", 100)
    stream = delta(**piece) * 4 + delta("stop", content="x") + event(id="r", choices=[], usage={"completion_tokens": 9})
    assert assembled(stream) == Reply(output_tokens=9, response_id="r", outcome="completed")


def test_empty_calls_without_end_meet_the_same_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call costs memory even where it says nothing."""
    monkeypatch.setattr(reply_reader, "MAX_REPLY_BYTES", 50 * replies.CALL_BYTES)
    calls = [delta(tool_calls=[{"index": index}]) for index in range(60)]
    assert [len(assembled(b"".join(calls[:count]) + delta("stop")).items) for count in (50, 51, 60)] == [1, 0, 0]


def test_a_long_answer_in_small_pieces_takes_linear_time() -> None:
    """Fifty thousand pieces are held, not joined again and again."""
    pieces = delta(content="xy", tool_calls=[{"index": 0, "function": {"arguments": "z"}}]) * 50_000
    [item] = assembled(pieces + delta("stop")).items
    message = json.loads(item.raw)
    assert (len(message["content"]), len(message["tool_calls"][0]["function"]["arguments"])) == (100_000, 50_000)


MESSAGE = '{ "role":"assistant","content":"grü\\u00df","refusal":null,"annotations":[] }'.encode()


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (
            (FIXTURES / "answer.json").read_bytes(),
            Reply(
                items=(Item(MESSAGE),),
                input_tokens=12,
                output_tokens=3,
                cached_tokens=8,
                response_id="chatcmpl-9",
                outcome="completed",
            ),
        ),
        (
            b'{"choices":[{"index":1,"message":{"b":1}},{"index":0,"message":{"a" :"\\ud83d"},"finish_reason":"length"}]}',
            Reply(items=(Item(b'{"a" :"\\ud83d"}'),), outcome="incomplete"),
        ),
        (b'{"id":"r","choices":[{"message":{"a":1}}]}', Reply(items=(Item(b'{"a":1}'),), response_id="r", outcome="completed")),
        (b'{"choices":[{"message":{"a":1},"finish_reason":"error"}]}', Reply(outcome="failed")),
        (b'{"choices":[{"message":{"a":"\xff"},"finish_reason":"stop"}]}', Reply(outcome="completed")),
        (b'{"id":"r","choices":[],"usage":{"prompt_tokens":1}}', Reply(input_tokens=1, response_id="r", outcome="failed")),
        (b'{"error":{"message":"no"},"choices":[{"message":{"a":1}}]}', Reply(outcome="failed")),
        (b'{"choices":[3]}', Reply(outcome="failed")),
        (b'{"id":"r","cho', Reply(outcome="cut")),
        (b"[]", Reply(outcome="cut")),
    ],
)
def test_an_answer_that_was_not_streamed(body: bytes, reply: Reply) -> None:
    """A JSON answer gives the same kind of reply, with the exact bytes of its message."""
    assert CHAT.wire.read_reply(body) == reply
