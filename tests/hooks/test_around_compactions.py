"""Hooks around real compactions: what Codex's own tests of its compact hooks ask for, and what stops mean here."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from tests.histories import said, turns

from threadkeep import Config, Thread, Threadkeep
from threadkeep.errors import CompactionStopped, NothingToCompact, StaleCheckpoint
from threadkeep.hooks import CommandHook, CompactionFacts, Facts, FunctionHook, HookEvent, HookReply, Hooks
from threadkeep.store import RecordKind
from threadkeep.threads import is_failed_attempt

pytestmark = pytest.mark.anyio

PRE, POST = HookEvent.PRE_COMPACT, HookEvent.POST_COMPACT
ENVIRON = {"PATH": os.defpath}
# What Codex tells a compact hook, and nothing else; threadkeep's own key comes beside it.
CODEX_KEYS = {"session_id", "turn_id", "transcript_path", "cwd", "hook_event_name", "model", "trigger"}

Opening = Callable[[Hooks], AbstractAsyncContextManager[Threadkeep]]


@pytest.fixture
def opening(store_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opening:
    """Opens the same store with other hooks each time; commands run in the temporary folder."""
    monkeypatch.chdir(tmp_path)

    @asynccontextmanager
    async def opened(hooks: Hooks) -> AsyncIterator[Threadkeep]:
        config = Config(store=str(store_file), model_context_window=4_000)
        async with Threadkeep(config, hooks=hooks, environ=ENVIRON) as tk:
            yield tk

    return opened


def function(event: HookEvent, told: list[Facts], reply: HookReply | None = None, *, matcher: str | None = None) -> Hooks:
    """Return one hook that writes down what it is told and answers `reply`."""

    async def noting(facts: Facts) -> HookReply | None:
        told.append(facts)
        return reply

    return Hooks().on(event, FunctionHook(function=noting), matcher=matcher)


async def long_thread(tk: Threadkeep) -> Thread:
    """A thread over its limit."""
    thread = await tk.thread("t")
    await thread.record(turns(1, 14))
    return thread


async def checkpoints(thread: Thread) -> list[int]:
    return [record.ordinal for record in await thread.records() if record.kind is RecordKind.CHECKPOINT]


async def test_a_decision_to_block_does_not_block(opening: Opening, tmp_path: Path) -> None:
    """It is no answer here: the compaction happens. The hook was told what Codex tells, and the rest under one key."""
    line = """cat > told.json; echo '{"decision": "block", "reason": "no"}'"""
    async with opening(Hooks().on(PRE, CommandHook(command=line))) as tk:
        report = await (await long_thread(tk)).compact()
    assert report.checkpoint is not None
    told = json.loads((tmp_path / "told.json").read_text())
    assert told.keys() == CODEX_KEYS | {"threadkeep"}
    assert (told["session_id"], told["hook_event_name"], told["trigger"]) == ("t", "PreCompact", "manual")
    assert (told["transcript_path"], told["cwd"]) == (None, str(tmp_path))


@pytest.mark.parametrize("line", ["exit 2", "kill -9 $$", "echo '['", "threadkeep-has-no-such-program"])
async def test_a_hook_that_fails_holds_nothing_up(opening: Opening, line: str) -> None:
    """Before a compaction or after it."""
    hooks = Hooks().on(PRE, CommandHook(command=line)).on(POST, CommandHook(command=line))
    async with opening(hooks) as tk:
        assert (await (await long_thread(tk)).compact()).checkpoint is not None


async def test_hooks_run_for_their_trigger_and_after_a_compaction_once_it_is_durable(opening: Opening) -> None:
    """A PreCompact hook for automatic ones stays out of a manual one; PostCompact sees the checkpoint it is told of."""
    told: list[Facts] = []
    seen: list[int | None] = []

    async def looking(facts: Facts) -> None:
        told.append(facts)
        async with opening(Hooks()) as other:
            seen.append((await (await other.thread("t")).window()).checkpoint)

    hooks = function(PRE, told, HookReply(stop=True), matcher="auto").on(POST, FunctionHook(function=looking), matcher="manual")
    async with opening(hooks) as tk:
        report = await (await long_thread(tk)).compact()
    (facts,) = told
    assert isinstance(facts, CompactionFacts)
    assert (facts.event, facts.trigger, facts.tokens_after) == (POST, "manual", report.tokens_after)
    assert facts.checkpoint == report.checkpoint == seen[0]
    assert facts.payload().keys() == CODEX_KEYS | {"threadkeep"}


async def test_a_turn_compacts_automatically_and_says_so(opening: Opening) -> None:
    """Before its first answer the compaction stands in front of the turn."""
    told: list[Facts] = []
    async with opening(function(PRE, told, matcher="auto") + function(POST, told, matcher="^auto$")) as tk:
        thread = await long_thread(tk)
        async with thread.turn([said("Go on.")]) as turn:
            window = await turn.window()
    assert window.checkpoint is not None
    assert [(facts.event, facts.trigger, facts.reason, facts.phase) for facts in told if isinstance(facts, CompactionFacts)] == [
        (PRE, "auto", "context_limit", "pre_turn"),
        (POST, "auto", "context_limit", "pre_turn"),
    ]


async def test_stopped_before_a_compaction_changes_nothing(opening: Opening) -> None:
    """The window is what it was, one record says why, and without the hook it compacts."""
    told: list[Facts] = []
    hooks = function(PRE, told, HookReply(stop=True, reason="tests run")) + function(POST, told)
    async with opening(hooks) as tk:
        thread = await long_thread(tk)
        before = (await thread.records(), await thread.window())
        with pytest.raises(CompactionStopped) as stopped:
            await thread.compact()
        (*records, attempt) = await thread.records()
        assert (records, await thread.window()) == before
        assert is_failed_attempt(attempt)
    assert (stopped.value.event, stopped.value.reason) == ("PreCompact", "tests run")
    assert [facts.event for facts in told] == [PRE]
    async with opening(Hooks()) as tk:
        assert (await (await tk.thread("t")).compact()).checkpoint is not None


async def test_a_turn_stopped_before_its_compaction_has_its_input_recorded(opening: Opening) -> None:
    """The turn ends there; what the user said is in the thread, last, and the next run goes on from it."""
    async with opening(function(PRE, [], HookReply(stop=True))) as tk:
        thread = await long_thread(tk)
        with pytest.raises(CompactionStopped):
            async with thread.turn([said("Second request.")]) as turn:
                await turn.window()
    async with opening(Hooks()) as tk:
        thread = await tk.thread("t")
        assert list(await thread.window()) == [*turns(1, 14), said("Second request.")]
        async with thread.turn([said("Third request.")]) as turn:
            window = await turn.window()
        assert window.checkpoint is not None
        assert said("Second request.") in window
        assert window[-1] == said("Third request.")


async def test_a_turn_stopped_after_its_compaction_keeps_it(opening: Opening) -> None:
    """The compacted window is what the next run sends, with the input of the stopped turn in it."""
    async with opening(function(POST, [], HookReply(stop=True, reason="look at it first"))) as tk:
        thread = await long_thread(tk)
        with pytest.raises(CompactionStopped) as stopped:
            async with thread.turn([said("Second request.")]) as turn:
                await turn.window()
        assert (stopped.value.event, stopped.value.reason) == ("PostCompact", "look at it first")
        kept = await checkpoints(thread)
        assert len(kept) == 1
    async with opening(Hooks()) as tk:
        thread = await tk.thread("t")
        async with thread.turn([said("Third request.")]) as turn:
            window = await turn.window()
        assert (window.checkpoint, await checkpoints(thread)) == (kept[0], kept)
        assert [item for item in window if item in (said("Second request."), said("Third request."))] == [
            said("Second request."),
            said("Third request."),
        ]


async def test_after_a_compaction_that_failed_no_post_hook_runs(opening: Opening) -> None:
    """There was nothing to compact, or the thread was rolled back under the draft."""
    told: list[Facts] = []

    async def roll_back(facts: Facts) -> None:
        async with opening(Hooks()) as other:
            await (await other.thread("t")).rollback(turns=14)

    async with opening(function(POST, told)) as tk:
        empty = await tk.thread("empty")
        await empty.record([said("Hello.")])
        with pytest.raises(NothingToCompact):
            await empty.compact()
    async with opening(function(POST, told).on(PRE, FunctionHook(function=roll_back))) as tk:
        thread = await long_thread(tk)
        with pytest.raises(StaleCheckpoint):
            await thread.compact()
        assert await checkpoints(thread) == []
    assert told == []


async def test_a_trial_run_calls_nobody(opening: Opening) -> None:
    """It changes nothing, so there is nothing to ask leave for."""
    told: list[Facts] = []
    hooks = function(PRE, told, HookReply(stop=True)) + function(POST, told)
    async with opening(hooks) as tk:
        assert (await (await long_thread(tk)).compact(dry_run=True)).checkpoint is None
    assert told == []


async def test_cancelled_while_a_hook_runs_a_compaction_leaves_nothing_behind(opening: Opening) -> None:
    """No checkpoint, and no lease: the next one begins at once."""
    begun = asyncio.Event()
    waiting = True

    async def stuck(facts: Facts) -> None:
        begun.set()
        if waiting:
            await asyncio.Event().wait()

    async with opening(Hooks().on(PRE, FunctionHook(function=stuck))) as tk:
        thread = await long_thread(tk)
        compacting = asyncio.create_task(thread.compact())
        await begun.wait()
        compacting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await compacting
        assert await checkpoints(thread) == []
        waiting = False
        assert (await thread.compact()).checkpoint is not None


async def test_the_configurations_hooks_run_too(store_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside those the library is given."""
    monkeypatch.chdir(tmp_path)
    told: list[Facts] = []
    table = {"PostCompact": [{"matcher": "manual", "hooks": [{"type": "command", "command": "cat > told.json"}]}]}
    config = Config(store=str(store_file), model_context_window=4_000, hooks=table)
    async with Threadkeep(config, hooks=function(POST, told), environ=ENVIRON) as tk:
        await (await long_thread(tk)).compact()
    (facts,) = told
    assert json.loads((tmp_path / "told.json").read_text()) == facts.payload()


