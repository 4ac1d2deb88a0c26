"""Compactions the provider makes by itself, as turns meet them, on the two wires that offer them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from tests.drafting.replies import block
from tests.drafting.test_branching import opaque
from tests.parity.vocabulary import (
    OFFERED,
    ROOM,
    STATE,
    Json,
    Speech,
    checkpoints,
    config,
    context,
    permissions,
    play,
    seen,
    sent,
    turn,
    turns,
)

from threadkeep import Config, Head, Session, Thread, Threadkeep
from threadkeep.compaction.backend import Order
from threadkeep.hooks import CompactionFacts, Facts, FunctionHook, HookEvent, HookReply, Hooks
from threadkeep.llm import RetryPolicy
from threadkeep.testing.scripted_model import (
    Compacts,
    Overflows,
    Rejected,
    ScriptedRemoteModel,
    Step,
    Unavailable,
    says,
)

pytestmark = pytest.mark.anyio

HERE = "here#1"
PICTURE = "iVBORw0KGgo" * 200
TOOLS: tuple[Json, ...] = ({"type": "function", "name": "shell", "parameters": {"type": "object"}},)


@pytest.fixture(params=OFFERED, ids=[speech.dialect for speech in OFFERED])
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.param
    return found


def provider(steps: list[Step], speech: Speech, *, window_tokens: int = ROOM) -> ScriptedRemoteModel:
    return ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=window_tokens, issuer=HERE)


def compacts(speech: Speech, number: int = 1, *before: Json) -> Compacts:
    """The provider's compaction, with what else it returned in front of it."""
    return Compacts(items=(*before, opaque(speech, number)))


async def shown(thread: Thread) -> list[Json]:
    """Return the window as the issuer of its opaque item is sent it."""
    return list(await thread.window(issuer=HERE))


async def at_once(seconds: float) -> None:
    """Where a test must not wait."""


async def test_the_request_has_what_a_turn_has_beside_its_history(tk: Threadkeep, speech: Speech) -> None:
    """Same instructions, tools and cache key, the settled history item for item, and no instruction of ours."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    async with provider([compacts(speech)], speech) as model:
        await thread.carry_out(Order(strategy="remote", model=model), head=Head("Be careful.", TOOLS))
    (body,) = model.bodies
    assert sent(body) == turns(speech, 1, 8)
    assert body["tools"] == list(TOOLS)
    if speech.dialect == "responses":
        assert (body["instructions"], body["prompt_cache_key"]) == ("Be careful.", thread.cache_key)
    else:
        assert body["system"] == "Be careful."


async def test_the_next_turns_go_on_from_the_opaque_item_and_the_state(tk: Threadkeep, speech: Speech) -> None:
    """What was compacted is gone from the follow-ups, which only grow from there, in a turn and as a session sends it."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    async with provider([compacts(speech), says("Done.")], speech) as model:
        await thread.compact(strategy="remote", model=model)
        before = await shown(thread)
        assert before[0] == opaque(speech, 1)
        assert "line of part 3" not in str(before)
        async with thread.turn([speech.said("Go on.")], model=model) as begun:
            assert list(await begun.window()) == [*before, speech.said("Go on.")]
            await begun.record([speech.answered("Done.")])
        grown = [*before, speech.said("Go on."), speech.answered("Done.")]
        assert await shown(thread) == grown
        await Session(thread, model=model, recall=False).ask("And on.")
    assert sent(model.bodies[1])[: len(grown)] == grown


async def test_in_the_middle_of_a_turn_the_same_turn_goes_on(store_file: Path, speech: Speech) -> None:
    """Request and newest context are there once, the opaque item first; no turn begins, and the phase is recorded."""
    async with Threadkeep(Config(store=str(store_file), model_context_window=4_000, compact_strategy="remote")) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        incoming = [context(speech, "/src"), speech.said("Read the listing.")]
        async with provider([compacts(speech)], speech) as model, thread.turn(incoming, model=model) as begun:
            await begun.record([speech.call("x"), speech.output("x", "row of the listing\n" * 800)])
            window = list(await begun.window())
        assert window[0] == opaque(speech, 1)
        assert window == await shown(thread)
        assert [(made.strategy, made.phase) for made in await checkpoints(thread)] == [("remote", "mid_turn")]
        everything = await seen(thread)
        assert [everything.count(item) for item in (*incoming, STATE)] == [1, 1, 1]


