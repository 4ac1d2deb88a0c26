"""The scripted model follows its script and fails a test that departs from it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.llm.wires import RESPONSES, Wire

from threadkeep.dialects import Request
from threadkeep.errors import ModelOverflow, ModelRejected, ModelUnavailable
from threadkeep.items import ItemKind
from threadkeep.testing.scripted_model import (
    Calls,
    Compacts,
    Holds,
    Overflows,
    Rejected,
    ScriptedModel,
    ScriptedRemoteModel,
    Step,
    Unavailable,
    refuses,
    runs_out,
    says,
)

pytestmark = pytest.mark.anyio


async def test_a_script_is_played_in_order(wire: Wire) -> None:
    """Words, endings and figures are those of the steps, whole, in any dialect."""
    steps: list[Step] = [
        "One.",
        refuses("No."),
        runs_out("Tw"),
        says("Three.", input_tokens=7, cost_usd=0.5),
        Calls(tool="sh", arguments={}, text="Hm."),
    ]
    async with ScriptedModel(steps, dialect=wire.dialect) as model:
        replies = [await model.ask(wire.request) for _ in steps]
    assert [(reply.text, reply.ending, reply.called_tools) for reply in replies] == [
        ("One.", "finished", False),
        ("No.", "refused", False),
        ("Tw", "length", False),
        ("Three.", "finished", False),
        ("Hm.", "finished", True),
    ]
    assert (replies[3].input_tokens, replies[3].cost_usd) == (7, 0.5)
    views = [[wire.view(item) for item in reply.items] for reply in replies]
    assert [view.text for view in views[0]] == ["One."]
    assert [view.kind for view in views[4]][-1] is ItemKind.CALL


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (Overflows(limit_tokens=9), ModelOverflow),
        (Unavailable(), ModelUnavailable),
        (Rejected(), ModelRejected),
    ],
)
async def test_a_step_may_be_an_error(step: Step, kind: type[Exception]) -> None:
    """Each raises what a real model would raise."""
    async with ScriptedModel([step]) as model:
        with pytest.raises(kind):
            await model.ask(RESPONSES.request)


async def test_requests_are_kept_whole() -> None:
    """What a model was asked can be read as a provider would have received it."""
    async with ScriptedModel(["ok"]) as model:
        await model.ask(RESPONSES.request)
    assert model.requests == [RESPONSES.request]
    assert model.bodies == [RESPONSES.question]


async def test_a_step_may_look_at_the_request() -> None:
    """It answers what it was asked, at once or in its own time."""

    def count(request: Request) -> str:
        return f"{len(request.items)} items"

    async def fail(request: Request) -> Step:
        return Unavailable(reason="on purpose")

    async with ScriptedModel([count, fail]) as model:
        assert (await model.ask(RESPONSES.request)).text == "1 items"
        with pytest.raises(ModelUnavailable, match="on purpose"):
            await model.ask(RESPONSES.request)


async def test_a_step_may_wait() -> None:
    """A test decides when the answer comes."""
    until = asyncio.Event()
    async with ScriptedModel([Holds(until=until, then="at last")]) as model:
        asking = asyncio.create_task(model.ask(RESPONSES.request))
        done, _ = await asyncio.wait([asking], timeout=0)
        assert not done
        until.set()
        assert (await asking).text == "at last"


async def test_an_unused_step_fails() -> None:
    """A script longer than what happened is wrong."""
    with pytest.raises(AssertionError, match="the script has 2 steps, 1 requests came"):
        async with ScriptedModel(["one", "two"]) as model:
            await model.ask(RESPONSES.request)


async def test_a_missing_step_fails_when_it_is_asked_for_and_when_it_is_over() -> None:
    """Whoever swallows the first failure meets the second."""
    model = ScriptedModel([])
    with pytest.raises(AssertionError, match="request 1"):
        await model.ask(RESPONSES.request)
    with pytest.raises(AssertionError, match="the script has 0 steps, 1 requests came"):
        model.close()


async def test_a_failure_of_the_test_itself_is_not_hidden() -> None:
    """An error that is on its way out already is the one that is seen."""
    with pytest.raises(ZeroDivisionError):
        async with ScriptedModel(["unused"]):
            raise ZeroDivisionError


async def test_a_remote_model_compacts_where_its_script_says_so() -> None:
    """It answers and compacts from one script, and refuses to mistake one for the other."""
    item: dict[str, Any] = {"type": "compaction", "encrypted_content": "e"}
    async with ScriptedRemoteModel(
        ["hello", Compacts(items=(item,), input_tokens=5), "hello", Unavailable()], issuer="me#1"
    ) as model:
        assert (await model.ask(RESPONSES.request)).text == "hello"
        made = await model.compact(RESPONSES.request)
        with pytest.raises(AssertionError, match="a compaction was asked for"):
            await model.compact(RESPONSES.request)
        with pytest.raises(ModelUnavailable):
            await model.compact(RESPONSES.request)
    assert (len(made.items), made.issuer, made.input_tokens) == (1, "me#1", 5)