def starting(told: list[Facts], reply: HookReply | None = None, *, matcher: str = "compact") -> Hooks:
    return function(HookEvent.SESSION_START, told, reply, matcher=matcher)


async def test_after_a_turns_compaction_the_next_turn_is_told_once(opening: Opening) -> None:
    """Before its own request; hooks for another source stay out of it."""
    told: list[Facts] = []
    hooks = starting(told, HookReply(context="Notes: port 4621."))
    hooks += starting(told, HookReply(context="Welcome."), matcher="startup|resume")
    async with opening(hooks) as tk:
        thread = await long_thread(tk)
        async with thread.turn([said("Second request.")]) as turn:
            assert (await turn.window()).checkpoint is not None
        async with thread.turn([said("Third request.")]) as turn:
            first, again = await turn.window(), await turn.window()
    assert [facts.payload()["source"] for facts in told] == ["compact"]
    assert [json.dumps(list(window)).count("Notes: port 4621.") for window in (first, again)] == [1, 1]
    assert "Welcome." not in json.dumps(list(again))


async def test_what_a_start_adds_is_no_turn_and_stays_with_its_window(opening: Opening) -> None:
    """It is the host that speaks: a rollback by one turn takes back the request, undoing the compaction what was added to it."""
    async with opening(starting([], HookReply(context="Notes: port 4621."))) as tk:
        thread = await long_thread(tk)
        whole = list(await thread.window())
        await thread.compact()
        async with thread.turn([said("Second request.")]) as turn:
            sent = list(await turn.window())
        await thread.rollback(turns=1)
        assert list(await thread.window()) == sent[:-1]
        await thread.undo()
        assert list(await thread.window()) == whole


