"""The agent loop: what is said, asked, called and recorded, in every dialect."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from tests.session.answers import DIALECTS, calling, outputs_of

from threadkeep import Config, Session, Threadkeep
from threadkeep.dialects import ToolCall
from threadkeep.errors import CompactionStopped, ModelRejected, UnknownModel
from threadkeep.hooks import FunctionHook, HookEvent, HookReply, Hooks
from threadkeep.llm import RetryPolicy
from threadkeep.recall import tool as recall_tool
from threadkeep.session import Answer, Asked, Called, Compacted, Event, Returned, Said, Trouble
from threadkeep.testing.scripted_model import Overflows, Rejected, ScriptedModel, Step, Unavailable, runs_out, says

pytestmark = pytest.mark.anyio


async def weather(city: str, days: int = 1) -> str:
    """Say what the weather will be."""
    return f"{city}: rain for {days} days"


def breaks(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


async def instantly(seconds: float) -> None:
    """Where a test does not wait."""


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_turn_ends_with_what_the_model_says(tk: Threadkeep, dialect: str) -> None:
    """The person's words go out, the answer comes back, both are in the thread."""
    model = ScriptedModel([says("It is four.", input_tokens=20, output_tokens=3, cost_usd=0.5)], dialect=dialect)
    session = await Session.open(tk, "t", model=model, instructions="Be brief.")
    answer = await session.ask("Two and two?")
    assert answer == Answer(text="It is four.", requests=1, input_tokens=20, output_tokens=3, cost_usd=0.5)
    assert [session.thread.dialect.view(item).text for item in (await session.thread.history()).items] == [
        "Two and two?",
        "It is four.",
    ]
    assert "Be brief." in str(model.bodies[0])
    model.close()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_calls_of_one_answer_run_beside_each_other(tk: Threadkeep, dialect: str) -> None:
    """Each waits for the other, so neither would end if they ran one after the other."""
    met = asyncio.Barrier(2)

    async def meet(name: str) -> str:
        """Wait for the other one."""
        await met.wait()
        return f"{name} met"

    asks = calling(dialect, ("c1", "meet", {"name": "a"}), ("c2", "meet", {"name": "b"}))
    model = ScriptedModel([asks, "Both met."], dialect=dialect)
    session = await Session.open(tk, "t", model=model, tools=[meet])
    assert (await session.ask("Go.")).text == "Both met."
    assert outputs_of(dialect, list(await session.window())) == {"c1": "a met", "c2": "b met"}
    model.close()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_goes_wrong_in_a_tool_is_its_output(tk: Threadkeep, dialect: str) -> None:
    """A tool that raises, one that is not there, and arguments of the wrong type cost no turn."""
    asks = calling(
        dialect,
        ("c1", "breaks", {"reason": "no luck"}),
        ("c2", "absent", {}),
        ("c3", "weather", {"city": "Oslo", "days": "many"}),
    )
    model = ScriptedModel([asks, "I see."], dialect=dialect)
    session = await Session.open(tk, "t", model=model, tools=[weather, breaks])
    assert (await session.ask("Go.")).text == "I see."
    said = outputs_of(dialect, list(await session.window()))
    assert said["c1"] == "error: ValueError: no luck"
    assert said["c2"].startswith("error: LookupError: there is no tool 'absent'")
    assert said["c3"].startswith("error: ValidationError: Expected `int`, got `str`")
    model.close()


async def test_what_happens_is_told_in_order(tk: Threadkeep) -> None:
    """Asked, called, returned, asked, said, answered."""
    model = ScriptedModel([calling("responses", ("c1", "weather", {"city": "Oslo"})), "Rain."])
    session = await Session.open(tk, "t", model=model, tools=[weather])
    heard: list[Event] = [event async for event in session.stream("Oslo?")]
    call = ToolCall(id="c1", name="weather", arguments='{"city": "Oslo"}')
    assert [event for event in heard if not isinstance(event, Asked)] == [
        Called(call=call),
        Returned(call=call, text="Oslo: rain for 1 days"),
        Said(text="Rain."),
        Answer(text="Rain.", requests=2),
    ]
    assert [type(event) for event in heard].count(Asked) == 2


async def test_the_model_can_recall(tk: Threadkeep) -> None:
    """What was said can be looked up word for word, with its pointer; what the tool itself was asked or said before is no hit."""
    asks = [calling("responses", (f"c{number}", "recall", {"query": "which port does staging use"})) for number in (1, 2)]
    model = ScriptedModel([*asks, "8443."])
    session = await Session.open(tk, "t", model=model)
    await session.thread.record([{"type": "message", "role": "user", "content": "Staging listens on port 8443."}])
    await session.ask("Which port was it?")
    outputs = outputs_of("responses", list(await session.window()))
    assert outputs["c1"].startswith("What was said, word for word:\n\n[t#")
    assert [text.count("Staging listens on port 8443.") for text in outputs.values()] == [1, 1]
    assert [text.count("query") for text in outputs.values()] == [0, 0]


