"""Commands as hooks: what they are given, how they end, what is left of them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop
from tests.hooks.samples import commands, committed, compaction, started

from threadkeep.hooks import CommandHook, Facts, HookEvent, HookRun, Hooks, RunOutcome, Verdict, run_hooks

ENVIRON = {"PATH": os.defpath}
PRE, POST, START = HookEvent.PRE_COMPACT, HookEvent.POST_COMPACT, HookEvent.SESSION_START
COMPLETED, FAILED, STOPPED, TIMED_OUT = RunOutcome.COMPLETED, RunOutcome.FAILED, RunOutcome.STOPPED, RunOutcome.TIMED_OUT


async def run(hooks: Hooks, facts: Facts) -> Verdict:
    return await run_hooks(hooks, facts, environ=ENVIRON)


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture
def listening(fifo: Path) -> Iterator[int]:
    """The end of the fifo that is read; opening it waits for nobody, reading it does."""
    descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    yield descriptor
    os.close(descriptor)


def everything_said(descriptor: int) -> str:
    """Return what was written to a fifo once every process that could write to it is gone."""
    os.set_blocking(descriptor, True)
    said = b""
    while chunk := os.read(descriptor, 4_096):
        said += chunk
    return said.decode()


@pytest.mark.anyio
async def test_a_command_reads_the_facts_as_json_in_the_working_directory(tmp_path: Path) -> None:
    """Whole, on its standard input, which then ends."""
    assert await run(commands(PRE, "cat > told.json"), compaction(tmp_path)) == Verdict(
        runs=(HookRun(name="a", outcome=COMPLETED),)
    )
    assert json.loads((tmp_path / "told.json").read_text()) == compaction(tmp_path).payload()


@pytest.mark.anyio
async def test_a_command_has_the_environment_it_is_given_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this process's own gets through."""
    monkeypatch.setenv("THREADKEEP_SECRET", "hunter2")
    verdict = await run_hooks(commands(START, ("/usr/bin/env",)), started(tmp_path), environ={"ONLY": "this"})
    assert verdict.added_context == ("ONLY=this",)


@pytest.mark.anyio
async def test_a_list_is_started_without_a_shell_and_a_text_with_one(tmp_path: Path) -> None:
    """Only in a line for the shell do its signs mean anything."""
    hooks = commands(START, ("echo", "$((1 + 1)); exit 7"), "echo $((1 + 1))")
    assert (await run(hooks, started(tmp_path))).added_context == ("$((1 + 1)); exit 7", "2")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("line", "outcome", "message"),
    [
        ("true", COMPLETED, None),
        ("echo saved", COMPLETED, None),
        ("""echo '{"continue": false, "stopReason": "tests run"}'""", STOPPED, "tests run"),
        ("""echo '{"continue": false}'""", STOPPED, "a PreCompact hook stopped it and gave no reason"),
        ("exit 1", FAILED, "it exited with code 1"),
        ("echo no disk >&2; exit 2", FAILED, "it exited with code 2: no disk"),
        ("""echo '{"continue": false}'; exit 2""", FAILED, "it exited with code 2"),
        ("kill -9 $$", FAILED, "signal 9 ended it"),
        (
            """echo '{"decision": "block", "reason": "no"}'""",
            FAILED,
            "its output is no answer to PreCompact: Object contains unknown field `decision`",
        ),
    ],
)
async def test_only_an_explicit_stop_stops_anything(tmp_path: Path, line: str, outcome: RunOutcome, message: str | None) -> None:
    """A code other than 0, 2 among them, and a decision to block are failures, and failures hold nothing up."""
    verdict = await run(commands(PRE, line), compaction(tmp_path))
    assert verdict == Verdict(runs=(HookRun(name="a", outcome=outcome, message=message),))
    assert (verdict.goes_on, verdict.stop_reason) == (outcome is not STOPPED, message if outcome is STOPPED else None)


@pytest.mark.anyio
async def test_what_cannot_be_started_failed(tmp_path: Path) -> None:
    """No such program, no such folder, a name no system knows: one failure each, and the rest runs."""
    hooks = commands(PRE, ("threadkeep-has-no-such-program",), ("tru\0e",), "true")
    verdict = await run(hooks, compaction(tmp_path))
    assert [run.outcome for run in verdict.runs] == [FAILED, FAILED, COMPLETED]
    assert verdict.goes_on
    elsewhere = await run(commands(PRE, "true"), compaction(tmp_path / "gone"))
    assert [run.outcome for run in elsewhere.runs] == [FAILED]


@pytest.mark.anyio
async def test_commands_run_at_once_and_are_reported_in_their_order(tmp_path: Path, fifo: Path) -> None:
    """The first waits for a word of the second, which could not come if they ran one after the other."""
    hooks = commands(START, "read word < fifo; echo heard $word", "echo hello > fifo; echo said")
    assert await run(hooks, started(tmp_path)) == Verdict(
        runs=(
            HookRun(name="a", outcome=COMPLETED, context="heard hello"),
            HookRun(name="b", outcome=COMPLETED, context="said"),
        )
    )


