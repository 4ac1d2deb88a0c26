"""Run the hooks of one event: all at once, each within its time, reported in configured order."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from traceback import TracebackException
from types import TracebackType
from typing import Final, assert_never

from threadkeep.hooks.definitions import CommandHook, FunctionHook, Hook, HookFunction, Hooks
from threadkeep.hooks.events import Facts, HookEvent
from threadkeep.hooks.reply import (
    Fault,
    HookReply,
    HookRun,
    RunOutcome,
    Verdict,
    check_reply,
    make_failed_run,
    make_run,
    parse_output,
)

SHELL: Final = ("/bin/sh", "-c")
OUTPUT_BYTES: Final = 65_536
# How long a cancelled coroutine may take to clean up before it is no longer waited for.
GRACE_S: Final = 5.0

log = logging.getLogger("threadkeep.hooks")


async def run_hooks(hooks: Hooks, facts: Facts, *, environ: Mapping[str, str]) -> Verdict:
    """Run every hook that matches the event, all at once, and return their verdict when the last one has ended.

    Nothing a hook does is raised: a hook that cannot be started, fails, times out or answers nonsense is reported and stops
    nothing. Failures and warnings also go to the log `threadkeep.hooks`, because not every host shows a verdict. Cancelling this
    ends every command and everything it started.

    Args:
        environ: The whole environment of commands; they inherit nothing else.
    """
    matching = hooks.select(facts)
    if not matching:
        return Verdict()
    # ASCII with escapes: a working directory may hold bytes that are not UTF-8.
    stdin = json.dumps(facts.payload()).encode("ascii")
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(_run_hook(hook, facts, stdin=stdin, environ=environ)) for hook in matching]
    verdict = Verdict(runs=tuple(run.result() for run in runs))
    for run in verdict.runs:
        _log_run(run, facts.event)
    return verdict


def _log_run(run: HookRun, event: HookEvent) -> None:
    """Log failures and warnings. A stop is reported where it takes effect, and a quiet hook's warning nowhere."""
    if run.outcome in (RunOutcome.FAILED, RunOutcome.TIMED_OUT):
        log.warning("the %s hook %s failed and stopped nothing: %s", event, run.name, " ".join((run.message or "").split()))
    if run.warning is not None and not run.quiet:
        log.warning("the %s hook %s says: %s", event, run.name, " ".join(run.warning.split()))


