"""A provider that compacts in the middle of an answer (`context_management`): what it wrote becomes the checkpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.doubles.model_server import ModelServer, events, streamed
from tests.drafting.replies import block
from tests.drafting.test_branching import opaque
from tests.llm.wires import MESSAGES, RESPONSES
from tests.parity.vocabulary import OFFERED, ROOM, Json, Speech, checkpoints, sent, turn

from threadkeep import Config, Session, Thread, Threadkeep
from threadkeep.dialects import find_dialect
from threadkeep.hooks import Facts, FunctionHook, HookEvent, HookReply, Hooks
from threadkeep.items import Item
from threadkeep.testing.model_checks import HttpReply
from threadkeep.testing.scripted_model import ScriptedModel, ScriptedRemoteModel, Step, says

pytestmark = pytest.mark.anyio

HERE = "here#1"


@pytest.fixture(params=OFFERED, ids=[speech.dialect for speech in OFFERED])
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.param
    return found


@pytest.fixture
async def roomy(store_file: Path) -> AsyncIterator[Threadkeep]:
    async with Threadkeep(Config(store=str(store_file), model_context_window=ROOM)) as tk:
        yield tk


def provider(steps: list[Step], speech: Speech, *, issuer: str = HERE) -> ScriptedRemoteModel:
    return ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM, issuer=issuer)


def inline(speech: Speech, number: int, text: str) -> list[Json]:
    """An answer in whose middle the provider compacted: on Messages it is a block of the answer's message."""
    if speech.dialect == "messages":
        words = {"type": "text", "text": text}
        return [{"role": "assistant", "content": [*opaque(speech, number)["content"], words]}]
    return [opaque(speech, number), speech.answered(text)]


def compacts(speech: Speech, number: int, text: str) -> Step:
    parse = find_dialect(speech.dialect).parse
    return says(text, items=tuple(parse(item) for item in inline(speech, number, text)))


async def long_thread(tk: Threadkeep, speech: Speech) -> Thread:
    thread = await tk.thread("t", dialect=speech.dialect)
    for number in range(1, 9):
        await thread.record(turn(speech, number, lines=400))
    return thread


async def test_what_the_provider_wrote_comes_first_and_a_state_stands_beside_it(roomy: Threadkeep, speech: Speech) -> None:
    """The next request begins with it, then the state, then what came after it, and nobody was asked for anything more."""
    thread = await long_thread(roomy, speech)
    async with provider([compacts(speech, 1, "Going on."), says("Done.")], speech) as model:
        session = Session(thread, model=model, recall=False)
        await session.ask("Never touch main. Go on.")
        await session.ask("And now?")
    first, state, *rest = sent(model.bodies[1])
    (made,) = await checkpoints(thread)
    assert first == opaque(speech, 1)
    assert "Never touch main" in str(state) + str(rest)
    assert "sealed" not in str(rest)
    assert rest[-2] == speech.answered("Going on.")
    assert "And now?" in str(rest[-1])
    assert (made.strategy, made.model, made.reason, [each.calls for each in made.attempts]) == (
        "remote",
        model.name,
        "provider_compacted",
        [0],
    )
    assert len(sent(model.bodies[1])) < len(sent(model.bodies[0]))


async def test_in_the_middle_of_a_turn_what_came_after_it_stays_as_it_is(roomy: Threadkeep, speech: Speech) -> None:
    """A call behind the compaction, its output and the turn's own request are whole."""
    thread = await long_thread(roomy, speech)
    model = provider([], speech)
    async with thread.turn([speech.said("Go on.")], model=model) as begun:
        await begun.window()
        await begun.record([*inline(speech, 1, "Looking."), speech.call("late"), speech.output("late", "found it")])
        window = list(await begun.window())
    assert window[0] == opaque(speech, 1)
    assert window[-2:] == [speech.call("late"), speech.output("late", "found it")] or speech.dialect == "messages"
    assert "found it" in str(window[-1])
    assert str(window).count("Go on.") == 1
    assert str(window).count("sealed 1") == 1


async def test_another_account_is_sent_the_state_alone_and_undo_brings_everything_back(roomy: Threadkeep, speech: Speech) -> None:
    """Nothing that was recorded depends on what only one provider can read."""
    thread = await long_thread(roomy, speech)
    async with provider([compacts(speech, 1, "Going on."), says("Done.")], speech) as model:
        session = Session(thread, model=model, recall=False)
        await session.ask("Go on.")
        before = list(await thread.window())
        await session.ask("And now?")
    async with thread.turn([], model=provider([], speech, issuer="elsewhere#2")) as begun:
        elsewhere = list(await begun.window())
    await thread.undo()
    assert "sealed" not in str(elsewhere)
    assert "part 8" in str(elsewhere)
    assert list(await thread.window())[: len(before)] == before


