"""What conversations through the gateway are shown of the memory: beside what the client says, never in its history.

A conversation keeps what it was shown with its first request, byte for byte, so that its prefix stays and what a provider bound
to it fits. Only where that memory was taken back, because somebody edited it or something was erased, is it shown the newest.
"""

from __future__ import annotations

import msgspec

from threadkeep.dialects import Dialect, Reply, Request
from threadkeep.dialects.raw_json import join_list, join_object, read_value, split_list, split_object
from threadkeep.gateway.hints import Hints
from threadkeep.gateway.known import Known
from threadkeep.gateway.rules import Rules
from threadkeep.items import Item
from threadkeep.memory.memory import Memories, Shown

APART = "\n\n"


class Recollections:
    """What is remembered, for conversations of one tenant."""

    def __init__(self, memories: Memories, rules: Rules) -> None:
        self._memories = memories
        self._rules = rules

    async def for_conversation(self, known: Known | None, hints: Hints) -> Shown:
        """Return what a conversation's model is shown; None is a conversation that begins."""
        if not self._rules.shows_memory(client=hints.client):
            return Shown()
        if known is None:
            return await self._memories.shown()
        pin = known.told.memory if known.told is not None else ""
        if not pin:
            return Shown()
        return await self._memories.shown_again(pin) or await self._memories.shown()

    async def cited(self, reply: Reply, *, dialect: Dialect) -> None:
        """Count the memories that an answer cites."""
        if self._rules.memory != "off":
            await self._memories.cite_in("\n".join(dialect.view(item).text for item in reply.items))


def remembering(request: Request, text: str, *, dialect: Dialect) -> Request:
    """Return a request whose model is shown `text` after the client's instructions; the very same request if it is empty."""
    if not text:
        return request
    if dialect.name == "messages":
        fields = {**request.fields, "system": _with_block(request.fields.get("system"), text)}
        return Request(fields=fields, head=request.head, items=request.items)
    if dialect.name == "responses":
        # Beside `instructions`, which some providers accept from known clients only as they wrote them.
        told = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}
        return Request(fields=request.fields, head=(*request.head, dialect.parse(told)), items=request.items)
    # Templates of many models allow one message in the system's role, and only at the very beginning.
    last = _with_more(request.head[-1], text) if request.head else None
    own = dialect.parse({"role": "system", "content": text})
    head = (*request.head, own) if last is None else (*request.head[:-1], last)
    return Request(fields=request.fields, head=head, items=request.items)


def _with_block(system: bytes | None, text: str) -> bytes:
    """Return the Messages API's `system` with one more block; markers the client set stay where they are."""
    told = read_value(system) if system is not None else None
    if isinstance(told, str):
        return msgspec.json.encode(f"{told}{APART}{text}")
    block = msgspec.json.encode({"type": "text", "text": text})
    return join_list([*(split_list(system) or () if system is not None else ()), block])


def _with_more(item: Item, text: str) -> Item | None:
    """Return a message with `text` at its end; None where its content is of no form that takes one."""
    fields = split_object(item.raw) or {}
    content = fields.get("content", b"null")
    told = read_value(content)
    if isinstance(told, str):
        return Item(join_object({**fields, "content": msgspec.json.encode(f"{told}{APART}{text}")}))
    parts = split_list(content)
    if parts is None:
        return None
    part = msgspec.json.encode({"type": "text", "text": text})
    return Item(join_object({**fields, "content": join_list([*parts, part])}))
