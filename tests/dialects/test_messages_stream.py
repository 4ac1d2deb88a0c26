"""What is read from a streamed answer, however its bytes are cut and whatever they are.

Of one dialect alone: the events and their ends are the Messages API's; the other files test_*_stream.py have others'.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.dialects import MESSAGES, Reply, reply_reader
from threadkeep.items import Item

FIXTURES = Path(__file__).parent / "fixtures" / "messages"
CALL = (FIXTURES / "thinking_and_call.sse").read_bytes()
CALLED = Reply(
    items=(
        Item(
            '{"role":"assistant","content":[{"type":"thinking","thinking":"Look first.","signature":"c2ln"},'
            '{"type":"text","text":"Grüße ✓\\n"},'
            '{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls -la","timeout":1.50}},'
            '{"type":"tool_use","id":"toolu_2","name":"Now","input":{}}]}'.encode()
        ),
    ),
    input_tokens=1320,
    output_tokens=89,
    cached_tokens=1000,
    response_id="msg_1",
    outcome="completed",
)


def event(kind: str, **fields: object) -> bytes:
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def block(index: object, started: object, *deltas: object) -> bytes:
    parts = [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return (
        event("content_block_start", index=index, content_block=started)
        + b"".join(parts)
        + event("content_block_stop", index=index)
    )


def text(words: str, *, index: object = 0) -> bytes:
    return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": words})


def message(*blocks: object) -> tuple[Item, ...]:
    return (Item(json.dumps({"role": "assistant", "content": blocks}, separators=(",", ":"), ensure_ascii=False).encode()),)


def assembled(data: bytes, cuts: list[int] | None = None) -> Reply:
    """Return the reply to `data`, fed in pieces that end at `cuts`."""
    reader = MESSAGES.wire.make_reader()
    for start, stop in pairwise([0, *sorted(cuts or []), len(data)]):
        reader.feed(data[start:stop])
    return reader.reply


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_cuts_do_not_matter(data: st.DataObject, eol: bytes) -> None:
    """Any chunking of a stream, within a character or a line end too, gives the same reply with the same bytes."""
    stream = CALL.replace(b"\n", eol)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=40))
    assert assembled(stream, cuts) == CALLED


def test_one_byte_at_a_time() -> None:
    """A stream that arrives byte by byte, and is looked at after each, gives the same reply."""
    reader = MESSAGES.wire.make_reader()
    for index in range(len(CALL)):
        reader.feed(CALL[index : index + 1])
        assert reader.reply.response_id in (None, "msg_1")
    assert reader.reply == CALLED


def test_tools_of_the_provider_citations_and_unknown_blocks() -> None:
    """Blocks nobody knows stay as they started, citations are collected, the newest counts stand, and a pause is no end."""
    assert assembled((FIXTURES / "server_tool.sse").read_bytes()) == Reply(
        items=message(
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "plums"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [
                    {"type": "web_search_result", "title": "T", "url": "https://fruit.example", "encrypted_content": "RQ=="}
                ],
            },
            {
                "type": "text",
                "text": "Blue.",
                "citations": [{"type": "web_search_result_location", "cited_text": "x", "url": "https://fruit.example"}],
            },
            {"type": "hologram", "beams": [1, None]},
            {"type": "compaction", "content": "Plums ripened.", "encrypted_content": "bmV3"},
        ),
        input_tokens=2325,
        output_tokens=12,
        cached_tokens=2000,
        response_id="msg_1",
        outcome="incomplete",
    )


def test_an_error_ends_the_answer() -> None:
    """Blocks that were complete before it are there, as a client keeps them; the one it broke off is not."""
    reader = MESSAGES.wire.make_reader()
    assert reader.feed((FIXTURES / "overloaded.sse").read_bytes()) is True
    assert reader.reply == Reply(
        items=message({"type": "text", "text": "Half"}),
        input_tokens=1320,
        output_tokens=1,
        cached_tokens=1000,
        response_id="msg_1",
        outcome="failed",
    )


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("end_turn", "completed"),
        ("tool_use", "completed"),
        ("stop_sequence", "completed"),
        (None, "completed"),
        ("max_tokens", "incomplete"),
        ("pause_turn", "incomplete"),
        ("refusal", "incomplete"),
        ("model_context_window_exceeded", "incomplete"),
        ("compaction", "incomplete"),
        ("reason_of_next_year", "incomplete"),
    ],
)
def test_every_end_has_its_outcome(reason: str | None, outcome: str) -> None:
    """Streamed or not, the reason to stop says whether more was to come."""
    stream = text("x") + event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 3}) + event("message_stop")
    body = json.dumps({"type": "message", "content": [{"type": "text", "text": "x"}], "stop_reason": reason}).encode()
    assert (assembled(stream).outcome, MESSAGES.wire.read_reply(body).outcome) == (outcome, outcome)


def test_the_terminal_event_is_seen_with_its_blank_line() -> None:
    """`feed` turns true with the byte that ends the terminal event, not before and for good."""
    stream = text("x") + event("message_stop")
    reader = MESSAGES.wire.make_reader()
    seen = [reader.feed(stream[index : index + 1]) for index in range(len(stream))]
    assert seen == [False] * (len(stream) - 1) + [True]
    assert reader.feed(text("more", index=1)) is True
    assert reader.reply == Reply(items=message({"type": "text", "text": "x"}), outcome="completed")


def test_a_stream_without_its_end_is_cut() -> None:
    """What was complete before the break is there; the outcome says that the rest is not."""
    stream = text("whole") + text("broken", index=1).split(b"event: content_block_stop")[0]
    assert assembled(stream) == Reply(items=message({"type": "text", "text": "whole"}), outcome="cut")


def test_a_block_whose_end_was_left_out_ends_with_the_message() -> None:
    """Servers that imitate the API are understood."""
    stream = text("x").split(b"event: content_block_stop")[0] + event("message_stop")
    assert assembled(stream) == Reply(items=message({"type": "text", "text": "x"}), outcome="completed")


def test_blocks_stand_in_the_order_of_their_index() -> None:
    """Whichever ends first; a block that starts anew replaces the one before it."""
    stream = text("b", index=7) + text("old", index=2) + text("a", index=2) + event("message_stop")
    assert assembled(stream).items == message({"type": "text", "text": "a"}, {"type": "text", "text": "b"})


@pytest.mark.parametrize(
    "broken",
    [
        block(
            1, {"type": "tool_use", "id": "t", "name": "n", "input": {}}, {"type": "input_json_delta", "partial_json": '{"a":'}
        ),
        block(1, "no object"),
        block("1", {"type": "text", "text": "x"}),
        block(-1, {"type": "text", "text": "x"}),
        event("content_block_delta", index=1, delta={"type": "text_delta", "text": "nowhere"}),
        event("content_block_stop", index=1),
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": "too late"}),
        event("new_event", index=0),
        b"data: [DONE]\n\n",
        b"data: {\n\n",
        b'data: {"type":"content_block_start","index":1,"content_block":{"a":"\xff"}}\n\n' + event("content_block_stop", index=1),
        b'data: {"type":"content_block_start","index":1,"content_block":{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}}\n\n",
    ],
)
def test_what_cannot_be_read_costs_itself_alone(broken: bytes) -> None:
    """A call whose input breaks off, a strange index, a late or unknown event: the rest of the answer is still read."""
    assert assembled(text("fine") + broken + event("message_stop")) == Reply(
        items=message({"type": "text", "text": "fine"}), outcome="completed"
    )


def test_deltas_of_strange_types_add_nothing() -> None:
    """One odd field does not cost its neighbours."""
    deltas = [
        {"type": "text_delta", "text": 7},
        {"type": "text_delta"},
        {"type": 1, "text": "x"},
        [],
        {"type": "text_delta", "text": "ok"},
    ]
    assert assembled(block(0, {"type": "text", "text": ""}, *deltas)).items == message({"type": "text", "text": "ok"})


def test_half_an_emoji_in_a_delta_is_no_reason_to_lose_it() -> None:
    """It is read as the replacement character."""
    stream = text("x@y").replace(b"@", rb"\ud83d")
    assert assembled(stream).items == message({"type": "text", "text": "x\ufffdy"})


@pytest.mark.parametrize("count", [-1, True, "7", 1.5, 10**30, None, {}])
def test_a_count_that_is_none_costs_nothing_else(count: object) -> None:
    """An absurd token count is no count; what stands beside it is still read."""
    usage = {"input_tokens": count, "cache_read_input_tokens": 5, "output_tokens": 7}
    stream = event("message_start", message={"id": "m", "usage": usage}) + event("message_stop")
    assert assembled(stream) == Reply(output_tokens=7, cached_tokens=5, response_id="m", outcome="completed")


NEAR_EVENTS = st.lists(
    st.sampled_from(
        [
            b"data:",
            b"\n",
            b"\n\n",
            b"\r",
            b"\xff",
            b'data: {"type":"message_start","message":{"id":3,"usage":{"input_tokens":"x","output_tokens":5}}}\n\n',
            b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":[1]}}\n\n',
            b'data: {"type":"content_block_start","index":1,"content_block":{"citations":{}}}\n\n',
            b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}\n\n',
            b'data: {"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":1e999}}\n\n',
            b'data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"[1e99999]"}}\n\n',
            b'data: {"type":"content_block_delta","index":1,"delta":null}\n\n',
            b'data: {"type":"content_block_stop","index":0}\n\n',
            b'data: {"type":"content_block_stop","index":1}\n\n',
            b'data: {"type":"message_delta","delta":[],"usage":7}\n\n',
            b'data: {"type":"message_stop"}\n\n',
            b"[" * 3000,
        ]
    ),
    max_size=30,
).map(b"".join)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(), NEAR_EVENTS), st.lists(st.integers(0, 200)))
def test_nothing_raises_and_cuts_never_matter(data: bytes, cuts: list[int]) -> None:
    """Garbage is read without an error, to one reply whatever the cuts; as JSON it is read without one too."""
    assert assembled(data, [cut for cut in cuts if cut <= len(data)]) == assembled(data)
    assert isinstance(MESSAGES.wire.read_reply(data), Reply)


def test_an_answer_beyond_the_limit_is_not_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a message would be a false one; counts and outcome are still read."""
    monkeypatch.setattr(reply_reader, "MAX_REPLY_BYTES", 400)
    stream = text("x") + text("y" * 300, index=1) + text("z", index=2)
    end = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 9}) + event("message_stop")
    assert assembled(stream + end) == Reply(output_tokens=9, outcome="completed")