async def test_a_pointer_that_leads_nowhere_is_answered(tk: Threadkeep) -> None:
    """The model is told that there is nothing, as hosts' models are; it is no error of the tool."""
    session = await Session.open(tk, "t", model=ScriptedModel([calling("responses", ("c1", "recall", {"query": "#99"})), "No."]))
    heard: list[Event] = []
    await session.ask("What does #99 say?", hear=heard.append)
    call = ToolCall(id="c1", name="recall", arguments='{"query": "#99"}')
    assert [event for event in heard if isinstance(event, Returned)] == [Returned(call=call, text=recall_tool.NOTHING)]


async def test_the_recall_tool_is_worded_as_for_every_host(tk: Threadkeep) -> None:
    """Name, description and schema are those of `runtime.recall_tool`."""
    tool = (await Session.open(tk, "t", model=ScriptedModel([]))).tools["recall"]
    assert (tool.name, tool.description, tool.schema) == (recall_tool.NAME, recall_tool.DESCRIPTION, recall_tool.PARAMETERS)


async def test_an_overloaded_provider_is_asked_again(tk: Threadkeep) -> None:
    """One answer comes of two attempts, and both are told."""
    model = ScriptedModel([Unavailable(), "Here."])
    patience = RetryPolicy(attempts=2, sleep=instantly, jitter=lambda: 0.5)
    session = await Session.open(tk, "t", model=model, patience=patience)
    heard: list[Event] = []
    assert (await session.ask("Hello?", hear=heard.append)).text == "Here."
    assert [event.attempt for event in heard if isinstance(event, Asked)] == [1, 2]


async def test_an_error_of_the_model_ends_the_turn_and_loses_nothing(tk: Threadkeep) -> None:
    """What was said is in the thread, and can be gone on with."""
    model = ScriptedModel([Rejected(), "Now I can."])
    session = await Session.open(tk, "t", model=model)
    with pytest.raises(ModelRejected):
        await session.ask("Hello?")
    assert (await session.ask()).text == "Now I can."
    model.close()


async def test_with_nothing_to_go_on_with_nothing_is_asked(tk: Threadkeep) -> None:
    """An empty thread, and one whose last turn has its answer, ask no model."""
    model = ScriptedModel(["Yes."])
    days = iter(["Monday", "Tuesday", "Wednesday"])
    session = await Session.open(tk, "t", model=model, context=lambda: {"day": next(days)})
    assert await session.ask() == Answer()
    assert await session.thread.told() is None
    await session.ask("Ready?")
    assert [await session.ask(), await session.ask()] == [Answer(), Answer()]
    assert await session.thread.told() == {"day": "Monday"}
    model.close()


async def test_mail_starts_a_turn(tk: Threadkeep) -> None:
    """What another agent sent is answered without anybody typing."""
    model = ScriptedModel(["On it."])
    session = await Session.open(tk, "t", model=model)
    await session.thread.deliver("Count the boats.", sender="harbour", way="trigger")
    assert (await session.ask()).text == "On it."
    assert "Count the boats." in str(model.bodies[0])


async def test_a_full_window_is_compacted_before_the_model_is_asked(store_file: Path) -> None:
    """Pre-turn: the request goes out whole and last, behind a checkpoint, and it is told."""
    async with Threadkeep(small(store_file)) as tk:
        model = ScriptedModel(["Fine."])
        session = await Session.open(tk, "t", model=model, recall=False)
        await session.thread.record(long_history())
        heard: list[Event] = []
        await session.ask("Never use tabs. And now?", hear=heard.append)
    assert [type(event) for event in heard if isinstance(event, Compacted | Trouble)] == [Compacted]
    assert texts(model.bodies[0]["input"][-1]) == ["Never use tabs. And now?"]


async def test_what_a_tool_returns_can_fill_the_window_and_the_turn_goes_on(store_file: Path) -> None:
    """Mid-turn: between two requests of one turn the window is compacted; what was asked for stays in it."""

    def read() -> str:
        """Read much."""
        return "line\n" * 900

    async with Threadkeep(small(store_file)) as tk:
        steps = [calling("responses", (f"c{number}", "read", {})) for number in range(5)]
        model = ScriptedModel([*steps, "Read it all."])
        session = await Session.open(tk, "t", model=model, tools=[read], recall=False)
        heard: list[Event] = []
        assert (await session.ask("Read everything, and never write.", hear=heard.append)).text == "Read it all."
    assert [type(event) for event in heard if isinstance(event, Compacted)] != []
    assert "never write" in str(model.bodies[-1]["input"])


async def test_a_window_the_provider_refuses_is_compacted_and_sent_again(store_file: Path) -> None:
    """Overflow: we thought it fitted, the provider says it does not, the turn has its answer all the same."""
    async with Threadkeep(small(store_file, window=200_000)) as tk:
        model = ScriptedModel([Overflows(), "Made it."])
        session = await Session.open(tk, "t", model=model, recall=False)
        await session.thread.record(long_history())
        heard: list[Event] = []
        assert (await session.ask("Go on.", hear=heard.append)).text == "Made it."
        sizes = [len(str(body["input"])) for body in model.bodies]
    assert sizes[1] < sizes[0]
    assert [type(event) for event in heard if isinstance(event, Compacted | Trouble)] == [Trouble, Compacted]


