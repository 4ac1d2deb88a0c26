"""Python functions as hooks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable
from typing import cast

import pytest
from tests.hooks.samples import compaction, started

from threadkeep.hooks import (
    CommandHook,
    Facts,
    FunctionHook,
    HookEvent,
    HookReply,
    HookRun,
    Hooks,
    RunOutcome,
    Verdict,
    run_hooks,
)
from threadkeep.hooks.definitions import HookFunction

pytestmark = pytest.mark.anyio


async def verdict_of(*functions: HookFunction, facts: Facts | None = None, timeout_s: float = 60.0) -> Verdict:
    told = facts or compaction()
    hooks = Hooks()
    for function in functions:
        hooks = hooks.on(told.event, FunctionHook(function=function, timeout_s=timeout_s))
    return await run_hooks(hooks, told, environ={})


async def test_a_coroutine_function_runs_on_the_loop_and_is_told_the_facts() -> None:
    """As a value, not as JSON."""
    seen: list[tuple[Facts, threading.Thread]] = []

    async def notice(facts: Facts) -> None:
        seen.append((facts, threading.current_thread()))

    verdict = await verdict_of(notice)
    assert seen == [(compaction(), threading.current_thread())]
    assert [(run.outcome, run.name.rpartition(".")[2]) for run in verdict.runs] == [(RunOutcome.COMPLETED, "notice")]


async def test_a_plain_function_runs_beside_the_loop() -> None:
    """It waits for something only the loop can do, and the loop does it."""
    loop = asyncio.get_running_loop()

    def ask_the_loop(facts: Facts) -> HookReply:
        answer = asyncio.run_coroutine_threadsafe(asyncio.sleep(0, facts.subject), loop).result(timeout=60)
        return HookReply(warning=f"{answer} compaction")

    assert [run.warning for run in (await verdict_of(ask_the_loop)).runs] == ["manual compaction"]


async def test_a_plain_function_may_return_something_to_await() -> None:
    """A wrapped coroutine function looks like a plain one."""

    async def stopping(facts: Facts) -> HookReply:
        return HookReply(stop=True, reason=facts.subject)

    def wrapped(facts: Facts) -> Awaitable[HookReply | None]:
        return stopping(facts)

    verdict = await verdict_of(wrapped)
    assert (verdict.goes_on, verdict.stop_reason) == (False, "manual")


async def test_functions_run_at_once_and_are_reported_in_their_order() -> None:
    """Each waits for the other."""
    together = asyncio.Barrier(2)

    async def first(facts: Facts) -> HookReply:
        await together.wait()
        return HookReply(context="first")

    async def second(facts: Facts) -> HookReply:
        await together.wait()
        return HookReply(context="second")

    assert (await verdict_of(first, second, facts=started())).added_context == ("first", "second")


async def test_what_a_function_raises_is_reported_and_goes_no_further() -> None:
    """On the loop or beside it."""

    async def broken(facts: Facts) -> None:
        raise LookupError("no such note")

    def broken_too(facts: Facts) -> None:
        raise ZeroDivisionError

    def cancelled(facts: Facts) -> None:
        raise asyncio.CancelledError

    verdict = await verdict_of(broken, broken_too, cancelled)
    assert [(run.outcome, run.message) for run in verdict.runs] == [
        (RunOutcome.FAILED, "LookupError: no such note"),
        (RunOutcome.FAILED, "ZeroDivisionError: "),
        (RunOutcome.FAILED, "it was cancelled"),
    ]
    assert verdict.goes_on


async def test_an_answer_of_another_kind_is_a_failure() -> None:
    """Context is for a start alone; what is no reply is none."""

    def adds_context(facts: Facts) -> HookReply:
        return HookReply(context="x", stop=True)

    verdict = await verdict_of(adds_context, cast("HookFunction", lambda facts: {"continue": False}))
    assert [(run.outcome, run.message) for run in verdict.runs] == [
        (RunOutcome.FAILED, "it adds context at PreCompact, where only SessionStart can"),
        (RunOutcome.FAILED, "it returned a dict; return a HookReply, or nothing"),
    ]


async def test_out_of_time_a_function_is_cancelled() -> None:
    """It may clean up; the others are not held up."""
    cleaned_up = asyncio.Event()

    async def stuck(facts: Facts) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned_up.set()

    (overran,) = (await verdict_of(stuck, timeout_s=0.01)).runs
    assert (overran.outcome, overran.message) == (RunOutcome.TIMED_OUT, "it took longer than 0.01 s")
    assert cleaned_up.is_set()


async def test_a_plain_function_out_of_time_is_no_longer_waited_for() -> None:
    """It ends by itself, when it likes."""
    released = threading.Event()

    def stuck(facts: Facts) -> None:
        released.wait(60)

    (overran,) = (await verdict_of(stuck, timeout_s=0.01)).runs
    released.set()
    assert overran.outcome is RunOutcome.TIMED_OUT


async def test_cancelled_the_functions_are_too() -> None:
    """Nothing goes on behind a cancelled compaction's back."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def stuck(facts: Facts) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.create_task(verdict_of(stuck))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_commands_and_functions_come_to_one_verdict() -> None:
    """A quiet run says so; a stop at a start keeps the context for whoever goes on."""
    hooks = (
        Hooks()
        .on(HookEvent.SESSION_START, CommandHook(command=("echo", "Port 4621."), name="port"))
        .on(HookEvent.SESSION_START, FunctionHook(function=_waits), matcher="compact")
    )
    assert await run_hooks(hooks, started("."), environ={"PATH": "/usr/bin:/bin"}) == Verdict(
        runs=(
            HookRun(name="port", outcome=RunOutcome.COMPLETED, context="Port 4621."),
            HookRun(name="_waits", outcome=RunOutcome.STOPPED, message="a person is asked", context="Wait.", quiet=True),
        )
    )