async def test_where_nobody_says_whose_account_it_is_the_item_stays_where_it_was(roomy: Threadkeep, speech: Speech) -> None:
    """A host that names its model alone goes on with the history as its provider left it."""
    thread = await long_thread(roomy, speech)
    async with thread.turn([speech.said("Go on.")], model="openai:a") as begun:
        await begun.window()
        await begun.record(inline(speech, 1, "Looking."))
        window = list(await begun.window())
    assert window[-len(inline(speech, 1, "Looking.")) :] == inline(speech, 1, "Looking.")
    assert await checkpoints(thread) == []


@pytest.mark.parametrize("strategy", ["session", "extractive"])
async def test_no_other_compaction_leaves_it_in_front_of_what_must_be_read(
    roomy: Threadkeep, speech: Speech, strategy: str
) -> None:
    """Its provider reads nothing before it, the state least of all: so it is not among what stays."""
    thread = await long_thread(roomy, speech)
    await thread.record([speech.said("Go on."), *inline(speech, 1, "Looking."), speech.said("And?"), speech.answered("Yes.")])
    steps: list[Step] = [says(block(handoff="go on"))] if strategy == "session" else []
    async with ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy=strategy, model=model)
    window = list(await thread.window(issuer=HERE))
    assert "sealed" not in str(window)
    assert "Looking." in str(window)
    assert window[-2:] == [speech.said("And?"), speech.answered("Yes.")]


async def test_what_the_provider_counted_after_it_corrects_no_estimate_of_the_whole(roomy: Threadkeep, speech: Speech) -> None:
    """It counted what it read, and it read nothing in front of its compaction."""
    thread = await long_thread(roomy, speech)
    async with thread.turn([speech.said("Go on.")], model="openai:a") as begun:
        await begun.window()
        await begun.record(inline(speech, 1, "Looking."), usage={"input_tokens": 300, "output_tokens": 9})
        await begun.record([speech.answered("Done.")], usage={"input_tokens": 300, "output_tokens": 9})
        window = await begun.window()
    assert window.pressure.tokens == window.tokens


async def test_what_came_to_nothing_on_the_providers_side_is_no_compaction(roomy: Threadkeep, speech: Speech) -> None:
    """A provider that failed to compact says so with an empty item, which stands for nothing."""
    thread = await long_thread(roomy, speech)
    empty = [{"type": "compaction", "encrypted_content": None, "content": None}]
    item: Json = {"role": "assistant", "content": [*empty, {"type": "text", "text": "Hm."}]}
    items = [item] if speech.dialect == "messages" else [*empty, speech.answered("Hm.")]
    async with thread.turn([speech.said("Go on.")], model=provider([], speech)) as begun:
        await begun.window()
        await begun.record(items)
        await begun.window()
    assert await checkpoints(thread) == []


def streamed_compaction(speech: Speech, text: str) -> HttpReply:
    """An answer as the provider streams it, compacted on the way."""
    if speech.dialect == "responses":
        items = [{"id": "cmp_1", **opaque(speech, 1)}, {"id": "msg_1", "status": "completed", **speech.answered(text)}]
        done = [{"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(items)]
        whole = {"id": "resp_1", "status": "completed", "output": items, "usage": {"input_tokens": 90, "output_tokens": 9}}
        return events(*done, {"type": "response.completed", "response": whole})
    begun = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 90}}
    told = {"type": "compaction_delta", "content": "sealed 1"}
    return events(
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}},
        {"type": "content_block_delta", "index": 0, "delta": told},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )


