"""What is read from a streamed answer, however its bytes are cut and whatever they are.

Of one dialect alone: the events and their ends are the Responses API's; the other files test_*_stream.py have others'.
"""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.dialects import Reply
from threadkeep.dialects import sse as sse_module
from threadkeep.dialects.responses.replies import ResponsesReplyReader, read_reply
from threadkeep.items import Item

# Odd spacing, an escape and a character of several bytes: what a re-serialisation would not survive.
REASONING = b'{"type":"reasoning", "id":"rs_1","summary":[],"encrypted_content":"gAAA\\/b=="}'
MESSAGE = '{ "id": "msg_1", "type": "message", "content": [{"text":"gr\u00fc\u00df \u2713 \\n"}], "new_field": 1.50 }'.encode()


def event(kind: str, fields: bytes = b"", *, eol: bytes = b"\n") -> bytes:
    """One event as a provider writes it."""
    data = b'{"type":"' + kind.encode() + b'"' + (b"," + fields if fields else b"") + b"}"
    return b"event: " + kind.encode() + eol + b"data: " + data + eol + eol


def whole_stream(eol: bytes = b"\n") -> bytes:
    """A whole answer: two items whose events come in the wrong order, with usage at the end."""
    usage = b'"usage":{"input_tokens":120,"input_tokens_details":{"cached_tokens":100},"output_tokens":7}'
    return b"".join(
        [
            b"\xef\xbb\xbf: a comment" + eol,
            event("response.created", b'"response":{"id":"resp_1","output":[]}', eol=eol),
            event("response.output_text.delta", '"delta":"grü"'.encode(), eol=eol),
            event("response.output_item.done", b'"output_index":1,"item": ' + MESSAGE, eol=eol),
            event("response.output_item.done", b'"output_index":0,"item":' + REASONING, eol=eol),
            event("response.completed", b'"response":{"id":"resp_1","output":[],' + usage + b"}", eol=eol),
            b"data: [DONE]" + eol + eol,
        ]
    )


WHOLE = Reply(
    items=(Item(REASONING), Item(MESSAGE)),
    input_tokens=120,
    output_tokens=7,
    cached_tokens=100,
    response_id="resp_1",
    outcome="completed",
)


def assembled(data: bytes, cuts: list[int] | None = None) -> Reply:
    """Return the reply to `data`, fed in pieces that end at `cuts`."""
    assembler = ResponsesReplyReader()
    for start, stop in pairwise([0, *sorted(cuts or []), len(data)]):
        assembler.feed(data[start:stop])
    return assembler.reply


@given(st.data(), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_cuts_do_not_matter(data: st.DataObject, eol: bytes) -> None:
    """Any chunking of a stream, within a character or a line end too, gives the same reply with the same bytes."""
    stream = whole_stream(eol)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=40))
    assert assembled(stream, cuts) == WHOLE


@pytest.mark.parametrize("eol", [b"\n", b"\r", b"\r\n"])
def test_one_byte_at_a_time(eol: bytes) -> None:
    """A stream that arrives byte by byte gives the same reply."""
    stream = whole_stream(eol)
    assert assembled(stream, list(range(len(stream)))) == WHOLE


NEAR_EVENTS = st.lists(
    st.sampled_from(
        [
            b"data:",
            b" ",
            b"\n",
            b"\r",
            b":",
            b"\xff",
            b"\xef\xbb\xbf",
            b'{"type":"response.completed"',
            b',"response":{"id":3,"usage":{"input_tokens":"x","output_tokens":5}}',
            b'{"type":"response.output_item.done","item":{"a":"\xc3"}',
            b'{"type":"response.output_item.done","item":{"a":1}',
            b"}",
            b"[" * 3000,
            b"null",
        ]
    ),
    max_size=30,
).map(b"".join)


@given(st.one_of(st.binary(), NEAR_EVENTS), st.lists(st.integers(0, 200)))
def test_nothing_raises_and_cuts_never_matter(data: bytes, cuts: list[int]) -> None:
    """Garbage is read without an error, to one reply whatever the cuts; as JSON it is read without one too."""
    assert assembled(data, [cut for cut in cuts if cut <= len(data)]) == assembled(data)
    assert isinstance(read_reply(data), Reply)


def test_nesting_without_end_is_skipped() -> None:
    """An event nested deeper than any reader can follow costs that event alone."""
    deep = b"[" * 200_000 + b"]" * 200_000
    hostile = event("response.output_item.done", b'"item":{"a":' + deep + b"}")
    assert assembled(hostile + whole_stream()[3:]) == WHOLE


def test_the_terminal_event_is_seen_with_its_blank_line() -> None:
    """`feed` turns true with the byte that ends the terminal event, not before and for good."""
    stream = event("response.created", b'"response":{"id":"r"}') + event("response.completed")
    assembler = ResponsesReplyReader()
    seen = [assembler.feed(stream[index : index + 1]) for index in range(len(stream))]
    assert seen == [False] * (len(stream) - 1) + [True]
    assert assembler.feed(b"data: [DONE]\n\n") is True


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("response.completed", "completed"),
        ("response.incomplete", "incomplete"),
        ("response.failed", "failed"),
        ("error", "failed"),
    ],
)
def test_every_end_has_its_outcome(kind: str, outcome: str) -> None:
    """Each terminal event names how the answer ended, and the id of the response is kept from its beginning."""
    reply = assembled(event("response.created", b'"response":{"id":"resp_9"}') + event(kind))
    assert (reply.outcome, reply.response_id) == (outcome, "resp_9")


