"""Promise 10 for whoever opens turns: a compaction is prepared at the soft limit, and only the hard limit waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.drafting.replies import block
from tests.parity.vocabulary import ROOM, SPEECHES, Speech, checkpoints, config, play

from threadkeep import Config, Session, Thread, Threadkeep
from threadkeep.compaction import trigger as making_room
from threadkeep.errors import CompactionRunning
from threadkeep.hooks import Facts, FunctionHook, HookEvent, HookReply, Hooks
from threadkeep.testing.scripted_model import Holds, ScriptedModel, Step, says

pytestmark = pytest.mark.anyio

LONG = "Mind this listing. " + "row of the listing\n" * 300


@pytest.fixture(params=SPEECHES, ids=[speech.dialect for speech in SPEECHES])
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.param
    return found


class Pending:
    """A draft that a test lets come; `begun` once it was asked for."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    def __call__(self, request: object) -> Step:
        self.begun.set()
        return Holds(until=self.go, then=says(block(handoff="go on")))


async def one_turn(thread: Thread, speech: Speech, text: str = "Hello.", *, model: str | ScriptedModel | None = None) -> None:
    async with thread.turn([speech.said(text)], model=model) as turn:
        await turn.window()
        await turn.record([speech.answered("Done.")])


async def near_the_limit(tk: Threadkeep, speech: Speech) -> Thread:
    """Return a thread whose next turn ends between the soft and the hard limit."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 10)
    return thread


async def made_in(thread: Thread) -> list[tuple[str, str, str]]:
    return [(made.reason, made.phase, made.strategy) for made in await checkpoints(thread)]


async def test_a_turn_that_ends_past_the_soft_limit_has_a_compaction_made_beside_the_next(tk: Threadkeep, speech: Speech) -> None:
    """It needs no model, nobody waits, and a later turn's window is based on it."""
    thread = await near_the_limit(tk, speech)
    await one_turn(thread, speech)
    assert await thread.upkeep_is_over()
    assert await made_in(thread) == [("background", "standalone_turn", "extractive")]
    async with thread.turn([speech.said("Go on.")]) as turn:
        window = await turn.window()
    assert (window.checkpoint is not None, window.pressure.worth_preparing, window.trouble) == (True, False, None)


async def test_the_turns_own_model_drafts_it(tk: Threadkeep, speech: Speech) -> None:
    """A model that was given to the turn is asked, on the prefix of its requests; nobody else knows it."""
    thread = await near_the_limit(tk, speech)
    async with ScriptedModel([says(block(handoff="go on"))], dialect=speech.dialect, window_tokens=ROOM) as model:
        await one_turn(thread, speech, model=model)
        await thread.upkeep_is_over()
    assert await made_in(thread) == [("background", "standalone_turn", "session")]


async def test_a_model_known_by_name_is_not_asked(tk: Threadkeep, speech: Speech) -> None:
    """There is no credential for it: the compaction is made without a model."""
    thread = await near_the_limit(tk, speech)
    await one_turn(thread, speech, model="mini")
    await thread.upkeep_is_over()
    assert await made_in(thread) == [("background", "standalone_turn", "extractive")]


