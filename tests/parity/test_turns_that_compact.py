"""Compactions as the turns around them meet them: refused, watched, resumed, by models nobody knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.doubles.model_server import ModelServer
from tests.drafting.replies import SUMMARY, block
from tests.drafting.test_branching import opaque
from tests.llm.wires import RESPONSES, request_of
from tests.parity.vocabulary import (
    ROOM,
    STATE,
    Json,
    Speech,
    checkpoints,
    config,
    play,
    seen,
    sent,
    skip_unless_offered,
    turn,
    turns,
)

from threadkeep import Config, Head, Threadkeep
from threadkeep.compaction.backend import Order
from threadkeep.compaction.report import CompactionReport
from threadkeep.compaction.telemetry import CompactionAttempt, CompactionObserver
from threadkeep.llm import RemoteCompactor
from threadkeep.testing.model_checks import make_json_reply
from threadkeep.testing.scripted_model import Compacts, Overflows, Rejected, ScriptedModel, ScriptedRemoteModel, Step, says
from threadkeep.threads.records import AttemptCost

pytestmark = pytest.mark.anyio

REPLIES: dict[str, Step] = {"session": says(block(handoff="go on")), "handoff": says(SUMMARY)}


def steps_of(strategy: str, speech: Speech) -> list[Step]:
    if strategy == "extractive":
        return []
    return [Compacts(items=(opaque(speech, 1),)) if strategy == "remote" else REPLIES[strategy]]


def compacting(file: Path, strategy: str) -> Config:
    return Config(store=str(file), model_context_window=4_000, compact_strategy=strategy)


@pytest.mark.parametrize("phase", ["pre_turn", "mid_turn"])
@pytest.mark.parametrize("strategy", ["session", "handoff"])
async def test_a_model_whose_window_is_too_small_after_all_costs_no_turn(
    store_file: Path, speech: Speech, strategy: str, phase: str
) -> None:
    """It refuses every request as too large: at most three are made, the next rung needs none, and the turn has its input."""
    async with Threadkeep(compacting(store_file, strategy)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14 if phase == "pre_turn" else 2)
        model = ScriptedModel([Overflows()] * 3, dialect=speech.dialect, window_tokens=ROOM)
        async with thread.turn([speech.said("Go on.")], model=model) as begun:
            if phase == "mid_turn":
                await begun.record([speech.call("x"), speech.output("x", "row of the listing\n" * 800)])
            window = await begun.window()
        assert (window.trouble, window.pressure.must_compact) == (None, False)
        (made,) = await checkpoints(thread)
        assert (made.strategy, made.fell_back_from, made.phase) == ("extractive", strategy, phase)
        assert 1 < len(model.requests) <= 3
        assert speech.said("Go on.") in await seen(thread)


class Watcher(CompactionObserver):
    """Notes how every compaction begins and ends."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, str, str, str, str]] = []

    def started(self, attempt: CompactionAttempt) -> None:
        self._note("started", attempt, attempt.strategy)

    def finished(self, attempt: CompactionAttempt, report: CompactionReport, *, duration_ms: int) -> None:
        self._note("finished", attempt, report.strategy)

    def failed(self, attempt: CompactionAttempt, error: BaseException, *, duration_ms: int, cost: AttemptCost) -> None:
        self._note("failed", attempt, type(error).__name__)

    def _note(self, what: str, attempt: CompactionAttempt, became: str) -> None:
        self.noted.append((attempt.attempt_id, what, attempt.trigger, attempt.phase, became))


@pytest.mark.parametrize("strategy", ["session", "handoff", "remote", "extractive"])
async def test_a_compaction_begins_and_ends_once_whoever_asked_for_it(store_file: Path, speech: Speech, strategy: str) -> None:
    """By hand, before a turn and in the middle of one: two notices with one id, which no other compaction has."""
    skip_unless_offered(speech, strategy)
    watcher = Watcher()
    # Nothing is prepared in the background here: the output that nobody has read yet may fill the window beyond the soft limit.
    config = replace(compacting(store_file, strategy), model_soft_compact_token_limit=4_000)
    async with Threadkeep(config) as opened:
        tk = await opened.for_tenant("watched", observer=watcher)
        thread = await tk.thread("t", dialect=speech.dialect)
        async with ScriptedRemoteModel(steps_of(strategy, speech) * 3, dialect=speech.dialect, window_tokens=ROOM) as model:
            asked = None if strategy == "extractive" else model
            await play(thread, speech, 1, 8)
            await thread.compact(model=asked)
            await play(thread, speech, 9, 22)
            async with thread.turn([speech.said("Go on.")], model=asked) as begun:
                await begun.window()
                await begun.record([speech.call("x"), speech.output("x", "row of the listing\n" * 800)])
                await begun.window()
    ids = [noted[0] for noted in watcher.noted]
    assert (ids[0::2], len(set(ids))) == (ids[1::2], 3)
    came = [("manual", "standalone_turn"), ("auto", "pre_turn"), ("auto", "mid_turn")]
    assert [noted[1:] for noted in watcher.noted] == [
        (what, *when, strategy) for when in came for what in ("started", "finished")
    ]


