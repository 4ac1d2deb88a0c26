"""An answer that is told item by item while it comes in: which items, in which order, at what cost; what has no end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.llm.wires import request_of

from threadkeep.dialects import find_dialect
from threadkeep.errors import ModelRejected
from threadkeep.items import Item
from threadkeep.llm import Delta, ModelReply, ProviderModel
from threadkeep.llm.provider import IDLE_SECONDS, MAX_ANSWER_BYTES, NO_HEADERS, Incoming, Server

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


class Chunks(Server):
    """A server whose answer is there already."""

    def __init__(self, chunks: Sequence[bytes], *, content_type: str = "text/event-stream") -> None:
        super().__init__("m", base_url="http://127.0.0.1:9")
        self._chunks = chunks
        self._content_type = content_type
        self.read = 0

    @asynccontextmanager
    async def exchange(
        self, path: str, body: bytes, *, headers: Mapping[str, str] = NO_HEADERS, idle_s: float = IDLE_SECONDS
    ) -> AsyncIterator[Incoming]:
        yield Incoming(content_type=self._content_type, chunks=self._arriving())

    async def _arriving(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            self.read += 1
            yield chunk


def event(**fields: Any) -> bytes:
    return f"data: {json.dumps(fields)}\n\n".encode()


def said(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def done(index: int, item: Json) -> bytes:
    return event(type="response.output_item.done", output_index=index, item=item)


def completed(*items: Json) -> bytes:
    return event(type="response.completed", response={"id": "r", "status": "completed", "output": items})


def raw(item: Json) -> Item:
    return Item(json.dumps(item).encode())


async def listened(dialect: str, chunks: Sequence[bytes]) -> tuple[ModelReply, list[tuple[Item, int]]]:
    """Return the answer, and each item with the number of chunks that were read when it was told."""
    server = Chunks(chunks)
    told: list[tuple[Item, int]] = []

    def unheard(delta: Delta) -> None:
        """Words are none of this test's business."""

    async def take(item: Item) -> None:
        told.append((item, server.read))

    model = ProviderModel("m", model="m", dialect=find_dialect(dialect), path="/x", transport=server)
    question = {"input" if dialect == "responses" else "messages": [{"role": "user", "content": "Go."}]}
    return await model.stream_items(request_of(dialect, question), on_delta=unheard, on_item=take), told


async def test_every_item_is_told_once_as_soon_as_it_is_whole() -> None:
    """Two alike are two; a chunk may bring several, one or none; the whole answer holds what was told, in the same order."""
    one, two = said("One."), said("Two.")
    begun = event(type="response.created", response={"id": "r"})
    reply, told = await listened("responses", [begun, done(0, one) + done(1, one), begun, done(2, two), completed(one, one, two)])
    assert told == [(raw(one), 2), (raw(one), 2), (raw(two), 4)]
    assert reply.items == tuple(item for item, _ in told)


async def test_items_that_only_the_end_of_an_answer_lists_are_told_then() -> None:
    """Some servers stream words alone."""
    one, two = said("One."), said("Two.")
    reply, told = await listened("responses", [completed(one, two)])
    assert told == [(raw(one), 1), (raw(two), 1)]
    assert reply.items == (raw(one), raw(two))


async def test_what_follows_the_end_of_an_answer_is_no_item_of_it() -> None:
    """In the same chunk too: what is told is what the answer holds."""
    one = said("One.")
    reply, told = await listened("responses", [done(0, one) + completed(one) + done(1, said("Two."))])
    assert (told, reply.items) == ([(raw(one), 1)], (raw(one),))


async def test_an_answer_that_is_one_message_is_told_at_its_end() -> None:
    """Chat Completions has no items to tell of before."""
    delta = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}]}
    reply, told = await listened("chat", [event(**delta), b"data: [DONE]\n\n"])
    assert told == [(item, 2) for item in reply.items]
    assert len(told) == 1


async def test_an_answer_of_many_items_takes_linear_time() -> None:
    """Looking through all items for each chunk would take hours here."""
    items = [said(f"Step {index}.") for index in range(10_000)]
    reply, told = await listened("responses", [*(done(index, item) for index, item in enumerate(items)), completed()])
    assert reply.items == tuple(item for item, _ in told)
    assert len(told) == len(items)


async def test_an_answer_that_would_not_end_is_not_to_be_asked_for_again() -> None:
    """Asking again would not make it shorter: it is no failure that waiting mends."""
    server = Chunks([bytes(MAX_ANSWER_BYTES), b"x", b"y"], content_type="application/json")
    model = ProviderModel("m", model="m", dialect=find_dialect("chat"), path="/x", transport=server)
    with pytest.raises(ModelRejected):
        await model.ask(request_of("chat", {"messages": [{"role": "user", "content": "Go."}]}))
    assert server.read == 2
