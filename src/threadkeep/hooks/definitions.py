"""Hooks as values: what runs, on which event, for how long at most, and how a configuration file writes them.

A configuration has Codex's shape: events, groups with a matcher, and in each group a list of commands.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec

from threadkeep.errors import InvalidSetting
from threadkeep.hooks.events import Facts, HookEvent
from threadkeep.hooks.reply import HookReply

DEFAULT_TIMEOUT_S: Final = 600.0
LONGEST_TIMEOUT_S: Final = 86_400
EVERYTHING: Final = (None, "", "*")
WORDS: Final = re.compile(r"[A-Za-z0-9_|]+")

HookFunction = Callable[[Facts], HookReply | Awaitable[HookReply | None] | None]


@dataclass(frozen=True, slots=True)
class Matcher:
    """A pattern over triggers and sources.

    None, "" and "*" match everything; letters, digits, `_` and `|` alone are exact alternatives; anything else is a regular
    expression that is searched for in the subject.

    Raises:
        InvalidSetting: The pattern is not a valid regular expression.
    """

    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.pattern is None:
            return
        try:
            self.matches("")
        except (re.error, OverflowError, RecursionError) as error:
            text = f"{self.pattern!r} is no matcher: {error}; write manual|auto, *, or a regular expression"
            raise InvalidSetting("matcher", text) from None

    def matches(self, subject: str) -> bool:
        if self.pattern is None or self.pattern in EVERYTHING:
            return True
        if WORDS.fullmatch(self.pattern):
            return subject in self.pattern.split("|")
        return re.search(self.pattern, subject) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHook:
    """A program that reads the facts as JSON on its standard input.

    Attributes:
        command: A tuple is a program and its arguments, started as they are. A text is a line for the shell, `/bin/sh -c`: only
            for lines a person wrote into a configuration, never for one put together from data.
        name: Its name in reports; never the line itself, which may hold secrets.
    """

    command: str | tuple[str, ...]
    timeout_s: float = DEFAULT_TIMEOUT_S
    name: str = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionHook:
    """A function of this process. A coroutine function runs on the event loop, any other in a thread of its own.

    A thread cannot be stopped: after its timeout a plain function runs on, and nothing waits for it.
    """

    function: HookFunction
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)


Hook = CommandHook | FunctionHook


@dataclass(frozen=True, slots=True, kw_only=True)
class HookGroup:
    """Hooks that run together, on one event, where the matcher matches."""

    event: HookEvent
    matcher: Matcher
    hooks: tuple[Hook, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """All configured hooks, in order."""

    groups: tuple[HookGroup, ...] = ()

    def on(self, event: HookEvent, hook: Hook, *, matcher: str | None = None) -> Hooks:
        """Return these hooks and one more, which runs on `event` where `matcher` matches; see `Matcher`.

        Raises:
            InvalidSetting: The matcher is not a valid regular expression.
        """
        return self + Hooks(groups=(HookGroup(event=event, matcher=Matcher(matcher), hooks=(hook,)),))

    def __add__(self, other: Hooks) -> Hooks:
        return Hooks(groups=self.groups + other.groups)

    def has_any(self, event: HookEvent) -> bool:
        """Whether there is a hook for an event at all."""
        return any(group.event is event for group in self.groups)

    def select(self, facts: Facts) -> tuple[Hook, ...]:
        """Return the hooks to run, in configured order; one that is configured twice runs twice."""
        return tuple(
            hook
            for group in self.groups
            if group.event is facts.event and group.matcher.matches(facts.subject)
            for hook in group.hooks
        )


class _CommandTable(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["command"]
    command: str | tuple[str, ...]
    timeout: Annotated[int, msgspec.Meta(ge=0, le=LONGEST_TIMEOUT_S)] = int(DEFAULT_TIMEOUT_S)


class _GroupTable(msgspec.Struct, forbid_unknown_fields=True):
    hooks: tuple[_CommandTable, ...]
    matcher: str | None = None


def parse_hooks(table: Mapping[str, object]) -> Hooks:
    """Return the hooks of a `[hooks]` table.

    A command written as a text is a line for the shell; written as a list it is a program and its arguments. `timeout` is in
    whole seconds; the default is 600, and 0 counts as 1.

    Raises:
        InvalidSetting: The table is invalid; the message names the place.
    """
    groups: list[HookGroup] = []
    for name, listed in table.items():
        if name not in list(HookEvent):
            text = f"hooks.{name}: no such event; known: {', '.join(HookEvent)}"
            raise InvalidSetting(f"hooks.{name}", text)
        try:
            tables = msgspec.convert(listed, list[_GroupTable])
        except msgspec.ValidationError as error:
            problem, _, path = str(error).partition(" - at ")
            place = f"hooks.{name}{path.strip('`').removeprefix('$')}"
            raise InvalidSetting(place, f"{place}: {problem[:1].lower()}{problem[1:]}") from None
        places = [f"hooks.{name}[{index}]" for index in range(len(tables))]
        groups += [_make_group(HookEvent(name), group, place=place) for group, place in zip(tables, places, strict=True)]
    return Hooks(groups=tuple(groups))


def _make_group(event: HookEvent, table: _GroupTable, *, place: str) -> HookGroup:
    try:
        matcher = Matcher(table.matcher)
    except InvalidSetting as error:
        raise InvalidSetting(f"{place}.matcher", f"{place}.matcher: {error}") from None
    return HookGroup(
        event=event,
        matcher=matcher,
        hooks=tuple(_make_hook(hook, place=f"{place}.hooks[{index}]") for index, hook in enumerate(table.hooks)),
    )


def _make_hook(table: _CommandTable, *, place: str) -> CommandHook:
    first = table.command if isinstance(table.command, str) else "".join(table.command[:1])
    if not first.strip():
        text = f"{place}.command is empty; write a line for the shell, or a list of a program and its arguments"
        raise InvalidSetting(f"{place}.command", text)
    return CommandHook(command=table.command, timeout_s=float(max(table.timeout, 1)), name=place)