async def test_a_hook_that_stops_a_compaction_ends_the_turn(store_file: Path) -> None:
    """What was said is recorded; the model is not asked with a window that is too full."""
    stop = FunctionHook(function=lambda facts: HookReply(stop=True, reason="not now"))
    hooks = Hooks().on(HookEvent.PRE_COMPACT, stop)
    async with Threadkeep(small(store_file), hooks=hooks) as tk:
        session = await Session.open(tk, "t", model=ScriptedModel([]), recall=False)
        await session.thread.record(long_history())
        with pytest.raises(CompactionStopped, match="not now"):
            await session.ask("And now?")
        assert texts(list(await session.thread.window())[-1]) == ["And now?"]


async def test_past_the_soft_limit_it_compacts_beside_the_conversation(store_file: Path) -> None:
    """Nobody waited for it: when the session is left, the thread has a checkpoint."""
    config = Config(
        store=str(store_file), model_context_window=8_000, model_soft_compact_token_limit=500, compact_strategy="extractive"
    )
    async with Threadkeep(config) as tk:
        async with await Session.open(tk, "t", model=ScriptedModel(["Fine."]), recall=False) as session:
            await session.thread.record(long_history(turns=8))
            heard: list[Event] = []
            await session.ask("Go on.", hear=heard.append)
        assert [event for event in heard if isinstance(event, Compacted)] == []
        assert (await session.thread.window()).checkpoint is not None


async def test_a_model_of_another_language_is_refused(tk: Threadkeep) -> None:
    """A thread is written in one dialect; the error names both."""
    thread = await tk.thread("t", dialect="messages")
    with pytest.raises(UnknownModel, match="its dialect is chat, but that of thread 't' is messages"):
        Session(thread, model=ScriptedModel([], dialect="chat"))


async def test_the_world_is_told_as_it_changes(tk: Threadkeep) -> None:
    """A callable is asked at each turn; the second request holds the difference alone."""
    days = iter(["Monday", "Tuesday"])
    model = ScriptedModel(["Hi.", "Hi again."])
    session = await Session.open(tk, "t", model=model, context=lambda: {"day": next(days), "cwd": "/src"})
    await session.ask("One.")
    await session.ask("Two.")
    told = [text for item in model.bodies[1]["input"] for text in texts(item) if "<environment_context" in text]
    assert [("Monday" in text, "Tuesday" in text, "cwd" in text) for text in told] == [(True, False, True), (False, True, False)]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_is_sent_only_grows(tk: Threadkeep, dialect: str) -> None:
    """From request to request the history keeps its beginning, told worlds and outputs included; so does what is beside it."""
    days = iter(["Monday", "Tuesday"])
    steps: list[Step] = [calling(dialect, ("c1", "weather", {"city": "Oslo"})), "Rain.", "Still rain."]
    model = ScriptedModel(steps, dialect=dialect)
    session = await Session.open(tk, "t", model=model, tools=[weather], context=lambda: {"day": next(days)})
    await session.ask("Oslo?")
    await session.ask("And now?")
    field = session.thread.dialect.history_field
    bodies = [json.loads(json.dumps(body).replace(', "cache_control": {"type": "ephemeral"}', "")) for body in model.bodies]
    for earlier, later in itertools.pairwise(bodies):
        # Where roles must alternate, the last message may still be added to.
        settled = len(earlier[field]) - (0 if dialect == "responses" else 1)
        assert later[field][:settled] == earlier[field][:settled]
        assert {name: later[name] for name in later if name != field} == {
            name: earlier[name] for name in earlier if name != field
        }


async def test_where_only_what_is_marked_is_cached_the_end_is_marked(tk: Threadkeep) -> None:
    """The Messages API caches up to a mark; it goes out on the newest block, and is not in the thread."""
    model = ScriptedModel(["Yes.", "No."], dialect="messages")
    session = await Session.open(tk, "t", model=model)
    await session.ask("One?")
    await session.ask("Two?")
    marked = [[("cache_control" in str(message)) for message in body["messages"]] for body in model.bodies]
    assert marked == [[True], [False, False, True]]
    assert "cache_control" not in str(list(await session.window()))


async def test_an_answer_that_ran_out_of_room_says_so(tk: Threadkeep) -> None:
    """Whoever asked can tell half an answer from a whole one."""
    session = await Session.open(tk, "t", model=ScriptedModel([runs_out("And then")]))
    assert (await session.ask("Tell me.")).ending == "length"


def small(store_file: Path, *, window: int = 4_000) -> Config:
    return Config(store=str(store_file), model_context_window=window, compact_strategy="extractive")


def texts(item: dict[str, Any]) -> list[str]:
    return [part["text"] for part in item["content"]]


def long_history(*, turns: int = 14) -> list[dict[str, Any]]:
    said = [{"type": "message", "role": "user", "content": f"Look into part {number}."} for number in range(turns)]
    answers = [{"type": "message", "role": "assistant", "content": f"Part {number} is fine. " * 60} for number in range(turns)]
    return [item for pair in zip(said, answers, strict=True) for item in pair]
