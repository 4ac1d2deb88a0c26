"""One function, called to its end and never past its time: whatever it raises, returns or fails to do stays here."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from traceback import TracebackException
from typing import Any, Final

from threadkeep.hooks.facts import Facts
from threadkeep.hooks.hook import FunctionHook, HookFunction
from threadkeep.hooks.reply import Fault, HookReply, checked_reply

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
