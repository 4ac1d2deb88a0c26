"""What came of running the hooks of one occasion."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from threadkeep.hooks.facts import HookEvent
from threadkeep.hooks.reply import Fault, HookReply

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
