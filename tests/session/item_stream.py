"""A model that tells of each item of its answer as it is whole, and lets things happen between two of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from threadkeep.dialects import Request, find_dialect
from threadkeep.items import Item
from threadkeep.llm import Delta, ModelReply
from threadkeep.llm.answers import read_speech

# An item, or something that happens elsewhere before the next one.
Told = dict[str, Any] | Callable[[], Awaitable[object]]


class UnfoldingModel:
    """Answers the n-th request with the n-th of `replies`. An exception among what happens is how the answer breaks off."""

    name = "unfolding:model"
    window_tokens = None

    def __init__(self, *replies: Sequence[Told], dialect: str = "responses") -> None:
        self.dialect = dialect
        self.bodies: list[dict[str, Any]] = []
        self._language = find_dialect(dialect)
        self._replies = list(replies)

    async def ask(self, request: Request) -> ModelReply:
        raise AssertionError("it is listened to item by item")

    async def stream_items(
        self, request: Request, *, on_delta: Callable[[Delta], None], on_item: Callable[[Item], Awaitable[None]]
    ) -> ModelReply:
        self.bodies.append(json.loads(self._language.join(request, request.items)))
        items: list[Item] = []
        for told in self._replies.pop(0):
            if callable(told):
                await told()
            else:
                items.append(self._language.parse(told))
                await on_item(items[-1])
        return ModelReply(
            text=read_speech(items, dialect=find_dialect(self.dialect)).text, items=tuple(items), input_tokens=10, output_tokens=2
        )

    def close(self) -> None:
        """Check that every answer was asked for."""
        assert self._replies == []