@pytest.mark.anyio
async def test_the_first_reason_in_configured_order_is_the_one_given(tmp_path: Path, fifo: Path) -> None:
    """Whichever hook ends first."""
    hooks = commands(
        POST,
        """read word < fifo; echo '{"continue": false, "stopReason": "first", "systemMessage": "one"}'""",
        """echo go > fifo; echo '{"continue": false, "stopReason": "second", "systemMessage": "two"}'""",
    )
    verdict = await run(hooks, committed(tmp_path))
    assert (verdict.goes_on, verdict.stop_reason, [run.warning for run in verdict.runs]) == (False, "first", ["one", "two"])


@pytest.mark.anyio
async def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    """They cost a character, not the run."""
    assert (await run(commands(START, r"printf '\377ok'"), started(tmp_path))).added_context == ("\ufffdok",)


@pytest.mark.anyio
async def test_a_flood_of_output_neither_blocks_a_command_nor_is_kept(tmp_path: Path) -> None:
    """More than any pipe holds, on both streams: the command comes to its end; what an answer would hang on fails."""
    flood = "head -c 3000000 /dev/zero | tr '\\0' x"
    assert [run.outcome for run in (await run(commands(PRE, flood), compaction(tmp_path))).runs] == [COMPLETED]
    assert await run(commands(START, flood), started(tmp_path)) == Verdict(
        runs=(HookRun(name="a", outcome=FAILED, message="it printed more than is read"),)
    )
    (failed,) = (await run(commands(PRE, f"{flood} >&2; exit 3"), compaction(tmp_path))).runs
    assert failed.message is not None
    assert (failed.outcome, len(failed.message), failed.message[:26]) == (FAILED, 2_000, "it exited with code 3: xxx")


@pytest.mark.anyio
async def test_a_command_that_reads_nothing_is_none_the_worse(tmp_path: Path) -> None:
    """Closing its input at once is no failure."""
    verdict = await run(commands(PRE, "exec <&-; exit 0", ("true",)), compaction(tmp_path))
    assert [run.outcome for run in verdict.runs] == [COMPLETED, COMPLETED]


@pytest.mark.anyio
async def test_what_a_command_leaves_in_the_background_is_not_waited_for(tmp_path: Path, fifo: Path) -> None:
    """It still holds the output open, and waits for a word that comes only after the verdict."""
    hooks = commands(START, "(read word < fifo) & echo done", timeout_s=30)
    assert (await run(hooks, started(tmp_path))).added_context == ("done",)
    await asyncio.to_thread(fifo.write_text, "go\n")


@pytest.mark.anyio
async def test_out_of_time_the_command_is_killed_with_all_it_started(tmp_path: Path, listening: int) -> None:
    """Nobody is left to say that it survived."""
    line = "exec 3> fifo; (sleep 30; echo survived >&3) & wait"
    assert await run(commands(PRE, line, "true", timeouts_s={"a": 1}), compaction(tmp_path)) == Verdict(
        runs=(HookRun(name="a", outcome=TIMED_OUT, message="it took longer than 1 s"), HookRun(name="b", outcome=COMPLETED))
    )
    assert await asyncio.to_thread(everything_said, listening) == ""


@pytest.mark.anyio
async def test_cancelled_the_command_is_killed_with_all_it_started(tmp_path: Path, fifo: Path) -> None:
    """The cancellation goes on its way only when nothing is left."""
    line = "exec 3> fifo; echo ready >&3; (sleep 30; echo survived >&3) & wait"
    running = asyncio.create_task(run(commands(PRE, line), compaction(tmp_path)))
    with await asyncio.to_thread(fifo.open) as said:
        assert await asyncio.to_thread(said.readline) == "ready\n"
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await asyncio.to_thread(said.read) == ""


def test_the_gateways_event_loop_runs_them_the_same_way(tmp_path: Path) -> None:
    """uvloop starts and watches processes by itself."""
    hooks = commands(START, "cat > told.json; echo done", "sleep 30", "exit 3", timeouts_s={"b": 1})
    assert uvloop.run(run(hooks, started(tmp_path))) == Verdict(
        runs=(
            HookRun(name="a", outcome=COMPLETED, context="done"),
            HookRun(name="b", outcome=TIMED_OUT, message="it took longer than 1 s"),
            HookRun(name="c", outcome=FAILED, message="it exited with code 3"),
        )
    )
    assert json.loads((tmp_path / "told.json").read_text()) == started(tmp_path).payload()


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_a_command_that_is_gone_before_it_was_told_anything_is_none_the_worse(
    tmp_path: Path, run_loop: Callable[[Coroutine[None, None, Verdict]], Verdict]
) -> None:
    """Its pipe may close before, while or after more is written than it holds."""
    told = replace(compaction(tmp_path), model="m" * 200_000)
    hooks = commands(PRE, *([("true",)] * 6)) + commands(PRE, *([("true",)] * 6))
    assert [ran.outcome for ran in run_loop(run(hooks, told)).runs] == [COMPLETED] * 12


@pytest.mark.anyio
async def test_without_a_hook_for_the_occasion_nothing_happens(tmp_path: Path) -> None:
    """The verdict is to go on."""
    hooks = Hooks().on(PRE, CommandHook(command="touch ran"), matcher="auto")
    assert await run(hooks, compaction(tmp_path)) == Verdict()
    assert Verdict().goes_on
    assert list(tmp_path.iterdir()) == []
