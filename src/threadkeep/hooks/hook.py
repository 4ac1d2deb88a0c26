"""Hooks as values: what is run, when, and for how long at most."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from threadkeep.hooks.facts import Facts, HookEvent
from threadkeep.hooks.matching import Matcher
from threadkeep.hooks.reply import HookReply

DEFAULT_TIMEOUT_S: Final = 600.0

HookFunction = Callable[[Facts], HookReply | Awaitable[HookReply | None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHook:
    """A program that reads the facts as JSON on its standard input.

    Attributes:
        command: A tuple is a program and its arguments, started as it stands. A text is a line for the shell, `/bin/sh -c`: only
            for lines a person wrote into a configuration, never for one put together from data.
        name: What it is called in reports; never the line itself, which may hold what is nobody's business.
    """

    command: str | tuple[str, ...]
    timeout_s: float = DEFAULT_TIMEOUT_S
    name: str = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionHook:
    """A function of this process. A coroutine function runs on the event loop, any other in a thread of its own.

    A thread cannot be stopped: a plain function that overruns its time is no longer waited for, and goes on by itself. Only the
    end of the program waits for it.
    """

    function: HookFunction
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)


Hook = CommandHook | FunctionHook


@dataclass(frozen=True, slots=True, kw_only=True)
class HookGroup:
    """Hooks that run on one occasion."""

    event: HookEvent
    matcher: Matcher
    hooks: tuple[Hook, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Everything configured, in its order."""

    groups: tuple[HookGroup, ...] = ()

    def on(self, event: HookEvent, hook: Hook, *, matcher: str | None = None) -> Hooks:
        """Return these hooks and one more, which runs on `event` where `matcher` fits; see `Matcher`.

        Raises:
            BadInput: The matcher is no regular expression.
        """
        return self + Hooks(groups=(HookGroup(event=event, matcher=Matcher(matcher), hooks=(hook,)),))

    def __add__(self, other: Hooks) -> Hooks:
        return Hooks(groups=self.groups + other.groups)

    def any_on(self, event: HookEvent) -> bool:
        """Whether there is a hook for an event at all."""
        return any(group.event is event for group in self.groups)

    def for_occasion(self, facts: Facts) -> tuple[Hook, ...]:
        """Return the hooks to run, in configured order; one that is configured twice runs twice."""
        return tuple(
            hook
            for group in self.groups
            if group.event is facts.event and group.matcher.matches(facts.subject)
            for hook in group.hooks
        )
