"""Requests and streams of the Responses API as clients and providers write them, in files of our own.

Of one dialect alone: the recordings are the Responses API's; test_chat.py and test_messages.py read others'.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from threadkeep.dialects import Reply, find_dialect
from threadkeep.items import Item, find_boundaries, find_open_calls, find_orphans

FIXTURES = Path(__file__).parent / "fixtures" / "responses"
RESPONSES = find_dialect("responses")


def items_of(name: str) -> tuple[Item, ...]:
    request = RESPONSES.split((FIXTURES / name).read_bytes())
    assert request is not None
    return (*request.head, *request.items)


@pytest.mark.parametrize("name", ["every_call.json", "media_and_unknown.json"])
def test_every_item_and_field_of_a_recorded_request_keeps_its_bytes(name: str) -> None:
    """Taken apart and put together it is the request, to the last space inside an item or field."""
    body = (FIXTURES / name).read_bytes()
    request = RESPONSES.split(body)
    assert request is not None
    joined = RESPONSES.join(request, request.items)
    assert all(item.raw in body for item in (*request.head, *request.items))
    assert all(raw in joined for raw in request.fields.values() if raw != request.fields["input"])
    assert [item.raw for item in items_of(name)] == [
        item.raw for again in (RESPONSES.split(joined),) if again for item in (*again.head, *again.items)
    ]


def test_every_form_of_call_pairs_with_its_output() -> None:
    """Function, custom, shell, tool search, approval and computer calls close; what runs at the provider opens nothing."""
    views = [RESPONSES.view(item) for item in items_of("every_call.json")]
    assert (find_open_calls(views), find_orphans(views)) == ([], [])
    assert find_boundaries(views) == snapshot([0, 1, 2, 3, 6, 8, 10, 12, 13, 14, 16, 18, 19])


def test_views_of_media_and_of_what_nobody_knows() -> None:
    """Images are counted, unknown items are opaque, a refusal is text, half an emoji costs nothing else."""
    views = [RESPONSES.view(item) for item in items_of("media_and_unknown.json")]
    assert [(str(view.kind), str(view.role), view.text, view.images, view.by_person) for view in views] == snapshot(
        [
            ("message", "user", "Which buoy is this?", 1, True),
            ("opaque", "assistant", "", 0, False),
            ("opaque", "assistant", "", 0, False),
            ("opaque", "assistant", "", 0, False),
            ("message", "assistant", "I cannot tell.", 0, False),
            ("message", "user", "café 😀 half \ufffd", 0, True),
        ]
    )


def test_a_recorded_stream_is_its_items_and_usage() -> None:
    """Reasoning, text and call in output order, as the exact bytes that were streamed."""
    reader = RESPONSES.wire.make_reader()
    assert reader.feed((FIXTURES / "reasoning_text_and_call.sse").read_bytes())
    reply = reader.reply
    assert [json.loads(item.raw)["type"] for item in reply.items] == ["reasoning", "message", "function_call"]
    assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens, reply.outcome) == (120, 100, 12, "completed")


def test_an_overflow_is_a_failed_reply() -> None:
    """It has an id and nothing else to keep."""
    reader = RESPONSES.wire.make_reader()
    assert reader.feed((FIXTURES / "overflow.sse").read_bytes())
    assert reader.reply == Reply(response_id="resp_8", outcome="failed")
