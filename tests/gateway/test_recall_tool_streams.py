"""What a client gets of a provider's answers does not depend on how their bytes were cut, and hostile bytes raise nothing."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doubles.responses_stream import Numbering
from tests.doubles.script import Received, Reply, message, say
from tests.doubles.wires import WireName, speak
from tests.gateway.client import ENDPOINTS, WIRES
from tests.gateway.recall_client import recall_item

from threadkeep.dialects import find_dialect
from threadkeep.dialects.answer_filter import AnswerFilter
from threadkeep.gateway.conversation.recall_tool import TOOL

HOSTILE = [
    b"data: {}\n\n",
    b"data: [1]\n\n",
    b"data: \xff\n\n",
    b"\n\n",
    b": ping\n\n",
    b'data: {"type": 3, "index": "x"}\n\n',
    b'data: {"type": "message_delta", "delta": 1}\n\n',
    b'data: {"type": "response.created", "response": 1}\n\n',
    b'data: {"type": "response.completed", "response": 4}\n\n',
    b'data: {"output_index": 0, "item": []}\n\n',
    b'data: {"choices": [{"delta": {"tool_calls": [1]}}]}\n\n',
    b'data: {"choices": [{"delta": 3, "finish_reason": "x"}]}\n\n',
]


def streams(wire: WireName) -> tuple[bytes, bytes]:
    """Return an answer that recalls something after a word, and the one that follows it."""
    ids = Numbering()
    request = {"stream": True, "stream_options": {"include_usage": True}, "model": "m"}
    path = f"/v1{ENDPOINTS[wire]}"
    received = Received(method="POST", path=path, headers={}, authorised=True, raw=b"", body=request)
    first = Reply(items=(message("Look: é."), recall_item("port", "call_r")))
    spoken = [speak(wire, received, reply, ids=ids, signature=None) for reply in (first, say("Found."))]
    first_stream, second_stream = (b"".join(each.before) + each.ending for each in spoken)
    return first_stream, second_stream


def make_filter(wire: WireName) -> AnswerFilter:
    return find_dialect(wire).wire.make_filter(TOOL.name)


def veiled(wire: WireName, chunks: list[list[bytes]]) -> bytes:
    veil = make_filter(wire)
    out = b"".join(map(veil.feed, chunks[0]))
    veil.start_next()
    return out + b"".join(map(veil.feed, chunks[1])) + veil.end()


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:stop] for start, stop in pairwise(edges) if stop > start]


@pytest.mark.parametrize("wire", WIRES)
@given(st.lists(st.integers(0, 10_000), max_size=12), st.lists(st.integers(0, 10_000), max_size=12))
def test_cuts_do_not_matter(wire: WireName, one: list[int], other: list[int]) -> None:
    """The same bytes in any pieces come out the same, without a trace of the call."""
    first, second = streams(wire)
    whole = veiled(wire, [[first], [second]])
    assert veiled(wire, [cut(first, one), cut(second, other)]) == whole
    assert (b"threadkeep_recall" in whole, b"call_r" in whole, "é" in json.dumps(whole.decode(), ensure_ascii=False)) == (
        False,
        False,
        True,
    )


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_that_calls_nothing_of_ours_passes_as_it_came(wire: WireName) -> None:
    """Byte for byte."""
    _, plain = streams(wire)
    veil = make_filter(wire)
    assert veil.feed(plain) + veil.end() == plain


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_without_its_last_line_end_is_told_whole(wire: WireName) -> None:
    """Some servers leave it out; the end of the bytes is then the end of the event."""
    _, plain = streams(wire)
    veil = make_filter(wire)
    assert veil.feed(plain.rstrip()) + veil.feed(b"") + veil.end() == plain.rstrip()


@pytest.mark.parametrize("wire", WIRES)
@given(
    st.lists(
        st.sampled_from(HOSTILE),
        max_size=8,
    )
)
def test_hostile_events_raise_nothing(wire: WireName, events: list[bytes]) -> None:
    """Whatever a provider sends, a veil goes on."""
    veil = make_filter(wire)
    for event in events:
        veil.feed(event)
    veil.start_next()
    for event in events:
        veil.feed(event)
    assert isinstance(veil.end(), bytes)