async def test_a_start_that_stops_ends_the_turn_and_keeps_the_compaction(opening: Opening) -> None:
    """The input is recorded and so is what the hook wanted said."""
    reply = HookReply(stop=True, reason="a person is asked", context="Notes: port 4621.")
    async with opening(starting([], reply)) as tk:
        thread = await long_thread(tk)
        await thread.compact()
        with pytest.raises(CompactionStopped) as stopped:
            async with thread.turn([said("Second request.")]):
                pass
        window = await thread.window()
    assert (stopped.value.event, stopped.value.reason) == ("SessionStart", "a person is asked")
    assert window.checkpoint is not None
    assert said("Second request.") in window
    assert "Notes: port 4621." in json.dumps(list(window))


async def test_without_a_compaction_nothing_starts_anew(opening: Opening) -> None:
    """A turn below its limit runs no hook."""
    told: list[Facts] = []
    async with opening(starting(told, matcher="*")) as tk:
        thread = await tk.thread("t")
        async with thread.turn([said("First request.")]) as turn:
            await turn.window()
    assert told == []


async def test_what_a_start_adds_leaves_the_request_whole_and_last(opening: Opening) -> None:
    """The model reads the notes first, then what it is to do."""
    async with opening(starting([], HookReply(context="Notes: port 4621."))) as tk:
        thread = await long_thread(tk)
        await thread.compact()
        async with thread.turn([said("Second request.")]) as turn:
            window = await turn.window()
    assert "session_compact_state" in json.dumps(window[0])
    assert "Notes: port 4621." in json.dumps(window[1])
    assert window[-1] == said("Second request.")


async def test_a_hook_that_was_not_there_when_a_thread_was_compacted_is_not_run_for_it(opening: Opening) -> None:
    """What was sent since cannot be changed by what is configured later."""
    told: list[Facts] = []
    async with opening(Hooks()) as tk:
        await (await long_thread(tk)).compact()
    async with opening(starting(told, HookReply(context="Notes: port 4621."))) as tk:
        thread = await tk.thread("t")
        async with thread.turn([said("Second request.")]) as turn:
            window = await turn.window()
    assert told == []
    assert "Notes: port 4621." not in json.dumps(list(window))


async def test_after_a_manual_compaction_the_next_turn_starts_anew(opening: Opening) -> None:
    """Whoever compacted, and in whichever process: before the model is asked again, and once."""
    told: list[Facts] = []
    starts = starting(told, HookReply(context="Notes: port 4621."))
    async with opening(starts) as tk:
        await (await long_thread(tk)).compact()
    async with opening(starts) as tk:
        thread = await tk.thread("t")
        for request in (said("Second request."), said("Third request.")):
            async with thread.turn([request]) as turn:
                window = await turn.window()
    assert len(told) == 1
    assert json.dumps(list(window)).count("Notes: port 4621.") == 1
