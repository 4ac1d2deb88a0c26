"""A session that runs turns of a scripted model, and a provider's eye on every request it makes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

from tests.doubles.provider_rules import ProviderRules
from tests.doubles.script import Received
from tests.doubles.wires import WireName
from tests.parity.vocabulary import Json, Speech
from tests.session.answers import outputs_of

from threadkeep import Session, Thread
from threadkeep.dialects import Request, find_dialect
from threadkeep.errors import ModelRejected
from threadkeep.items import Item, decode_json
from threadkeep.llm import Delta, ModelReply
from threadkeep.session import Tool as SessionTool
from threadkeep.store import RecordKind
from threadkeep.threads.mailbox import Way, render_mail

# What a model says, item by item, and what happens elsewhere between two of its items.
Said = Json | Callable[[], Awaitable[object]]
Tool = Callable[[], Awaitable[Json]]

TOOLS: Final = ("shell", "sleep")


def refusal(dialect: str, window: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why a provider with strict rules would refuse a history, if it would."""
    sealed = [str(item["encrypted_content"]) for item in window if item.get("encrypted_content")]
    body = {"model": "m", find_dialect(dialect).history_field: list(window)}
    received = Received(
        method="POST", path=f"/v1/{dialect}", headers={}, authorised=True, raw=json.dumps(body).encode(), body=body
    )
    fault = ProviderRules(alternating=dialect != "responses", issued=sealed).refusal(cast(WireName, dialect), received)
    return fault.message if fault else None


def mail_item(speech: Speech, text: str, *, sender: str = "", way: Way = Way.QUEUE, answers: str = "") -> Json:
    """What an agent's mail is in the history."""
    return speech.said(render_mail(text, sender=sender, way=way, answers=answers))


async def run_turn(
    thread: Thread,
    speech: Speech,
    incoming: Sequence[Json],
    *replies: Sequence[Said],
    tools: Mapping[str, Tool] | None = None,
) -> list[list[Json]]:
    """Run one turn of a `Session` with these replies and return every request that was made, each as a provider accepts it.

    `tools` are by the id of the call they answer; a call that none of them answers returns what `speech.output` says.
    """
    model = _SpeakingModel(speech, replies, tools=tools or {})
    shown = [SessionTool(name=name, description="Do it.", schema={"type": "object"}, run=model.answer_call) for name in TOOLS]
    await Session(thread, model=model, tools=shown, recall=False).ask(incoming)
    assert model.waiting == [], "every reply was asked for"
    return model.requests


class _SpeakingModel:
    """A model that says what a scenario wrote down, item by item, and answers the calls it made."""

    name = "speaking:model"
    window_tokens = None

    def __init__(self, speech: Speech, replies: Sequence[Sequence[Said]], *, tools: Mapping[str, Tool]) -> None:
        self.dialect = speech.dialect
        self.requests: list[list[Json]] = []
        self.waiting = list(replies)
        self._speech = speech
        self._tools = tools
        self._called: list[str] = []

    async def ask(self, request: Request) -> ModelReply:
        raise ModelRejected(self.name, status=400, reason="it writes no summaries")

    async def stream_items(
        self, request: Request, *, on_delta: Callable[[Delta], None], on_item: Callable[[Item], Awaitable[None]]
    ) -> ModelReply:
        language = find_dialect(self.dialect)
        window = [_unmarked(decode_json(item.raw)) for item in request.items]
        assert (refusal(self.dialect, window), window) == (None, window)
        self.requests.append(window)
        for each in self.waiting.pop(0):
            if callable(each):
                await each()
                continue
            item = language.parse(each)
            self._called += language.view(item).opens
            await on_item(item)
        return ModelReply(text="")

    async def answer_call(self, arguments: Json) -> str:
        call_id = self._called.pop(0)
        item = await self._tools[call_id]() if call_id in self._tools else self._speech.output(call_id)
        return outputs_of(self.dialect, [item])[call_id]


def _unmarked(item: Json) -> Json:
    """Return an item without the mark up to which a provider caches."""
    content = item.get("content")
    if not isinstance(content, list):
        return item
    return {**item, "content": [{key: value for key, value in part.items() if key != "cache_control"} for part in content]}


async def recorded(thread: Thread) -> list[Json]:
    """Return every item of the thread's own records, in order, whatever became of it."""
    return [decode_json(record.body) for record in await thread.records() if record.kind is RecordKind.ITEM]
