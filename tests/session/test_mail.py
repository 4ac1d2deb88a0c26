"""Mail to an agent that runs by itself: what breaks off an answer, what starts a turn, what is history by then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.histories import answered, call, output, reasoning, said
from tests.session.answers import DIALECTS
from tests.session.item_stream import UnfoldingModel

from threadkeep import Session, Threadkeep
from threadkeep.errors import ModelUnavailable
from threadkeep.items import Item
from threadkeep.llm import RetryPolicy
from threadkeep.session import Answer
from threadkeep.testing.scripted_model import ScriptedModel, Unavailable, says
from threadkeep.threads.mailbox import Way, render_mail
from threadkeep.threads.turn_state import TurnState

pytestmark = pytest.mark.anyio

REMARK = {**answered("Let me look."), "phase": "commentary"}


async def look() -> str:
    """Look."""
    return "ok"


async def items(session: Session) -> list[dict[str, Any]]:
    return [dict(item) for item in await session.thread.window()]


async def instantly(seconds: float) -> None:
    """Where a test does not wait."""


async def breaks_off() -> None:
    raise ModelUnavailable("unfolding:model", reason="its answer broke off")


@pytest.mark.parametrize("on_the_way", [reasoning("r1"), REMARK], ids=["a thought", "a remark"])
@pytest.mark.parametrize("unfolds", [True, False], ids=["item by item", "all at once"])
async def test_agents_mail_is_heard_before_the_call_behind_a_thought_is_run(
    tk: Threadkeep, on_the_way: dict[str, Any], *, unfolds: bool
) -> None:
    """The call is dropped, not run and not recorded; the next request has the mail."""
    thread = await tk.thread("t")
    ran: list[str] = []

    def shell(cmd: str) -> str:
        """Run a command."""
        ran.append(cmd)
        return "ok"

    def wrong_file() -> Any:
        return thread.deliver("Wrong file.", sender="reviewer", way="trigger")

    reply = [on_the_way, call("c1")]
    model: Any = UnfoldingModel([wrong_file, *reply], [answered("The other, then.")])
    if not unfolds:
        parsed = tuple(thread.dialect.parse(item) for item in reply)

        async def looks(_: object) -> Any:
            await wrong_file()
            return says("", items=parsed, called_tools=True)

        model = ScriptedModel([looks, says("The other, then.", items=(thread.dialect.parse(answered("The other, then.")),))])
    session = Session(thread, model=model, tools=[shell], recall=False)
    assert (await session.ask("Fix it.")).text == "The other, then."
    mail = said(render_mail("Wrong file.", sender="reviewer", way=Way.TRIGGER))
    history = [thread.dialect.parse(item) for item in (said("Fix it."), on_the_way, mail, answered("The other, then."))]
    assert list((await thread.history()).items) == history
    assert ran == []
    model.close()


async def test_every_item_is_history_before_the_next_one_comes(tk: Threadkeep) -> None:
    """Whoever reads the thread while the model still speaks finds what it has said."""
    seen: list[list[Any]] = []
    reader = await tk.thread("t")

    async def reads() -> None:
        seen.append(list(await reader.window()))

    model = UnfoldingModel([reads, reasoning("r1"), reads, call("c1"), reads], [answered("Done.")])
    session = await Session.open(tk, "t", model=model, tools=[look], recall=False)
    await session.ask("Go.")
    whole = [said("Go."), reasoning("r1"), call("c1")]
    assert seen == [whole[:1], whole[:2], whole]


async def test_an_answer_that_breaks_off_behind_its_calls_goes_on_with_them(tk: Threadkeep) -> None:
    """What came in is not asked for again: the call is run, and the model goes on with its output."""
    model = UnfoldingModel([reasoning("r1"), call("c1", name="look", arguments="{}"), breaks_off], [answered("Done.")])
    session = await Session.open(tk, "t", model=model, tools=[look], recall=False)
    assert await session.ask("Go.") == Answer(text="Done.", requests=2, input_tokens=10, output_tokens=2)
    done = call("c1", name="look", arguments="{}")
    assert list(await session.window()) == [said("Go."), reasoning("r1"), done, output("c1"), answered("Done.")]


async def test_an_answer_that_breaks_off_once_it_was_given_is_the_answer(tk: Threadkeep) -> None:
    """The turn ends with it."""
    session = await Session.open(tk, "t", model=UnfoldingModel([answered("Done."), breaks_off]))
    assert (await session.ask("Go.")).text == "Done."
    assert [turn.state for turn in await session.thread.turns()] == [TurnState.CLOSED]


async def test_an_answer_that_breaks_off_on_the_way_is_asked_for_again_as_often_as_patience_lasts(tk: Threadkeep) -> None:
    """Each time with what is there; then the provider's error is the caller's, and nothing is lost."""
    model = UnfoldingModel([REMARK, breaks_off], [REMARK, breaks_off], [answered("Done.")])
    patience = RetryPolicy(attempts=2, sleep=instantly, jitter=lambda: 0.5)
    session = await Session.open(tk, "t", model=model, patience=patience)
    with pytest.raises(ModelUnavailable):
        await session.ask("Go.")
    assert (await session.ask()).text == "Done."
    assert [len(body["input"]) for body in model.bodies] == [1, 2, 3]
    model.close()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_of_which_nothing_came_is_asked_for_again(tk: Threadkeep, dialect: str) -> None:
    """The same request once more."""
    model = ScriptedModel([Unavailable(), "Here."], dialect=dialect)
    session = await Session.open(tk, "t", model=model, patience=RetryPolicy(attempts=2, sleep=instantly, jitter=lambda: 0.5))
    assert (await session.ask("Hello?")).text == "Here."
    assert model.bodies[0] == model.bodies[1]


@pytest.mark.parametrize("way", ["trigger", "steer"])
async def test_an_agent_that_attends_answers_mail_that_asks_for_a_turn(tk: Threadkeep, way: str) -> None:
    """It waits for such; what only queues does not wake it, and is heard with what does."""
    model = ScriptedModel(["On it."])
    session = await Session.open(tk, "t", model=model)
    other = await tk.thread("t")
    await other.deliver("By the way.", sender="ci")
    assert await session.attend(timeout_s=0) is None
    attending = asyncio.create_task(session.attend())
    await other.deliver("Count the boats.", sender="harbour", way=way)
    answer = await attending
    assert answer is not None
    assert answer.text == "On it."
    sent = str(model.bodies[0])
    assert ("By the way." in sent, "Count the boats." in sent) == (True, True)
    assert await session.attend(timeout_s=0) is None


async def test_a_model_that_leaves_half_an_emoji_is_recorded(tk: Threadkeep) -> None:
    """Cut inside a pair, it stands as a replacement mark; the turn has its answer."""
    half = Item(b'{"role":"assistant","content":"Hi \\ud83d"}')
    model = ScriptedModel([says("Hi", items=(half,))], dialect="chat")
    session = await Session.open(tk, "t", model=model)
    assert (await session.ask("Hello?")).text == "Hi"
    assert (await items(session))[-1] == {"role": "assistant", "content": "Hi \ufffd"}


async def test_going_on_reads_the_newest_turn_alone(tk: Threadkeep, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of many turns costs what its last one holds: what came before is not asked of the store."""
    session = await Session.open(tk, "t", model=ScriptedModel([]))
    for number in range(30):
        await session.thread.record([said(f"{number}"), answered(f"{number}")])
    asked = 0
    read = tk.backend.store.read

    async def counted(span: Any, **more: Any) -> Any:
        nonlocal asked
        found = await read(span, **more)
        asked += len(found)
        return found

    monkeypatch.setattr(tk.backend.store, "read", counted)
    assert await session.ask() == Answer()
    assert asked < 20
