"""What a hook answers, how a command's output is read as an answer, and what the answers of one event come to. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, assert_never

import msgspec

from threadkeep.hooks.events import HookEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReply:
    """A hook's answer; every part may be left out.

    Attributes:
        stop: Before a compaction: it does not begin. After one: it stays. Either way the turn ends here.
        reason: Why, for a person.
        warning: Something a person should be shown.
        context: What the model is to be told next; only at SessionStart.
        quiet: Whether the hook would rather not be shown.
    """

    stop: bool = False
    reason: str | None = None
    warning: str | None = None
    context: str | None = None
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """What came back is no answer, and why."""

    text: str


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    continue_: bool = msgspec.field(name="continue", default=True)
    stop_reason: str | None = msgspec.field(name="stopReason", default=None)
    suppress_output: bool = msgspec.field(name="suppressOutput", default=False)
    system_message: str | None = msgspec.field(name="systemMessage", default=None)


class _Addition(msgspec.Struct, forbid_unknown_fields=True):
    event: Literal["SessionStart"] = msgspec.field(name="hookEventName")
    context: str | None = msgspec.field(name="additionalContext", default=None)


class _SessionAnswer(_Answer, forbid_unknown_fields=True):
    addition: _Addition | None = msgspec.field(name="hookSpecificOutput", default=None)


def checked_reply(answer: object) -> HookReply | Fault:
    """Return what a function answered, if it is an answer; Python lets it return anything."""
    if answer is None:
        return HookReply()
    if isinstance(answer, Fault):
        return answer
    if not isinstance(answer, HookReply):
        return Fault(f"it returned a {type(answer).__name__}; return a HookReply, or nothing")
    for name in ("stop", "quiet"):
        if not isinstance(value := getattr(answer, name), bool):
            return Fault(f"its reply's {name} is a {type(value).__name__}; it must be True or False")
    for name in ("reason", "warning", "context"):
        value = getattr(answer, name)
        if value is not None and not isinstance(value, str):
            return Fault(f"its reply's {name} is a {type(value).__name__}; it must be a text, or None")
        if value is not None and not _is_written_down(value):
            return Fault(f"its reply's {name} holds half a character, which cannot be written down")
    return answer


def _is_written_down(text: str) -> bool:
    """Whether a text is one outside Python too: half a pair of surrogates is not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_reply(stdout: str, *, event: HookEvent, cut: bool = False) -> HookReply | Fault:
    """Return what a command said that ended well.

    Nothing, or plain text, is no answer, and at SessionStart plain text is context. What begins like JSON has to be an object
    with keys that mean something on this occasion: an answer half understood is worse than none, so an unknown key, such as a
    decision to block, spoils all of it.

    Args:
        cut: Whether `stdout` is only the beginning of what was printed.
    """
    # Some programs put a mark before what they write, which is none of it.
    text = stdout.removeprefix("\ufeff").strip()
    if not text:
        return HookReply()
    looks_like_json = text.startswith(("{", "["))
    if cut and (looks_like_json or event is HookEvent.SESSION_START):
        return Fault("it printed more than is read")
    if looks_like_json:
        return _read_json(text, event)
    return HookReply(context=text) if event is HookEvent.SESSION_START else HookReply()


def _read_json(text: str, event: HookEvent) -> HookReply | Fault:
    context: str | None = None
    try:
        match event:
            case HookEvent.SESSION_START:
                said: _Answer = (session := msgspec.json.decode(text, type=_SessionAnswer))
                context = session.addition.context if session.addition else None
            case HookEvent.PRE_COMPACT | HookEvent.POST_COMPACT:
                said = msgspec.json.decode(text, type=_Answer)
            case _:
                assert_never(event)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        return Fault(f"its output is no answer to {event}: {error}")
    return HookReply(
        stop=not said.continue_,
        reason=said.stop_reason,
        warning=said.system_message,
        context=context if context and context.strip() else None,
        quiet=said.suppress_output,
    )


MESSAGE_CHARS = 2_000


class RunOutcome(StrEnum):
    """How one hook ended. Only STOPPED has a consequence: a hook that fails or overruns holds nothing up."""

    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """One hook, run once.

    Attributes:
        message: Why it failed, was ended or stopped; None if it completed.
        duration_ms: Left out of comparisons: two runs that did the same are the same.
    """

    name: str
    outcome: RunOutcome
    message: str | None = None
    warning: str | None = None
    context: str | None = None
    quiet: bool = False
    duration_ms: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the hooks of one occasion come to; `runs` are in configured order, whichever ended first."""

    runs: tuple[HookRun, ...] = ()

    @property
    def goes_on(self) -> bool:
        return all(run.outcome is not RunOutcome.STOPPED for run in self.runs)

    @property
    def stop_reason(self) -> str | None:
        """Why it does not go on: the reason of the first hook, in configured order, that stopped it."""
        return next((run.message for run in self.runs if run.outcome is RunOutcome.STOPPED), None)

    @property
    def added_context(self) -> tuple[str, ...]:
        """What the model is to be told before it goes on."""
        return tuple(run.context for run in self.runs if run.context is not None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What hooks want a person to see."""
        return tuple(run.warning for run in self.runs if run.warning is not None)


def run_with_reply(name: str, reply: HookReply | Fault, *, event: HookEvent) -> HookRun:
    """Return the run of a hook that came to its end and answered."""
    if isinstance(reply, Fault):
        return failed_run(name, reply.text)
    if reply.context is not None and event is not HookEvent.SESSION_START:
        return failed_run(name, f"it adds context at {event}, where only SessionStart can")
    return HookRun(
        name=name,
        outcome=RunOutcome.STOPPED if reply.stop else RunOutcome.COMPLETED,
        message=shortened(reply.reason or f"a {event} hook stopped it and gave no reason") if reply.stop else None,
        warning=shortened(reply.warning) if reply.warning else None,
        context=reply.context,
        quiet=reply.quiet,
    )


def failed_run(name: str, why: str) -> HookRun:
    return HookRun(name=name, outcome=RunOutcome.FAILED, message=shortened(why))


def shortened(text: str) -> str:
    # Names of files and what foreign code says of itself may hold half a character, which nobody could print.
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MESSAGE_CHARS else f"{text[: MESSAGE_CHARS - 1]}…"