async def test_what_comes_in_with_its_picture_and_settings_is_not_sent_and_whole_afterwards(
    tk: Threadkeep, speech: Speech
) -> None:
    """The turn that is about to begin is no part of what the provider compacts; it stands last, as it came."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    incoming = [permissions(speech, "never"), speech.shown("What is wrong here?", PICTURE)]
    await thread.record(incoming)
    async with provider([compacts(speech)], speech) as model:
        await thread.compact(strategy="remote", model=model)
    assert sent(model.bodies[0]) == turns(speech, 1, 8)
    everything = await seen(thread)
    assert (everything[-1], everything.count(incoming[0])) == (incoming[1], 1)


async def test_instructions_the_provider_returns_are_not_taken_for_the_hosts(
    tk: Threadkeep, store_file: Path, speech: Speech
) -> None:
    """A stale developer's message in its answer is dropped; the host's newest stands once, also after a restart."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([permissions(speech, "ask"), *turns(speech, 1, 4)])
    await thread.record([permissions(speech, "never"), *turns(speech, 5, 8)])
    async with provider([compacts(speech, 1, permissions(speech, "ask"))], speech) as model:
        await thread.compact(strategy="remote", model=model)
    async with Threadkeep(config(store_file)) as again:
        resumed = await again.thread("t")
        everything = await seen(resumed)
        assert (everything.count(permissions(speech, "ask")), everything.count(permissions(speech, "never"))) == (0, 1)
        assert "<permissions>ask" not in str(await shown(resumed))


async def test_what_else_the_provider_says_beside_its_compaction_is_not_kept(tk: Threadkeep, speech: Speech) -> None:
    """An answer of the model in front of the compaction, an echo of the history: neither is in the window a second time."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    chatter, echo = speech.answered("Here is the compaction."), speech.answered("Part 8 is fine.")
    async with provider([compacts(speech, 1, chatter, echo)], speech) as model:
        await thread.compact(strategy="remote", model=model)
    window = await seen(thread)
    assert (window.count(chatter), window.count(echo)) == (0, 1)
    assert "Here is the compaction." not in str(await shown(thread))


async def test_fields_nobody_knows_survive_a_restart_and_the_providers_compaction(
    tk: Threadkeep, store_file: Path, speech: Speech
) -> None:
    """What is kept is kept to the byte, and nothing of ours is in what the provider is sent."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    marked = {**speech.said("And now?"), "metadata": {"client": "x"}, "x_kept": [1, None]}
    await thread.record([marked])
    async with Threadkeep(config(store_file)) as again:
        resumed = await again.thread("t")
        async with provider([compacts(speech)], speech) as model:
            await resumed.compact(strategy="remote", model=model)
        assert (await seen(resumed))[-1] == marked
    assert sent(model.bodies[0]) == turns(speech, 1, 8)


@pytest.mark.parametrize("failure", [Unavailable(), Unavailable(reason="its answer broke off")], ids=["busy", "dropped"])
async def test_a_provider_that_fails_is_asked_again_and_what_failed_leaves_nothing(
    tk: Threadkeep, speech: Speech, failure: Step
) -> None:
    """Two failures and a success are one checkpoint and three equal requests."""
    policy = replace(tk.backend.policy, patience=RetryPolicy(attempts=3, sleep=at_once))
    object.__setattr__(tk.backend, "policy", policy)
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    records = await thread.records()
    async with provider([failure, failure, compacts(speech)], speech) as model:
        report = await thread.compact(strategy="remote", model=model)
    assert [(attempt.strategy, attempt.outcome) for attempt in report.attempts] == [("remote", "taken")]
    assert model.requests[0] == model.requests[1] == model.requests[2]
    assert (await thread.records())[:-1] == records


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [(Overflows(), "model_overflow"), (Rejected(status=404), "model_rejected"), (Compacts(items=()), "empty")],
    ids=["too large", "refused", "nothing"],
)
async def test_a_provider_that_cannot_is_asked_once_and_the_turn_goes_on(
    store_file: Path, speech: Speech, failure: Step, outcome: str
) -> None:
    """Where Codex ends the turn, the next rung is taken: the model writes a state, the input is last, the failure is recorded."""
    async with Threadkeep(Config(store=str(store_file), model_context_window=4_000, compact_strategy="remote")) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        incoming = speech.said("Go on.")
        steps = [failure, says(block(handoff="go on"))]
        async with provider(steps, speech) as model, thread.turn([incoming], model=model) as begun:
            window = await begun.window()
        assert (window.trouble, (await seen(thread))[-1]) == (None, incoming)
        (made,) = await checkpoints(thread)
        assert [(attempt.strategy, attempt.outcome, attempt.calls) for attempt in made.attempts] == [
            ("remote", outcome, 1),
            ("session", "taken", 1),
        ]


