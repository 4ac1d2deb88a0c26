"""Running the hooks of one event: all at once, each within its time, reported in configured order."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import signal
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from traceback import TracebackException
from types import TracebackType
from typing import Any, Final, assert_never

from threadkeep.hooks.events import Facts, HookEvent
from threadkeep.hooks.hook import CommandHook, FunctionHook, Hook, HookFunction, Hooks
from threadkeep.hooks.reply import (
    Fault,
    HookReply,
    HookRun,
    RunOutcome,
    Verdict,
    checked_reply,
    failed_run,
    read_reply,
    run_with_reply,
)

SHELL: Final = ("/bin/sh", "-c")
OUTPUT_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What was printed, bytes that are no UTF-8 replaced; `cut` if there was more."""

    text: str
    cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """How a command ended: `exit_code` is negative for the signal that ended it."""

    exit_code: int
    stdout: Printed
    stderr: Printed


class Catch:
    """One end of a pipe, read as it fills. The first bytes are kept and the rest let go, so that no writer waits for room.

    A pipe of our own, because asyncio's lasts until its last writer closes it, and that may be something the command left running
    in the background: the command is over when it exits.
    """

    def __init__(self) -> None:
        self._kept = bytearray()
        self._cut = False
        self._open = True
        self._source, self.into = os.pipe()
        os.set_blocking(self._source, False)

    def __enter__(self) -> Catch:
        asyncio.get_running_loop().add_reader(self._source, self._take)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.hand_over()
        self._stop_listening()
        os.close(self._source)

    def hand_over(self) -> None:
        """Close our copy of the end that is written to, once the command has its own."""
        if self.into >= 0:
            os.close(self.into)
            self.into = -1

    def printed(self) -> Printed:
        """Return what has been printed up to now."""
        # Something left in the background may print without end; past the bound nothing more is wanted.
        while self._open and not self._cut and self._take():
            pass
        return Printed(text=self._kept.decode("utf-8", errors="replace"), cut=self._cut)

    def _take(self) -> bool:
        """Read what is there; False once nothing is."""
        try:
            chunk = os.read(self._source, OUTPUT_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._stop_listening()
            return False
        room = OUTPUT_BYTES - len(self._kept)
        self._kept += chunk[:room]
        self._cut = self._cut or len(chunk) > room
        return True

    def _stop_listening(self) -> None:
        if self._open:
            asyncio.get_running_loop().remove_reader(self._source)
            self._open = False


async def run_command(hook: CommandHook, *, stdin: bytes, cwd: str, environ: Mapping[str, str]) -> CommandEnd:
    """Start the command in `cwd` with exactly `environ`, give it `stdin`, and return how it ended.

    It gets a process group of its own. If its time runs out, or the caller is cancelled, the whole group is killed and gone when
    this returns; what a command that ended by itself left in the background is left alone.

    Raises:
        OSError, ValueError: It could not be started.
        TimeoutError: Its time ran out.
    """
    arguments = (*SHELL, hook.command) if isinstance(hook.command, str) else hook.command
    with Catch() as stdout, Catch() as stderr:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=stdout.into,
                stderr=stderr.into,
                cwd=cwd,
                env=dict(environ),
                start_new_session=True,
            )
        )
        try:
            # Cancelled in the middle of it, asyncio would end the command alone, and not what it had already started.
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            await _end(await starting)
            raise
        stdout.hand_over()
        stderr.hand_over()
        try:
            async with asyncio.timeout(hook.timeout_s):
                await _give(process, stdin)
                exit_code = await process.wait()
        finally:
            await _end(process)
        return CommandEnd(exit_code=exit_code, stdout=stdout.printed(), stderr=stderr.printed())


async def _give(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    """Write `stdin` and close it; a command that does not care to read it is none the worse for it."""
    # It may be gone already, and its pipe with it.
    if process.stdin is None or process.stdin.is_closing():
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what still runs, everything the command started included, and wait until it is gone."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


# How long a cancelled coroutine may take to clean up before it is no longer waited for.
GRACE_S: Final = 5.0


async def call_function(hook: FunctionHook, facts: Facts) -> HookReply | Fault:
    """Call the function and return what it answers, or why that is no answer; nothing it raises gets out, not even an exit.

    A coroutine that overruns its time is cancelled, as it is with the caller. A thread cannot be: it is no longer waited for.

    Raises:
        TimeoutError: Its time ran out.
    """
    task = asyncio.create_task(_answer(hook.function, facts))
    try:
        ended, _ = await asyncio.wait({task}, timeout=hook.timeout_s)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
    if task not in ended:
        if task.done() and not task.cancelled():
            # Looked at, so that nobody is told of an error that nobody looked at.
            task.exception()
        raise TimeoutError
    if task.cancelled():
        return Fault("it was cancelled")
    error = task.exception()
    return checked_reply(task.result()) if error is None else _raised(error)


async def _answer(function: HookFunction, facts: Facts) -> object:
    try:
        if inspect.iscoroutinefunction(function):
            return await function(facts)
        answer = await _in_a_thread(function, facts)
        return await answer if inspect.isawaitable(answer) else answer
    except SystemExit as error:
        # Of all that a task can end with, this goes through it to the event loop, and would end the program.
        return _raised(error)


def _in_a_thread(function: HookFunction, facts: Facts) -> asyncio.Future[object]:
    """Call a plain function in a thread that nothing waits for, the program's end included: it may never return."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[object] = loop.create_future()
    context = copy_context()

    def called() -> None:
        call: Future[Any] = Future()
        try:
            call.set_result(context.run(function, facts))
        except BaseException as error:  # noqa: BLE001  # told to the one who awaits it; raised here, nobody would hear of it
            call.set_exception(error)
        # The loop may be closed by now: then nobody waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_hand_over, answered, call)

    threading.Thread(target=called, name="threadkeep-hook", daemon=True).start()
    return answered


def _hand_over(answered: asyncio.Future[object], call: Future[Any]) -> None:
    """Give on what a call came to. Handed on by itself, what it raised would mean something else to a future, or to the loop."""
    error = call.exception()
    if isinstance(error, asyncio.CancelledError):
        answer: object = Fault("it was cancelled")
    else:
        answer = call.result() if error is None else _raised(error)
    if not answered.done():
        answered.set_result(answer)
    elif inspect.iscoroutine(answer):
        answer.close()


def _raised(error: BaseException) -> Fault:
    # Its own way of saying what it is may fail too.
    return Fault(f"{type(error).__name__}: {TracebackException(type(error), error, None)}")


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
