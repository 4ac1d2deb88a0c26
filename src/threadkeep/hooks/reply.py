"""What a hook answers, how a command's output is parsed as an answer, and the verdict of all hooks of one event. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, assert_never

import msgspec

from threadkeep.hooks.events import HookEvent

MESSAGE_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReply:
    """A hook's answer; every part is optional.

    Attributes:
        stop: Before a compaction: it does not begin. After one: it stays. Either way the turn ends here.
        reason: Why, for a person.
        warning: Shown to a person.
        context: Shown to the model next; only at SessionStart.
        quiet: Whether not to show the warning.
    """

    stop: bool = False
    reason: str | None = None
    warning: str | None = None
    context: str | None = None
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no valid answer."""

    text: str


class RunOutcome(StrEnum):
    """How one hook ended. Only STOPPED has a consequence: a hook that fails or times out stops nothing."""

    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """One hook, run once.

    Attributes:
        message: Why it failed or stopped; None if it completed.
    """

    name: str
    outcome: RunOutcome
    message: str | None = None
    warning: str | None = None
    context: str | None = None
    quiet: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The runs of all hooks of one event, in configured order."""

    runs: tuple[HookRun, ...] = ()

    @property
    def goes_on(self) -> bool:
        return all(run.outcome is not RunOutcome.STOPPED for run in self.runs)

    @property
    def stop_reason(self) -> str | None:
        """The reason of the first hook, in configured order, that stopped it."""
        return next((run.message for run in self.runs if run.outcome is RunOutcome.STOPPED), None)

    @property
    def added_context(self) -> tuple[str, ...]:
        """Texts to show the model before it goes on."""
        return tuple(run.context for run in self.runs if run.context is not None)


def make_run(name: str, reply: HookReply | Fault, *, event: HookEvent) -> HookRun:
    """Return the run of a hook that ended with a reply."""
    if isinstance(reply, Fault):
        return make_failed_run(name, reply.text)
    if reply.context is not None and event is not HookEvent.SESSION_START:
        return make_failed_run(name, f"it adds context at {event}, where only SessionStart can")
    return HookRun(
        name=name,
        outcome=RunOutcome.STOPPED if reply.stop else RunOutcome.COMPLETED,
        message=_shorten(reply.reason or f"a {event} hook stopped it and gave no reason") if reply.stop else None,
        warning=_shorten(reply.warning) if reply.warning else None,
        context=reply.context,
        quiet=reply.quiet,
    )


def make_failed_run(name: str, reason: str) -> HookRun:
    return HookRun(name=name, outcome=RunOutcome.FAILED, message=_shorten(reason))


def check_reply(answer: object) -> HookReply | Fault:
    """Return what a function answered, if it is a valid reply; Python lets it return anything."""
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
        if value is None:
            continue
        if not isinstance(value, str):
            return Fault(f"its reply's {name} is a {type(value).__name__}; it must be a text, or None")
        try:
            value.encode()
        except UnicodeEncodeError:
            return Fault(f"its reply's {name} holds half a surrogate pair, which cannot be stored")
    return answer


class _Output(msgspec.Struct, forbid_unknown_fields=True):
    continue_: bool = msgspec.field(name="continue", default=True)
    stop_reason: str | None = msgspec.field(name="stopReason", default=None)
    suppress_output: bool = msgspec.field(name="suppressOutput", default=False)
    system_message: str | None = msgspec.field(name="systemMessage", default=None)


class _Addition(msgspec.Struct, forbid_unknown_fields=True):
    event: Literal["SessionStart"] = msgspec.field(name="hookEventName")
    context: str | None = msgspec.field(name="additionalContext", default=None)


class _SessionOutput(_Output, forbid_unknown_fields=True):
    addition: _Addition | None = msgspec.field(name="hookSpecificOutput", default=None)


def parse_output(stdout: str, *, event: HookEvent, cut: bool = False) -> HookReply | Fault:
    """Return the answer of a command that exited with 0.

    Nothing, or plain text, is no answer, and at SessionStart plain text is context. Output that begins like JSON has to be an
    object whose keys are all known for this event: an unknown key, such as a decision to block, makes the whole answer invalid,
    because half an answer is worse than none.

    Args:
        cut: Whether `stdout` is only the beginning of what was printed.
    """
    # Some programs print a byte order mark first.
    text = stdout.removeprefix("\ufeff").strip()
    if not text:
        return HookReply()
    looks_like_json = text.startswith(("{", "["))
    if cut and (looks_like_json or event is HookEvent.SESSION_START):
        return Fault("it printed more than is read")
    if looks_like_json:
        return _parse_json(text, event)
    return HookReply(context=text) if event is HookEvent.SESSION_START else HookReply()


def _parse_json(text: str, event: HookEvent) -> HookReply | Fault:
    context: str | None = None
    try:
        match event:
            case HookEvent.SESSION_START:
                output: _Output = (session := msgspec.json.decode(text, type=_SessionOutput))
                context = session.addition.context if session.addition else None
            case HookEvent.PRE_COMPACT | HookEvent.POST_COMPACT:
                output = msgspec.json.decode(text, type=_Output)
            case _:
                assert_never(event)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        return Fault(f"its output is no answer to {event}: {error}")
    return HookReply(
        stop=not output.continue_,
        reason=output.stop_reason,
        warning=output.system_message,
        context=context if context and context.strip() else None,
        quiet=output.suppress_output,
    )


def _shorten(text: str) -> str:
    # File names and error texts may hold half a surrogate pair, which cannot be printed.
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MESSAGE_CHARS else f"{text[: MESSAGE_CHARS - 1]}…"