async def _run_hook(hook: Hook, facts: Facts, *, stdin: bytes, environ: Mapping[str, str]) -> HookRun:
    try:
        match hook:
            case CommandHook():
                reply = _read_end(await run_command(hook, stdin=stdin, cwd=facts.cwd, environ=environ), facts.event)
            case FunctionHook():
                reply = await call_function(hook, facts)
            case _:
                assert_never(hook)
        return make_run(hook.name, reply, event=facts.event)
    except TimeoutError:
        return HookRun(name=hook.name, outcome=RunOutcome.TIMED_OUT, message=f"it took longer than {hook.timeout_s:g} s")
    except (OSError, ValueError) as error:
        return make_failed_run(hook.name, f"it could not be started: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What a command printed, invalid UTF-8 replaced; `cut` if it printed more."""

    text: str
    cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """How a command ended: `exit_code` is negative for the signal that ended it."""

    exit_code: int
    stdout: Printed
    stderr: Printed


def _read_end(end: CommandEnd, event: HookEvent) -> HookReply | Fault:
    """Return the answer of a command; its output counts only if it exited with 0."""
    if end.exit_code == 0:
        return parse_output(end.stdout.text, event=event, cut=end.stdout.cut)
    how = f"it exited with code {end.exit_code}" if end.exit_code > 0 else f"signal {-end.exit_code} ended it"
    printed = end.stderr.text.strip()
    return Fault(f"{how}: {printed}" if printed else how)


class OutputPipe:
    """A pipe that is read as it fills. The first bytes are kept and the rest discarded, so that no writer ever blocks.

    A pipe of our own, because asyncio's lasts until its last writer closes it, and that may be a background process of the
    command: the command is over when it exits.
    """

    def __init__(self) -> None:
        self._kept = bytearray()
        self._cut = False
        self._is_open = True
        self._source, self.sink = os.pipe()
        os.set_blocking(self._source, False)

    def __enter__(self) -> OutputPipe:
        asyncio.get_running_loop().add_reader(self._source, self._read_chunk)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close_sink()
        self._stop_reading()
        os.close(self._source)

    def close_sink(self) -> None:
        """Close our copy of the end that is written to, once the command has its own."""
        if self.sink >= 0:
            os.close(self.sink)
            self.sink = -1

    def read_all(self) -> Printed:
        """Return what has been printed so far."""
        # A background process may print without end; nothing is wanted past the bound.
        while self._is_open and not self._cut and self._read_chunk():
            pass
        return Printed(text=self._kept.decode("utf-8", errors="replace"), cut=self._cut)

    def _read_chunk(self) -> bool:
        """Read what is there; False if nothing is."""
        try:
            chunk = os.read(self._source, OUTPUT_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._stop_reading()
            return False
        room = OUTPUT_BYTES - len(self._kept)
        self._kept += chunk[:room]
        self._cut = self._cut or len(chunk) > room
        return True

    def _stop_reading(self) -> None:
        if self._is_open:
            asyncio.get_running_loop().remove_reader(self._source)
            self._is_open = False


async def run_command(hook: CommandHook, *, stdin: bytes, cwd: str, environ: Mapping[str, str]) -> CommandEnd:
    """Start the command in `cwd` with exactly `environ`, give it `stdin`, and return how it ended.

    It gets a process group of its own. On a timeout, or if the caller is cancelled, the whole group is killed before this
    returns; background processes of a command that ended by itself are left alone.

    Raises:
        OSError, ValueError: It could not be started.
        TimeoutError: It took too long.
    """
    arguments = (*SHELL, hook.command) if isinstance(hook.command, str) else hook.command
    with OutputPipe() as stdout, OutputPipe() as stderr:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=stdout.sink,
                stderr=stderr.sink,
                cwd=cwd,
                env=dict(environ),
                start_new_session=True,
            )
        )
        try:
            # Cancelled while it starts, asyncio would kill the command alone, and not what it had already started.
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            await _kill(await starting)
            raise
        stdout.close_sink()
        stderr.close_sink()
        try:
            async with asyncio.timeout(hook.timeout_s):
                await _write_stdin(process, stdin)
                exit_code = await process.wait()
        finally:
            await _kill(process)
        return CommandEnd(exit_code=exit_code, stdout=stdout.read_all(), stderr=stderr.read_all())


async def _write_stdin(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    """Write `stdin` and close it; a command need not read it."""
    # It may have ended already, and its pipe with it.
    if process.stdin is None or process.stdin.is_closing():
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a command that still runs, and everything it started, and wait until it is gone."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def call_function(hook: FunctionHook, facts: Facts) -> HookReply | Fault:
    """Call the function and return its answer, or why that is none; nothing it raises gets out, not even `SystemExit`.

    A coroutine that takes too long is cancelled, as it is with the caller. A thread cannot be: it is no longer waited for.

    Raises:
        TimeoutError: It took too long.
    """
    task = asyncio.create_task(_call(hook.function, facts))
    try:
        ended, _ = await asyncio.wait({task}, timeout=hook.timeout_s)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
    if task not in ended:
        raise TimeoutError
    return Fault("it was cancelled") if task.cancelled() else check_reply(task.result())


async def _call(function: HookFunction, facts: Facts) -> object:
    try:
        if inspect.iscoroutinefunction(function):
            return await function(facts)
        answer = await _call_in_thread(function, facts)
        return await answer if inspect.isawaitable(answer) else answer
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a person's function may raise anything; it is reported
        return _describe(error)


def _call_in_thread(function: HookFunction, facts: Facts) -> asyncio.Future[object]:
    """Call a plain function in a daemon thread, because it may never return; what it raises is returned as a fault."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[object] = loop.create_future()
    context = copy_context()

    def call() -> None:
        answer: object
        try:
            answer = context.run(function, facts)
        except BaseException as error:  # noqa: BLE001  # raised here, it would be lost with the thread
            answer = _describe(error)
        # A closed loop has no task left that waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, answer)

    def deliver(answer: object) -> None:
        if not answered.done():
            answered.set_result(answer)
        elif inspect.iscoroutine(answer):
            answer.close()

    threading.Thread(target=call, name="threadkeep-hook", daemon=True).start()
    return answered


def _describe(error: BaseException) -> Fault:
    if isinstance(error, asyncio.CancelledError):
        return Fault("it was cancelled")
    # An exception's own `__str__` may fail; this falls back.
    return Fault(f"{type(error).__name__}: {TracebackException(type(error), error, None)}")