def _waits(facts: Facts) -> HookReply:
    return HookReply(stop=True, reason="a person is asked", context="Wait.", quiet=True)


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


async def test_not_even_an_exit_gets_out_of_a_function() -> None:
    """A program ends, a loop is interrupted and an iteration is over where its owner says so, not where a hook does."""

    async def leaves(facts: Facts) -> None:
        sys.exit(3)

    def leaves_too(facts: Facts) -> None:
        sys.exit("bye")

    def interrupts(facts: Facts) -> None:
        raise KeyboardInterrupt

    def is_over(facts: Facts) -> None:
        raise StopIteration

    def unspeakable(facts: Facts) -> None:
        raise _Unspeakable

    verdict = await verdict_of(leaves, leaves_too, interrupts, is_over, unspeakable)
    assert [(run.outcome, run.message) for run in verdict.runs] == [
        (RunOutcome.FAILED, "SystemExit: 3"),
        (RunOutcome.FAILED, "SystemExit: bye"),
        (RunOutcome.FAILED, "KeyboardInterrupt: "),
        (RunOutcome.FAILED, "StopIteration: "),
        (RunOutcome.FAILED, "_Unspeakable: <exception str() failed>"),
    ]
    assert verdict.goes_on


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (HookReply(stop=cast("bool", "yes")), "its reply's stop is a str; it must be True or False"),
        (HookReply(quiet=cast("bool", 1)), "its reply's quiet is a int; it must be True or False"),
        (HookReply(stop=True, reason=cast("str", 7)), "its reply's reason is a int; it must be a text, or None"),
        (HookReply(warning=cast("str", b"x")), "its reply's warning is a bytes; it must be a text, or None"),
        (HookReply(context="\ud800"), "its reply's context holds half a surrogate pair, which cannot be stored"),
    ],
)
async def test_a_reply_with_odd_values_is_a_failure(reply: HookReply, message: str) -> None:
    """Half an answer stops nothing and tells nobody anything."""
    (run,) = (await verdict_of(lambda facts: reply, facts=started())).runs
    assert (run.outcome, run.message, run.context) == (RunOutcome.FAILED, message, None)


async def test_functions_that_do_not_return_hold_up_nobody_else() -> None:
    """Each has a thread of its own: there are more of them than a loop has threads, and what needs one still gets it."""
    released = threading.Event()

    def stuck(facts: Facts) -> None:
        released.wait()

    try:
        verdict = await verdict_of(*[stuck] * 40, timeout_s=0.1)
        assert {run.outcome for run in verdict.runs} == {RunOutcome.TIMED_OUT}
        async with asyncio.timeout(60):
            assert await asyncio.to_thread(lambda: "went on") == "went on"
    finally:
        released.set()


async def test_failures_and_warnings_are_in_the_log_and_quiet_ones_are_not(caplog: pytest.LogCaptureFixture) -> None:
    """One line each, whatever is in it: not every host shows a verdict."""

    def fails(facts: Facts) -> None:
        raise LookupError("no\nsuch note")

    def warns(facts: Facts) -> HookReply:
        return HookReply(warning="the disk is\nnearly full")

    def is_quiet(facts: Facts) -> HookReply:
        return HookReply(warning="nothing of note", quiet=True)

    await verdict_of(fails, warns, is_quiet)
    place = "test_failures_and_warnings_are_in_the_log_and_quiet_ones_are_not.<locals>"
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "threadkeep.hooks",
            "WARNING",
            f"the PreCompact hook {place}.fails failed and stopped nothing: LookupError: no such note",
        ),
        ("threadkeep.hooks", "WARNING", f"the PreCompact hook {place}.warns says: the disk is nearly full"),
    ]


HANGS = """
import asyncio, threading
from threadkeep.hooks import FunctionHook, HookEvent, Hooks, SessionFacts, run_hooks

hooks = Hooks().on(HookEvent.SESSION_START, FunctionHook(function=lambda facts: threading.Event().wait(), timeout_s=0.1))
facts = SessionFacts(thread_id="t", cwd=".", source="compact", model="", checkpoint=1)
print(asyncio.run(run_hooks(hooks, facts, environ={})).runs[0].outcome)
"""


def test_a_function_that_never_returns_does_not_keep_the_program_from_ending() -> None:
    """Its thread is nobody's: what else the program does is done, and it ends."""
    ended = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, "timed_out"), ended.stderr