@pytest.mark.parametrize("strategy", ["session", "handoff", "remote", "extractive"])
async def test_after_a_restart_instructions_are_those_that_were_told_until_newer_ones_are(
    store_file: Path, speech: Speech, strategy: str
) -> None:
    """Resumed, the thread sends what it sent; what replaces them stands behind it, and alone after the next compaction."""
    skip_unless_offered(speech, strategy)
    old, new = (
        speech.said(f"# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nRun the {what}.\n</INSTRUCTIONS>")
        for what in ("linter", "tests")
    )
    steps = steps_of(strategy, speech) * 2
    async with ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM, issuer="here#1") as model:
        asked = None if strategy == "extractive" else model
        async with Threadkeep(config(store_file)) as tk:
            thread = await tk.thread("t", dialect=speech.dialect)
            await thread.record([old, *turns(speech, 1, 8)])
            await thread.compact(strategy=strategy, model=asked)
            compacted = await seen(thread)
        async with Threadkeep(config(store_file)) as again:
            resumed = await again.thread("t")
            assert await seen(resumed) == compacted
            await resumed.record([new, *turn(speech, 9)])
            assert await seen(resumed) == [*compacted, new, *turn(speech, 9)]
            await play(resumed, speech, 10, 16)
            await resumed.compact(strategy=strategy, model=asked)
            shown = await seen(resumed)
    assert (compacted.count(old), [shown.count(each) for each in (old, new, STATE)]) == (1, [0, 1, 1])


async def test_a_model_nobody_knows_is_asked_by_the_name_it_has(store_file: Path, speech: Speech) -> None:
    """No catalogue has to list it: its window is the one that is configured, and the attempt names it."""
    async with Threadkeep(compacting(store_file, "handoff")) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        model = ScriptedModel([says(SUMMARY)] * 9, name="house:unheard-of", dialect=speech.dialect)
        async with thread.turn([speech.said("Go on.")], model=model) as begun:
            assert not (await begun.window()).pressure.must_compact
        (made,) = await checkpoints(thread)
    assert (made.strategy, made.model, made.fell_back_from) == ("handoff", "house:unheard-of", None)


async def test_a_model_that_was_configured_and_is_gone_costs_no_turn(store_file: Path, speech: Speech) -> None:
    """Another model than the turn's own was to draft: it is named with its failure, and the turn goes on."""
    async with Threadkeep(compacting(store_file, "session")) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 8)
        async with ScriptedModel([Rejected(status=404)], name="house:gone", dialect=speech.dialect, window_tokens=ROOM) as gone:
            report = await thread.carry_out(Order(model=gone, trigger="auto", phase="pre_turn", reason="context_limit"))
    assert [(each.strategy, each.model, each.outcome) for each in report.attempts] == [
        ("session", "house:gone", "model_rejected"),
        ("extractive", None, "taken"),
    ]


@pytest.mark.parametrize("beside", ["instructions", "tools"])
async def test_what_goes_out_beside_the_history_counts_before_a_provider_is_asked_to_compact(
    tk: Threadkeep, speech: Speech, beside: str
) -> None:
    """The history alone fits the provider's window; with what a turn sends beside it it does not, and is not sent."""
    skip_unless_offered(speech)
    tool: Json = {"type": "function", "name": "shell", "description": "Run it. " * 5_000, "parameters": {"type": "object"}}
    heavy = Head("Be brief.", (tool,)) if beside == "tools" else Head("Mind the house rules. " * 1_800)
    thread = await tk.thread("t", dialect=speech.dialect)
    outcomes: list[list[tuple[str, str]]] = []
    for first, head in ((1, Head("Be brief.")), (9, heavy)):
        await play(thread, speech, first, first + 7)
        steps = [*steps_of("remote", speech)] if first == 1 else [REPLIES["session"]]
        async with ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=11_000) as model:
            report = await thread.carry_out(Order(strategy="remote", model=model), head=head)
        outcomes.append([(attempt.strategy, attempt.outcome) for attempt in report.attempts])
    assert outcomes == [[("remote", "taken")], [("remote", "too_large"), ("session", "taken")]]
    assert "house rules" not in str(model.bodies[0])


@pytest.mark.parametrize("strategy", ["session", "handoff", "remote"])
async def test_a_draft_is_asked_for_with_the_tier_and_key_of_the_turn(tk: Threadkeep, speech: Speech, strategy: str) -> None:
    """What a client pays for its turns holds for what is asked in between, and its cache is the one that is hit."""
    skip_unless_offered(speech, strategy)
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    own = request_of(speech.dialect, {"service_tier": "flex", "prompt_cache_key": "k", thread.dialect.history_field: []})
    async with ScriptedRemoteModel(steps_of(strategy, speech), dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.carry_out(Order(strategy=strategy, model=model, own=own))
    (body,) = model.bodies
    assert (body["service_tier"], body["prompt_cache_key"]) == ("flex", "k")
    assert sent(body)[: len(turns(speech, 1, 8))] == turns(speech, 1, 8)


async def test_a_provider_is_asked_to_compact_with_the_tier_of_the_turn() -> None:
    """It is a field that `/responses/compact` knows, and so it goes along as it is."""
    turn_body = {"model": "gpt", "input": [{"role": "user", "content": "Go."}], "service_tier": "flex", "store": False}
    unknown = make_json_reply({"error": {"message": "no such endpoint"}}, status=404)
    made = {"output": [{"type": "compaction", "encrypted_content": "gAAAA"}], "usage": {"input_tokens": 9, "output_tokens": 1}}
    async with ModelServer([unknown, make_json_reply(made)]) as server, RESPONSES.open(server.origin) as model:
        assert isinstance(model, RemoteCompactor)
        await model.compact(request_of("responses", turn_body))
    assert server.requests[0].body["service_tier"] == "flex"
    assert server.requests[1].body == {"model": "gpt-test", "input": turn_body["input"], "service_tier": "flex"}