async def test_a_history_the_providers_window_cannot_hold_is_not_sent_whole(tk: Threadkeep, speech: Speech) -> None:
    """It is told in parts instead, each within the window: nothing is cut off where the provider would not have seen it."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 40)
    model = provider([says(block(handoff="go on"))] * 40, speech, window_tokens=6_000)
    report = await thread.compact(strategy="remote", model=model)
    assert [attempt.strategy for attempt in report.attempts] == ["remote", "session"]
    assert all(len(str(body)) < 6_000 * 4 for body in model.bodies)


async def test_context_comes_before_the_request_and_after_the_opaque_item(tk: Threadkeep, speech: Speech) -> None:
    """Opaque item, context, state, request: what the host says is in view before what is asked."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "/src"), *turns(speech, 1, 7), speech.said("Pending.")])
    async with provider([compacts(speech)], speech) as model:
        await thread.compact(strategy="remote", model=model, target="1")
    assert await seen(thread) == [context(speech, "/src"), STATE, speech.said("Pending.")]
    assert (await shown(thread))[0] == opaque(speech, 1)


async def test_without_a_word_of_a_person_context_stands_behind_the_opaque_item(tk: Threadkeep, speech: Speech) -> None:
    """An agent at work by itself: there is no request to stand before, and context is there all the same, once."""
    thread = await tk.thread("t", dialect=speech.dialect)
    work = [item for number in range(1, 9) for item in turn(speech, number)[1:]]
    await thread.record([context(speech, "/src"), *work])
    async with provider([compacts(speech)], speech) as model:
        await thread.compact(strategy="remote", model=model)
    assert (await seen(thread))[:2] == [context(speech, "/src"), STATE]
    assert (await shown(thread))[0] == opaque(speech, 1)


async def test_of_several_opaque_items_the_newest_is_left_and_the_older_is_what_it_was_made_of(
    tk: Threadkeep, speech: Speech
) -> None:
    """The older one goes to its own provider in the second request, as it came; afterwards there is one."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "/src")])
    async with provider([compacts(speech, 1), compacts(speech, 2)], speech) as model:
        for number in (1, 2):
            await play(thread, speech, 8 * number, 8 * number + 7)
            await thread.compact(strategy="remote", model=model)
    assert sent(model.bodies[1])[0] == opaque(speech, 1)
    window = await shown(thread)
    assert (window[0], str(window).count("sealed")) == (opaque(speech, 2), 1)
    assert (await seen(thread)).count(context(speech, "/src")) == 1


async def test_hooks_are_told_the_same_whatever_the_strategy(store_file: Path, speech: Speech) -> None:
    """The keys of a payload and what stands in them differ in the strategy's name and its figures alone."""
    told: list[list[dict[str, object]]] = []

    def listen(facts: Facts) -> HookReply:
        assert isinstance(facts, CompactionFacts)
        told[-1].append(facts.payload())
        return HookReply()

    hooks = Hooks()
    for event in (HookEvent.PRE_COMPACT, HookEvent.POST_COMPACT):
        hooks = hooks.on(event, FunctionHook(function=listen))
    steps: dict[str, Step] = {"session": says(block(handoff="go on")), "handoff": says("A summary."), "remote": compacts(speech)}
    for strategy, step in steps.items():
        told.append([])
        file = store_file.with_name(f"{strategy}.db")
        async with Threadkeep(config(file), hooks=hooks) as tk:
            thread = await tk.thread("t", dialect=speech.dialect)
            await play(thread, speech, 1, 8)
            async with provider([step], speech) as model:
                await thread.compact(strategy=strategy, model=model)
    outer = [[{name: value for name, value in payload.items() if name != "threadkeep"} for payload in run] for run in told]
    assert all(one == other for one, other in itertools.pairwise(outer))
    names = [[payload["hook_event_name"] for payload in run] for run in told]
    assert names == [["PreCompact", "PostCompact"]] * 3
    assert [payload["threadkeep"]["strategy"] for run in told for payload in run] == [  # type: ignore[index]  # a JSON object
        name for name in steps for _ in range(2)
    ]