async def test_below_the_soft_limit_nothing_is_begun(tk: Threadkeep, speech: Speech) -> None:
    """There is nothing to wait for."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 4)
    await one_turn(thread, speech)
    assert not await thread.upkeep_is_over()


async def test_a_turn_that_failed_has_nothing_prepared(tk: Threadkeep, speech: Speech) -> None:
    """Whoever goes on from there decides."""
    thread = await near_the_limit(tk, speech)
    with pytest.raises(ZeroDivisionError):
        async with thread.turn([speech.said("Hello.")]):
            raise ZeroDivisionError
    assert not await thread.upkeep_is_over()


async def test_one_draft_at_a_time_and_none_is_waited_for_below_the_hard_limit(tk: Threadkeep, speech: Speech) -> None:
    """Turns go on while the model thinks, and it is asked once."""
    thread, draft = await near_the_limit(tk, speech), Pending()
    async with ScriptedModel([draft], dialect=speech.dialect, window_tokens=ROOM) as model:
        await one_turn(thread, speech, model=model)
        await draft.begun.wait()
        await one_turn(thread, speech, "And on.", model=model)
        assert await made_in(thread) == []
        draft.go.set()
        await thread.upkeep_is_over()
    assert await made_in(thread) == [("background", "standalone_turn", "session")]


async def test_within_a_long_turn_what_is_prepared_is_swapped_in_when_its_model_is_asked(tk: Threadkeep, speech: Speech) -> None:
    """A turn of many calls never waits below the hard limit: it goes on while the draft is made, and then rests on it."""
    thread, draft = await near_the_limit(tk, speech), Pending()
    async with ScriptedModel([draft], dialect=speech.dialect, window_tokens=ROOM) as model:
        async with thread.turn([speech.said("Go on.")], model=model) as turn:
            assert (await turn.window()).checkpoint is None
            await turn.record([speech.call("a"), speech.output("a")])
            before = await turn.window()
            await draft.begun.wait()
            await turn.record([speech.call("b"), speech.output("b", "found it")])
            assert list(await turn.window())[: len(before)] == list(before)
            draft.go.set()
            await thread.upkeep_is_over()
            after = await turn.window()
            assert (after.checkpoint is not None, after.pressure.worth_preparing) == (True, False)
            assert all(text in str(list(after)) for text in ("Go on.", "found it"))
            await turn.record([speech.answered("Done.")])
        assert await made_in(thread) == [("background", "mid_turn", "session")]


async def test_past_the_hard_limit_a_turn_waits_for_the_draft_and_makes_none(tk: Threadkeep, speech: Speech) -> None:
    """The turn uses the checkpoint that is already being made."""
    thread, draft = await near_the_limit(tk, speech), Pending()
    async with ScriptedModel([draft], dialect=speech.dialect, window_tokens=ROOM) as model:
        await one_turn(thread, speech, model=model)
        await draft.begun.wait()
        async with thread.turn([speech.said(LONG)], model=model) as turn:
            window = asyncio.create_task(turn.window())
            for _ in range(40):
                await thread.window()
            assert not window.done()
            draft.go.set()
            assert ((await window).trouble, (await window).pressure.must_compact) == (None, False)
            assert await made_in(thread) == [("background", "standalone_turn", "session")]


async def test_closing_the_store_breaks_off_a_draft(store_file: Path, speech: Speech) -> None:
    """The process ends at once, nothing is written, and the next one finds nobody at it."""
    draft = Pending()
    async with Threadkeep(config(store_file)) as tk:
        thread = await near_the_limit(tk, speech)
        await one_turn(thread, speech, model=ScriptedModel([draft], dialect=speech.dialect, window_tokens=ROOM))
        await draft.begun.wait()
    async with Threadkeep(config(store_file)) as again:
        thread = await again.thread("t")
        assert await made_in(thread) == []
        assert (await thread.compact()).checkpoint is not None


async def test_closing_the_store_waits_for_what_is_written_and_told(store_file: Path, speech: Speech) -> None:
    """Once the checkpoint is there, whoever hears of it does so to the end, with the store still open."""
    begun, go, heard = asyncio.Event(), asyncio.Event(), list[int]()

    async def hears(facts: Facts) -> HookReply:
        begun.set()
        await go.wait()
        heard.extend(summary.checkpoints for summary in await tk.threads())
        return HookReply()

    tk = Threadkeep(config(store_file), hooks=Hooks().on(HookEvent.POST_COMPACT, FunctionHook(function=hears)))
    async with tk:
        thread = await near_the_limit(tk, speech)
        await one_turn(thread, speech)
        await begun.wait()
        asyncio.get_running_loop().call_soon(go.set)
    assert heard == [1]


async def test_what_a_person_asks_for_comes_before_a_draft_nobody_asked_for(tk: Threadkeep, speech: Speech) -> None:
    """The draft under way is dropped, and the person's compaction is made as it was worded."""
    thread, draft = await near_the_limit(tk, speech), Pending()
    await one_turn(thread, speech, model=ScriptedModel([draft], dialect=speech.dialect, window_tokens=ROOM))
    await draft.begun.wait()
    report = await thread.compact(strategy="extractive", focus="the parser")
    assert (report.strategy, await thread.upkeep_is_over()) == ("extractive", False)
    assert await made_in(thread) == [("user_requested", "standalone_turn", "extractive")]


async def test_what_gained_nothing_is_not_begun_again_until_the_window_has_grown(tk: Threadkeep, speech: Speech) -> None:
    """One huge request fills the window: the turns after it, a few words each, try nothing."""
    thread = await tk.thread("t", dialect=speech.dialect)
    began = list[bool]()
    for text in ("word " * 3_300, "", ""):
        async with thread.turn([speech.said(text)] if text else []) as turn:
            await turn.record([speech.call(f"c{len(began)}"), speech.output(f"c{len(began)}")])
        began.append(await thread.upkeep_is_over())
        async with thread.turn([]) as turn:
            await turn.record([speech.answered("Done.")])
        began.append(await thread.upkeep_is_over())
    assert (began[0], any(began[1:]), await made_in(thread)) == (True, False, [])


