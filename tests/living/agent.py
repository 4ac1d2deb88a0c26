"""A host that runs turns of a scripted model, and a provider's eye on every request it makes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

from tests.scenarios.vocabulary import Json, Speech

from holdfast import Thread
from holdfast.items import decoded, open_calls
from holdfast.runtime.turn import TurnScope
from holdfast.store import RecordKind
from holdfast.testing.provider_rules import ProviderRules
from holdfast.testing.script import Received
from holdfast.testing.speech import WireName
from holdfast.thread.delivery import letter
from holdfast.thread.mailbox import Way

# What a model says, item by item, and what happens elsewhere between two of its items.
Said = Json | Callable[[], Awaitable[object]]
Tool = Callable[[], Awaitable[Json]]

FIELDS: Final = {"responses": "input", "chat": "messages", "messages": "messages"}


def refusal(dialect: str, window: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why a provider with strict rules would refuse a history, if it would."""
    sealed = [str(item["encrypted_content"]) for item in window if item.get("encrypted_content")]
    body = {"model": "m", FIELDS[dialect]: list(window)}
    received = Received(
        method="POST", path=f"/v1/{dialect}", headers={}, authorised=True, raw=json.dumps(body).encode(), body=body
    )
    fault = ProviderRules(alternating=dialect != "responses", issued=sealed).refusal(cast(WireName, dialect), received)
    return fault.message if fault else None


def mail_item(speech: Speech, text: str, *, sender: str = "", way: Way = Way.QUEUE, answers: str = "") -> Json:
    """What an agent's mail is in the history."""
    return speech.said(letter(text, sender=sender, way=way, answers=answers))


async def run_turn(
    thread: Thread,
    speech: Speech,
    incoming: Sequence[Json],
    *replies: Sequence[Said],
    tools: Mapping[str, Tool] | None = None,
) -> list[list[Json]]:
    """Run one turn with these replies and return every request that was made; each must be one a provider accepts."""
    requests: list[list[Json]] = []
    waiting = list(replies)
    async with thread.turn(incoming) as turn:
        while not requests or await turn.goes_on():
            window = list(await turn.window())
            assert refusal(speech.dialect, window) is None, window
            requests.append(window)
            await _hear(thread, speech, turn, waiting.pop(0), tools=tools or {})
    assert waiting == [], "every reply was asked for"
    return requests


async def _hear(thread: Thread, speech: Speech, turn: TurnScope, reply: Sequence[Said], *, tools: Mapping[str, Tool]) -> None:
    spoken: list[Json] = []
    for each in reply:
        if callable(each):
            await each()
            continue
        await turn.record([each])
        spoken.append(each)
        if await turn.is_interrupted_by_mail():
            break
    for call_id in open_calls([view for _, view in thread.seen(spoken)]):
        result = await tools[call_id]() if call_id in tools else speech.output(call_id)
        await turn.record([result])


async def recorded(thread: Thread) -> list[Json]:
    """Return every item of the thread's own records, in order, whatever became of it."""
    return [decoded(record.body) for record in await thread.records() if record.kind is RecordKind.ITEM]
