"""Cancelled at any point, a thread can be gone on with, and a provider accepts what it says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.doubles.provider_rules import ProviderRules
from tests.doubles.script import Received
from tests.doubles.wires import WireName
from tests.session.answers import DIALECTS, calling, outputs_of

from threadkeep import Session, Threadkeep
from threadkeep.dialects import Answer as Spoken
from threadkeep.dialects import Request, find_dialect
from threadkeep.llm import ModelReply
from threadkeep.session import Called, Event, Returned
from threadkeep.testing.scripted_model import Holds, ScriptedModel, Step

pytestmark = pytest.mark.anyio


async def cancelled(session: Session, said: str, *, once: asyncio.Event) -> None:
    """Begin a turn and cancel it when `once` is set."""
    turn = asyncio.create_task(session.ask(said))
    await once.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_while_the_model_answers(tk: Threadkeep, dialect: str) -> None:
    """Nothing of the unfinished answer is history; what was said is, and the next turn has an answer."""
    asked = asyncio.Event()

    def holds(_: object) -> Step:
        asked.set()
        return Holds(until=asyncio.Event(), then="never")

    model = ScriptedModel([holds, "Here I am."], dialect=dialect)
    session = await Session.open(tk, "t", model=model)
    await cancelled(session, "Are you there?", once=asked)
    assert (await session.ask("Hello?")).text == "Here I am."
    sent = str(model.bodies[1])
    assert ("Are you there?" in sent, "Hello?" in sent, "never" in sent) == (True, True, False)
    model.close()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_while_tools_run(tk: Threadkeep, dialect: str) -> None:
    """What a tool returned before is kept; a call without an output is shown as aborted, and stays open in the record."""
    finished = asyncio.Event()

    async def quick() -> str:
        """Return at once."""
        return "done"

    async def slow() -> str:
        """Never return."""
        await asyncio.Event().wait()
        return "never"

    def hear(event: Event) -> None:
        if isinstance(event, Returned):
            finished.set()

    model = ScriptedModel([calling(dialect, ("c1", "quick", {}), ("c2", "slow", {})), "Later, then."], dialect=dialect)
    session = await Session.open(tk, "t", model=model, tools=[quick, slow])
    turn = asyncio.create_task(session.ask("Do both.", hear=hear))
    await finished.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (await session.ask("Never mind.")).text == "Later, then."
    body = model.bodies[1]
    assert outputs_of(dialect, body[find_dialect(dialect).history_field]) == {"c1": "done", "c2": "aborted"}
    recorded = [session.thread.dialect.view(item) for item in (await session.thread.history()).items]
    assert {call for view in recorded for call in view.closes} == {"c1"}
    model.close()


async def test_leaving_the_stream_cancels_the_turn(tk: Threadkeep) -> None:
    """A host that stops listening stops the tools too."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> str:
        """Run until cancelled."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    model = ScriptedModel([calling("responses", ("c1", "endless", {}))])
    session = await Session.open(tk, "t", model=model, tools=[endless])
    stream = session.stream("Go.")
    async for event in stream:
        if isinstance(event, Called):
            await began.wait()
            break
    await stream.aclose()
    assert ended.is_set()
    assert [standing.state for standing in await session.thread.turns()] == ["aborted"]


class Steady:
    """A model that calls two tools when a person asks for both, and says something otherwise; its requests stay readable."""

    window_tokens = None
    name = "steady:model"

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.bodies: list[dict[str, Any]] = []

    async def ask(self, request: Request) -> ModelReply:
        language = find_dialect(self.dialect)
        self.bodies.append(json.loads(language.join(request, request.items)))
        last = language.view(request.items[-1])
        if last.said.endswith("Do both."):
            return calling(self.dialect, ("c1", "quick", {}), ("c2", "quick", {})).reply
        answer = Spoken(text="Done.", response_id="r", message_id="m", model="m", created_at=1)
        return ModelReply(text="Done.", items=language.wire.read_reply(language.wire.render_answer(answer)).items)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("place", range(8))
async def test_at_whatever_happens(tk: Threadkeep, dialect: str, place: int) -> None:
    """Cancelled at any event of a turn with two calls, the next request is one that a strict provider accepts."""

    async def quick() -> str:
        """Return at once."""
        return "done"

    heard: list[Event] = []

    def hear(event: Event) -> None:
        heard.append(event)
        if len(heard) == place + 1:
            turn.cancel()

    model = Steady(dialect)
    session = await Session.open(tk, "t", model=model, tools=[quick])
    turn = asyncio.create_task(session.ask("Do both.", hear=hear))
    await asyncio.wait((turn,))
    assert len(heard) >= place + 1
    assert (await session.ask("Go on.")).text == "Done."
    for body in model.bodies:
        received = Received(method="POST", path="/", headers={}, authorised=True, raw=b"", body=body)
        assert ProviderRules(alternating=dialect != "responses").refusal(wire(dialect), received) is None
    assert (await tk.verify()).ok


def wire(dialect: str) -> WireName:
    match dialect:
        case "responses" | "chat" | "messages" | "gemini":
            return dialect
        case _:
            raise AssertionError(dialect)