def test_a_long_answer_in_many_deltas_takes_linear_time() -> None:
    """Pieces are held and joined once, also where the reply is looked at after each."""
    reader = MESSAGES.wire.make_reader()
    reader.feed(text("first", index=0) + event("content_block_start", index=1, content_block={"type": "text", "text": ""}))
    piece = event("content_block_delta", index=1, delta={"type": "text_delta", "text": "x" * 20})
    for _ in range(50_000):
        reader.feed(piece)
        assert reader.reply.outcome == "cut"
    reader.feed(event("content_block_stop", index=1))
    assert (
        len(reader.reply.items[0].raw)
        == len(message({"type": "text", "text": "first"}, {"type": "text", "text": ""})[0].raw) + 1_000_000
    )


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (
            (FIXTURES / "answer.json").read_bytes(),
            Reply(
                items=message(
                    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                    {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
                ),
                input_tokens=1320,
                output_tokens=1,
                cached_tokens=1000,
                response_id="msg_1",
                outcome="completed",
            ),
        ),
        (
            b'{"content":[{"a" :1.50}]}',
            Reply(items=(Item(b'{"role":"assistant","content":[{"a" :1.50}]}'),), outcome="completed"),
        ),
        (b'{"id":"m","content":[],"stop_reason":"refusal"}', Reply(response_id="m", outcome="incomplete")),
        (b'{"content":[{"a":"\xff"},7]}', Reply(outcome="completed")),
        (b'{"type":"error","error":{"type":"api_error","message":"no"}}', Reply(outcome="failed")),
        (b"{}", Reply(outcome="failed")),
        (b'{"id":"m","conte', Reply(outcome="cut")),
        (b"[]", Reply(outcome="cut")),
    ],
)
def test_an_answer_that_was_not_streamed(body: bytes, reply: Reply) -> None:
    """A JSON answer gives the same kind of reply, with the exact bytes of its blocks."""
    assert MESSAGES.wire.read_reply(body) == reply
