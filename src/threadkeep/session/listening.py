"""Hearing a model out: its words are passed on while they come, its items go into the turn as they are whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from threadkeep.client import TurnScope
from threadkeep.dialects import Request
from threadkeep.errors import ModelUnavailable
from threadkeep.items import Item, decode_json, repair_surrogates
from threadkeep.llm import Delta, Model, ModelReply, Streams
from threadkeep.llm.answers import speech_in
from threadkeep.session.events import Hear, Said


@runtime_checkable
class StreamsItems(Protocol):
    """A model that tells of each item of its answer as soon as that one is whole."""

    async def stream_items(
        self, request: Request, *, heard: Callable[[Delta], None], completed: Callable[[Item], Awaitable[None]]
    ) -> ModelReply:
        """Send `request` and return the whole answer; everything else as `Streams.stream`.

        `completed` is awaited with each item, in output order, before more of the answer is read. What it raises ends the call,
        and closes the connection.
        """
        ...


class BrokenOffByMail(Exception):
    """Mail waits that the model is to hear before it goes on; the rest of its answer is dropped."""


class Listener:
    """A model that is listened to while it answers, as far as it lets itself be. One answer, in any number of attempts.

    Every item is recorded in the turn before the next is looked at. An item that is a thought, or a remark on the way, ends the
    answer where an agent's mail waits.

    Attributes:
        cut_by: Why the provider broke off an answer of which something was recorded by then.
    """

    def __init__(self, model: Model, turn: TurnScope, *, hear: Hear) -> None:
        self.name, self.dialect, self.window_tokens = model.name, model.dialect, model.window_tokens
        self.cut_by: ModelUnavailable | None = None
        self._model = model
        self._turn = turn
        self._hear = hear
        self._heard_words = False
        self._recorded: list[Item] = []

    async def ask(self, request: Request) -> ModelReply:
        """Return the answer, its items being those that were recorded.

        Raises:
            ModelUnavailable: As the model raises it, where nothing was recorded: the same request may be made again.
        """
        try:
            # Where an answer is one message, there is nothing to record before its end.
            whole_anyway = self.dialect != "responses" and isinstance(self._model, Streams)
            if isinstance(self._model, StreamsItems) and not whole_anyway:
                return await self._recorded_as_it_came(self._model, request)
            return await self._recorded_whole(await self._answered(request))
        except BrokenOffByMail:
            return self._so_far()
        except ModelUnavailable as error:
            if not self._recorded:
                raise
            self.cut_by = error
            return self._so_far()

    async def _recorded_as_it_came(self, model: StreamsItems, request: Request) -> ModelReply:
        reply = await model.stream_items(request, heard=self._heard, completed=self._record)
        # The answer is in the window by now, and what the provider counted for the window is both.
        counted = (reply.input_tokens or 0) + (reply.output_tokens or 0)
        await self._turn.record([], usage={"input_tokens": counted, "output_tokens": reply.output_tokens or 0})
        self._say_if_unheard(reply)
        return replace(reply, items=tuple(self._recorded))

    async def _recorded_whole(self, reply: ModelReply) -> ModelReply:
        usage = {"input_tokens": reply.input_tokens or 0, "output_tokens": reply.output_tokens or 0}
        await self._turn.record([], usage=usage)
        try:
            for item in reply.items:
                await self._record(item)
        except BrokenOffByMail:
            return replace(reply, items=tuple(self._recorded), text=self._so_far().text)
        self._say_if_unheard(reply)
        return reply

    async def _answered(self, request: Request) -> ModelReply:
        if isinstance(self._model, Streams):
            return await self._model.stream(request, heard=self._heard)
        return await self._model.ask(request)

    async def _record(self, item: Item) -> None:
        # A model that is cut inside an emoji leaves half of one, which no provider would take back.
        await self._turn.record([decode_json(repair_surrogates(item.raw))])
        self._recorded.append(item)
        if await self._turn.is_interrupted_by_mail():
            raise BrokenOffByMail

    def _so_far(self) -> ModelReply:
        return ModelReply(text=_said(self._recorded, dialect=self.dialect), items=tuple(self._recorded))

    def _say_if_unheard(self, reply: ModelReply) -> None:
        if reply.text and not self._heard_words:
            self._hear(Said(text=reply.text))

    def _heard(self, delta: Delta) -> None:
        self._heard_words = self._heard_words or not delta.is_thought
        self._hear(Said(text=delta.text, is_thought=delta.is_thought))


def _said(items: Sequence[Item], *, dialect: str) -> str:
    return speech_in(items, dialect=dialect).text
