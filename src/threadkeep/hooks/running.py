"""Running the hooks of one occasion: all at once, reported in their order."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from threadkeep.hooks.command import CommandEnd, run_command
from threadkeep.hooks.facts import Facts, HookEvent
from threadkeep.hooks.function import call_function
from threadkeep.hooks.hook import CommandHook, FunctionHook, Hook, Hooks
from threadkeep.hooks.reply import Fault, HookReply, read_reply
from threadkeep.hooks.verdict import HookRun, RunOutcome, Verdict, failed_run, run_with_reply

log = logging.getLogger("threadkeep.hooks")


async def run_hooks(hooks: Hooks, facts: Facts, *, environ: Mapping[str, str]) -> Verdict:
    """Run every hook that fits the occasion, all at once, and return what they come to when the last one has ended.

    Nothing a hook does is raised: one that cannot be started, fails, overruns its time or answers nonsense is reported and holds
    nothing up. The same, and what hooks want a person to see, goes to the log `threadkeep.hooks`, because not every host shows a
    verdict. Cancelling this ends every command with all it started.

    Args:
        environ: The environment of commands, whole: they inherit nothing else.
    """
    matching = hooks.for_occasion(facts)
    if not matching:
        return Verdict()
    # ASCII with escapes: a working directory may hold bytes that are no UTF-8.
    stdin = json.dumps(facts.payload()).encode("ascii")
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(_timed(hook, facts, stdin=stdin, environ=environ)) for hook in matching]
    verdict = Verdict(runs=tuple(run.result() for run in runs))
    for run in verdict.runs:
        _say(run, facts.event)
    return verdict


def _say(run: HookRun, event: HookEvent) -> None:
    """Put into the log what a person should know of a run: a stop is told by whom it stops, and a quiet one's words by nobody."""
    if run.outcome in (RunOutcome.FAILED, RunOutcome.TIMED_OUT):
        log.warning("the %s hook %s failed and held nothing up: %s", event, run.name, _in_one_line(run.message or ""))
    if run.warning is not None and not run.quiet:
        log.warning("the %s hook %s says: %s", event, run.name, _in_one_line(run.warning))


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


async def _timed(hook: Hook, facts: Facts, *, stdin: bytes, environ: Mapping[str, str]) -> HookRun:
    loop = asyncio.get_running_loop()
    started = loop.time()
    match hook:
        case CommandHook():
            run = await _commanded(hook, facts, stdin=stdin, environ=environ)
        case FunctionHook():
            run = await _called(hook, facts)
        case _:
            assert_never(hook)
    return replace(run, duration_ms=round((loop.time() - started) * 1_000))


async def _commanded(hook: CommandHook, facts: Facts, *, stdin: bytes, environ: Mapping[str, str]) -> HookRun:
    try:
        end = await run_command(hook, stdin=stdin, cwd=facts.cwd, environ=environ)
    except TimeoutError:
        return _timed_out(hook)
    except (OSError, ValueError) as error:
        return failed_run(hook.name, f"it could not be started: {error}")
    return run_with_reply(hook.name, _read_end(end, facts), event=facts.event)


def _read_end(end: CommandEnd, facts: Facts) -> HookReply | Fault:
    """Return the answer of a command; its output counts only if it ended well."""
    if end.exit_code == 0:
        return read_reply(end.stdout.text, event=facts.event, cut=end.stdout.cut)
    how = f"it exited with code {end.exit_code}" if end.exit_code > 0 else f"signal {-end.exit_code} ended it"
    said = end.stderr.text.strip()
    return Fault(f"{how}: {said}" if said else how)


async def _called(hook: FunctionHook, facts: Facts) -> HookRun:
    try:
        answer = await call_function(hook, facts)
    except TimeoutError:
        return _timed_out(hook)
    return run_with_reply(hook.name, answer, event=facts.event)


def _timed_out(hook: Hook) -> HookRun:
    return HookRun(name=hook.name, outcome=RunOutcome.TIMED_OUT, message=f"it took longer than {hook.timeout_s:g} s")