def test_a_stream_without_its_end_is_cut() -> None:
    """What was completed before the break is there; the outcome says that the rest is not."""
    stream = whole_stream()
    assert assembled(stream[: stream.index(b"event: response.completed")]) == Reply(
        items=(Item(REASONING), Item(MESSAGE)), response_id="resp_1", outcome="cut"
    )


def test_data_of_several_lines_is_one_event() -> None:
    """Data lines of one event are joined by a line feed, which is then part of the item's bytes."""
    reply = assembled(b'data: {"type":"response.output_item.done",\ndata:"item":{"a":\ndata:  1}}\n\n')
    assert reply.items == (Item(b'{"a":\n 1}'),)


def test_the_output_list_stands_in_for_items_that_were_not_streamed() -> None:
    """A server that sends its items with the last event only is understood."""
    reply = assembled(event("response.completed", b'"response":{"output":[{"a": 1},{"b":2}]}'))
    assert reply.items == (Item(b'{"a": 1}'), Item(b'{"b":2}'))


def test_items_without_an_index_keep_their_order() -> None:
    """Where no output index is given, the order of arrival is the order of the items."""
    stream = b"".join(event("response.output_item.done", b'"item":{"n":%d}' % number) for number in range(3))
    assert assembled(stream).items == (Item(b'{"n":0}'), Item(b'{"n":1}'), Item(b'{"n":2}'))


@pytest.mark.parametrize("item", [b"null", b"[]", b'"text"', b'{"a":"\xff"}'])
def test_what_is_no_item_is_dropped(item: bytes) -> None:
    """Only a JSON object in UTF-8 can be an item."""
    assert assembled(event("response.output_item.done", b'"item":' + item) + event("response.completed")).items == ()


@pytest.mark.parametrize("count", [b"-1", b"true", b'"7"', b"1.5", b"9" * 30, b"null", b"{}"])
def test_a_count_that_is_none_costs_nothing_else(count: bytes) -> None:
    """An absurd token count is no count; what stands beside it is still read."""
    usage = b'"response":{"id":"r","usage":{"input_tokens":' + count + b',"output_tokens":7}}'
    assert assembled(event("response.completed", usage)) == Reply(output_tokens=7, response_id="r", outcome="completed")


def test_an_event_beyond_the_limit_is_skipped_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that outgrows the limit is not kept, wherever it is cut, and the next one is read again."""
    monkeypatch.setattr(sse_module, "MAX_EVENT_BYTES", 120)
    big = b'data: {"type":"response.failed",\ndata: "x":"' + b"y" * 200 + b'"\ndata: }\n\n'
    stream = big + event("response.output_item.done", b'"item":{"a":1}') + event("response.completed")
    expected = Reply(items=(Item(b'{"a":1}'),), outcome="completed")
    assert [assembled(stream, [cut]) for cut in range(len(stream))] == [expected] * len(stream)


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (
            b'{"id":"r","status":"completed","output":[{"a" :1}],"usage":{"input_tokens":3,"output_tokens":2}}',
            Reply(items=(Item(b'{"a" :1}'),), input_tokens=3, output_tokens=2, response_id="r", outcome="completed"),
        ),
        (b'{"id":"r","status":"incomplete","output":[]}', Reply(response_id="r", outcome="incomplete")),
        (b'{"id":"r","status":"queued"}', Reply(response_id="r", outcome="incomplete")),
        (b'{"id":"r","status":"cancelled"}', Reply(response_id="r", outcome="failed")),
        (b'{"output":[{"a":1}]}', Reply(items=(Item(b'{"a":1}'),), outcome="completed")),
        (b'{"error":{"message":"no"}}', Reply(outcome="failed")),
        (b'{"id":"r","status":"compl', Reply(outcome="cut")),
        (b"[]", Reply(outcome="cut")),
    ],
)
def test_an_answer_that_was_not_streamed(body: bytes, reply: Reply) -> None:
    """A JSON answer gives the same kind of reply, with the exact bytes of its items."""
    assert read_reply(body) == reply


def test_a_long_stream_of_bytes_without_a_line_end_takes_linear_time() -> None:
    """A line that arrives in many pieces is joined once: the pieces are held, not the joins."""
    assembler = ResponsesReplyReader()
    text = json.dumps({"type": "response.output_item.done", "item": {"a": "x" * 3_000_000}}, separators=(",", ":")).encode()
    for index in range(0, len(text), 30):
        assembler.feed((b"data: " if index == 0 else b"") + text[index : index + 30])
    assembler.feed(b"\n\n")
    assert [len(item.raw) for item in assembler.reply.items] == [3_000_008]
