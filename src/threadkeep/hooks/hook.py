"""Hooks as values: what runs, on which event, for how long at most, and how a configuration file writes them.

A configuration has Codex's shape: events, groups with a matcher, and in each group a list of commands.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from threadkeep.errors import BadInput
from threadkeep.hooks.events import Facts, HookEvent
from threadkeep.hooks.reply import HookReply

EVERYTHING = ("", "*")
WORDS = re.compile(r"[A-Za-z0-9_|]+")


@dataclass(frozen=True, slots=True)
class Matcher:
    """A pattern over triggers and sources.

    None, "" and "*" match all; letters, digits, `_` and `|` alone are exact alternatives; anything else is a regular expression
    that has to be found somewhere in the subject.

    Raises:
        BadInput: The pattern is no regular expression.
    """

    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.pattern is None or self.pattern in EVERYTHING:
            return
        try:
            re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise BadInput(f"{self.pattern!r} is no matcher: {error}; write manual|auto, *, or a regular expression") from None

    def matches(self, subject: str) -> bool:
        if self.pattern is None or self.pattern in EVERYTHING:
            return True
        if WORDS.fullmatch(self.pattern):
            return subject in self.pattern.split("|")
        return re.search(self.pattern, subject) is not None


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

    def has_any(self, event: HookEvent) -> bool:
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


GROUP_KEYS: Final = ("hooks", "matcher")
HOOK_KEYS: Final = ("command", "timeout", "type")
LONGEST_TIMEOUT_S: Final = 86_400


def parse_hooks(table: Mapping[str, object]) -> Hooks:
    """Return the hooks of a `[hooks]` table.

    A command written as a text is a line for the shell; written as a list it is a program and its arguments. `timeout` is in
    whole seconds, 600 if it is left out, and at least 1: 0 counts as 1.

    Raises:
        BadInput: Something in the table is not as it should be; the message names the place.
    """
    groups: list[HookGroup] = []
    for name, listed in table.items():
        event = _event(name)
        groups += [
            _group(entry, event=event, place=f"hooks.{name}[{index}]")
            for index, entry in enumerate(_list(listed, place=f"hooks.{name}", of="tables with a list of hooks"))
        ]
    return Hooks(groups=tuple(groups))


def _event(name: str) -> HookEvent:
    try:
        return HookEvent(name)
    except ValueError:
        raise BadInput(f"hooks.{name}: no such event; known: {', '.join(HookEvent)}") from None


def _group(entry: object, *, event: HookEvent, place: str) -> HookGroup:
    table = _table(entry, place=place, keys=GROUP_KEYS)
    matcher = table.get("matcher")
    if matcher is not None and not isinstance(matcher, str):
        raise BadInput(f"{place}.matcher must be a text, not {matcher!r}")
    if "hooks" not in table:
        raise BadInput(f"{place} lists no hooks; add hooks = [{{type = 'command', command = '…'}}]")
    listed = _list(table["hooks"], place=f"{place}.hooks", of="commands")
    return HookGroup(
        event=event,
        matcher=_matcher(matcher, place=place),
        hooks=tuple(_command(hook, place=f"{place}.hooks[{index}]") for index, hook in enumerate(listed)),
    )


def _matcher(pattern: str | None, *, place: str) -> Matcher:
    try:
        return Matcher(pattern)
    except BadInput as error:
        raise BadInput(f"{place}.matcher: {error}") from None


def _command(entry: object, *, place: str) -> CommandHook:
    table = _table(entry, place=place, keys=HOOK_KEYS)
    if table.get("type") != "command":
        raise BadInput(f"{place}.type must be 'command', not {table.get('type')!r}")
    return CommandHook(
        command=_line(table.get("command"), place=f"{place}.command"),
        timeout_s=_timeout(table.get("timeout", int(DEFAULT_TIMEOUT_S)), place=f"{place}.timeout"),
        name=place,
    )


def _line(command: object, *, place: str) -> str | tuple[str, ...]:
    if isinstance(command, str) and command.strip():
        return command
    if isinstance(command, list) and command and command[0] and all(isinstance(part, str) for part in command):
        return tuple(command)
    raise BadInput(f"{place} must be a line for the shell, or a list of a program and its arguments, not {command!r}")


def _timeout(value: object, *, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LONGEST_TIMEOUT_S:
        raise BadInput(f"{place} must be a whole number of seconds up to {LONGEST_TIMEOUT_S}, not {value!r}")
    return float(max(value, 1))


def _list(value: object, *, place: str, of: str) -> list[object]:
    if not isinstance(value, list):
        raise BadInput(f"{place} must be a list of {of}, not {value!r}")
    return value


def _table(value: object, *, place: str, keys: tuple[str, ...]) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise BadInput(f"{place} must be a table, not {value!r}")
    unknown = sorted(str(key) for key in value if key not in keys)
    if unknown:
        raise BadInput(f"{place}: nothing is called {unknown[0]!r} here; known: {', '.join(keys)}")
    return value
