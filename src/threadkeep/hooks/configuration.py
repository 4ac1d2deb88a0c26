"""Hooks as a configuration file writes them, in Codex's shape: events, groups with a matcher, and in each a list of commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from threadkeep.errors import BadInput
from threadkeep.hooks.facts import HookEvent
from threadkeep.hooks.hook import DEFAULT_TIMEOUT_S, CommandHook, HookGroup, Hooks
from threadkeep.hooks.matching import Matcher

GROUP_KEYS: Final = ("hooks", "matcher")
HOOK_KEYS: Final = ("command", "timeout", "type")
LONGEST_TIMEOUT_S: Final = 86_400


def hooks_from(table: Mapping[str, object]) -> Hooks:
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