async def test_over_the_wire_a_session_asks_for_it_and_goes_on_from_what_it_gets(roomy: Threadkeep, speech: Speech) -> None:
    """The provider's SDK, its stream, and its own words for the wish: the second request begins with what the first brought."""
    wire = RESPONSES if speech.dialect == "responses" else MESSAGES
    wish = {
        "responses": [{"type": "compaction", "compact_threshold": 10_000}],
        "messages": {"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}]},
    }[speech.dialect]
    thread = await long_thread(roomy, speech)
    replies = [streamed_compaction(speech, "Going on."), streamed(speech.dialect, "Done.")]
    async with ModelServer(replies) as server, wire.open(server.origin) as model:
        session = Session(thread, model=model, recall=False, fields={"context_management": wish})
        await session.ask("Go on.")
        await session.ask("And now?")
    first, second = (dict(request.body) for request in server.requests)
    assert [body["context_management"] for body in (first, second)] == [wish, wish]
    assert "sealed 1" in str(sent(second)[0])
    assert "sealed" not in str(sent(second)[1:])
    assert "Going on." in str(sent(second))
    assert (await checkpoints(thread))[0].reason == "provider_compacted"


async def closed_turn(thread: Thread, speech: Speech, model: ScriptedRemoteModel, items: list[Json]) -> None:
    async with thread.turn([speech.said("Go on.")], model=model) as begun:
        await begun.window()
        await begun.record(items)


async def test_what_another_account_was_given_since_is_not_taken_for_ones_own(roomy: Threadkeep, speech: Speech) -> None:
    """Both were compacted for: neither is ever sent the other's item."""
    thread = await long_thread(roomy, speech)
    here, there = provider([], speech), provider([], speech, issuer="elsewhere#2")
    await closed_turn(thread, speech, here, inline(speech, 1, "Here."))
    await closed_turn(thread, speech, there, inline(speech, 2, "There."))
    shown = []
    for model in (here, there, here):
        async with thread.turn([speech.said("And now?")], model=model) as begun:
            shown.append(str(list(await begun.window())))
    marks = [str(opaque(speech, number).get("content", [opaque(speech, number)])[0]) for number in (1, 2)]
    # The last stands on what was made of the other's, of which it is told the state alone.
    assert [[mark in each for mark in marks] for each in shown] == [[True, False], [False, True], [False, False]]


async def test_unread_outputs_behind_it_stay_however_large_they_are(roomy: Threadkeep, speech: Speech) -> None:
    """The provider's item does not cover them, and nothing is full."""
    thread = await long_thread(roomy, speech)
    calls = [
        item for number in range(6) for item in (speech.call(f"n{number}"), speech.output(f"n{number}", f"row {number}\n" * 900))
    ]
    async with thread.turn([speech.said("Go on.")], model=provider([], speech)) as begun:
        await begun.window()
        await begun.record([*inline(speech, 1, "Looking."), *calls])
        window = str(list(await begun.window()))
    assert "sealed 1" in window
    assert all(f"row {number}\\n" * 900 in window for number in range(6))


async def test_a_call_made_before_it_stays_with_the_output_that_came_after(roomy: Threadkeep, speech: Speech) -> None:
    """Pairs are never torn: the call is kept though it stands before the provider's item."""
    thread = await long_thread(roomy, speech)
    async with thread.turn([speech.said("Go on.")], model=provider([], speech)) as begun:
        await begun.window()
        await begun.record([speech.call("late"), *inline(speech, 1, "Looking."), speech.output("late", "found it")])
        window = str(list(await begun.window()))
    assert (window.count("'late'"), window.count("found it")) == (2, 1)
    assert (await roomy.verify()).problems == ()


async def test_once_it_was_undone_it_is_not_made_a_checkpoint_again(roomy: Threadkeep, speech: Speech) -> None:
    """Whoever takes it back has the history as it was, for good; a later one of the provider's counts again."""
    thread = await long_thread(roomy, speech)
    model = provider([], speech)
    await closed_turn(thread, speech, model, inline(speech, 1, "Here."))
    await closed_turn(thread, speech, model, [speech.answered("On.")])
    await thread.undo()
    for _ in range(2):
        await closed_turn(thread, speech, model, [speech.answered("Still on.")])
    assert (await thread.window()).checkpoint is None
    await closed_turn(thread, speech, model, inline(speech, 2, "Again."))
    await closed_turn(thread, speech, model, [speech.answered("On.")])
    assert (await thread.window(issuer=HERE))[0] == opaque(speech, 2)


async def test_a_hook_that_wants_no_compaction_leaves_it_where_it_is(store_file: Path, speech: Speech) -> None:
    """Nothing was due, so no turn ends for it, and none is lost."""

    def stops(facts: Facts) -> HookReply:
        return HookReply(stop=True, reason="not now")

    hooks = Hooks().on(HookEvent.PRE_COMPACT, FunctionHook(function=stops))
    async with Threadkeep(Config(store=str(store_file), model_context_window=ROOM), hooks=hooks) as tk:
        thread = await long_thread(tk, speech)
        model = provider([], speech)
        await closed_turn(thread, speech, model, inline(speech, 1, "Here."))
        await closed_turn(thread, speech, model, [speech.answered("On.")])
        assert await checkpoints(thread) == []


async def test_nobody_waits_to_make_it_a_checkpoint(roomy: Threadkeep, speech: Speech) -> None:
    """Another worker compacts just then: the window goes out as it is, and the next request tries again."""
    thread = await long_thread(roomy, speech)
    model = provider([], speech)
    store = roomy.backend.store
    async with thread.turn([speech.said("Go on.")], model=model) as begun:
        await begun.window()
        await begun.record(inline(speech, 1, "Here."))
        assert await store.acquire("compact:t", holder="another", now_ms=roomy.backend.clock.now_ms(), ttl_ms=3_600_000)
        waiting = list(await begun.window())
        await store.release("compact:t", holder="another")
        assert (waiting[0] == opaque(speech, 1), (await begun.window())[0]) == (False, opaque(speech, 1))


async def test_what_is_left_of_an_answer_keeps_its_bytes() -> None:
    """Numbers and spacing as the provider wrote them: a signature may stand beside them."""
    call = b'{"type":"tool_use", "id":"t","name":"x","input":{"a":1.0,"b":1e400,"c":12345678901234567890}}'
    sealed = b'{"type": "compaction","content":"sealed"}'
    item = Item(b'{"role":"assistant","content":[' + sealed + b"," + call + b'],"x":0.50}')
    found = find_dialect("messages").split_compaction(item)
    assert found.rest == Item(b'{"role":"assistant","content":[' + call + b'],"x":0.50}')
    assert found.written == Item(b'{"role":"assistant","content":[' + sealed + b'],"x":0.50}')