async def test_threads_of_one_name_in_two_tenants_are_two(tk: Threadkeep, speech: Speech) -> None:
    """Neither keeps the other's from being prepared."""
    draft = Pending()
    async with ScriptedModel([draft], dialect=speech.dialect, window_tokens=ROOM) as model:
        first, second = await near_the_limit(tk, speech), await near_the_limit(await tk.for_tenant("other"), speech)
        await one_turn(first, speech, model=model)
        await draft.begun.wait()
        await one_turn(second, speech)
        await second.upkeep_is_over()
        assert (await made_in(first), len(await made_in(second))) == ([], 1)
        draft.go.set()
        await first.upkeep_is_over()


async def test_a_turn_waits_for_another_process_for_as_long_as_a_lease_lasts(
    tk: Threadkeep, clock: ManualClock, speech: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has to be said for that; who is not done by then is told of, and the window there is goes out."""
    assert making_room.PATIENCE_S == 120
    monkeypatch.setattr(making_room, "PATIENCE_S", 0.0)
    thread = await near_the_limit(tk, speech)
    assert await tk.backend.store.acquire("compact:t", holder="another", now_ms=clock.ms, ttl_ms=3_600_000)
    async with thread.turn([speech.said(LONG)]) as turn:
        assert (await turn.window()).trouble == str(CompactionRunning("t"))


async def test_a_model_that_says_it_takes_less_is_believed(store_file: Path, speech: Speech) -> None:
    """By a turn and by a session: what is configured for all is far from full, what this model takes is."""
    async with Threadkeep(Config(store=str(store_file), compact_strategy="extractive")) as tk:
        thread = await near_the_limit(tk, speech)
        small = ScriptedModel([], dialect=speech.dialect, window_tokens=4_000)
        assert (await Session(thread, model=small, recall=False).window()).pressure.limits.hard == 3_600
        async with thread.turn([speech.said(LONG)], model=small) as turn:
            window = await turn.window()
    assert (window.checkpoint is not None, window.pressure.limits.full, window.trouble) == (True, 3_800, None)


async def test_what_is_configured_counts_where_it_is_less_than_a_model_says(tk: Threadkeep, speech: Speech) -> None:
    """The user's word for it."""
    thread = await tk.thread("t", dialect=speech.dialect)
    large = ScriptedModel([], dialect=speech.dialect, window_tokens=ROOM)
    async with thread.turn([speech.said("Hello.")], model=large) as turn:
        assert (await turn.window()).pressure.limits.full == 3_800


@pytest.fixture
async def mostly_one_request(store_file: Path, speech: Speech) -> AsyncIterator[Thread]:
    """A thread beyond its soft limit of which a compaction sheds less than there is room, because one request fills it."""
    async with Threadkeep(config(store_file, window_tokens=20_000)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 7)
        yield thread


async def test_where_waiting_is_cheaper_nothing_is_made_and_no_model_is_asked(mostly_one_request: Thread, speech: Speech) -> None:
    """It is decided on the plan alone, once until the window has grown; a person who asks for it gets it."""
    thread = mostly_one_request
    async with ScriptedModel([], dialect=speech.dialect, window_tokens=ROOM) as model:
        await one_turn(thread, speech, "Read this. " + "word " * 10_300, model=model)
        began = await thread.upkeep_is_over()
        async with thread.turn([], model=model) as turn:
            await turn.record([speech.answered("Anything else?")])
    assert (began, await thread.upkeep_is_over(), await made_in(thread)) == (True, False, [])
    report = await thread.compact(strategy="extractive")
    assert report.worth.sheds * 10 > report.tokens_before


async def test_at_the_hard_limit_nobody_weighs_the_price(mostly_one_request: Thread, speech: Speech) -> None:
    """What must be made is made, however little it sheds."""
    thread = mostly_one_request
    async with thread.turn([speech.said("Read this. " + "word " * 13_000)]) as turn:
        window = await turn.window()
    assert (window.trouble, [reason for reason, _, _ in await made_in(thread)]) == (None, ["context_limit"])


async def test_a_hook_that_wants_none_is_asked_once_until_the_window_has_grown(store_file: Path, speech: Speech) -> None:
    """A turn of many calls past the soft limit does not run it with every one of them."""
    asked = list[str]()

    def stops(facts: Facts) -> HookReply:
        asked.append(str(facts.event))
        return HookReply(stop=True, reason="not now")

    hooks = Hooks().on(HookEvent.PRE_COMPACT, FunctionHook(function=stops))
    async with Threadkeep(config(store_file), hooks=hooks) as tk:
        thread = await near_the_limit(tk, speech)
        async with thread.turn([speech.said("Go on.")]) as turn:
            for number in range(4):
                await turn.window()
                await thread.upkeep_is_over()
                await turn.record([speech.call(f"x{number}"), speech.output(f"x{number}")])
        await thread.upkeep_is_over()
    assert asked == ["PreCompact"]
