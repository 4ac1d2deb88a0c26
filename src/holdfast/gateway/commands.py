"""What a person says to the gateway itself, in the middle of a conversation with a model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast, get_args

from holdfast.items import ItemKind, Role, View

Verb = Literal["compact", "status", "undo", "recall", "help"]
VERBS = frozenset(get_args(Verb))

# Ends whatever the gateway says by itself: a client that drops the command may keep the answer to it.
SIGNATURE = "(Said by holdfast; the model never sees it.)"

# A host that knows the command as one of its own templates names it in an element, and its arguments in another.
_named = re.compile(r"^<command-name>(\S+)</command-name>", re.MULTILINE)
_arguments = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandNames:
    """The first words that address the gateway: those that compact at once, and those that are followed by what to do."""

    compact: tuple[str, ...] = ("/compact", "/codex-compact")
    control: tuple[str, ...] = ("/holdfast",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What the gateway is asked to do; `argument` is the focus, the question, or the word that was not understood."""

    verb: Verb
    argument: str | None = None


def command_in(view: View, names: CommandNames) -> Command | None:
    """Return the command a message is, if it is one: its whole first word must be a command's name.

    Hosts put text of their own around what was typed; that is not looked at. Some clients hand over a line in quotes.
    """
    if view.kind is not ItemKind.MESSAGE or view.role is not Role.USER:
        return None
    templated = _templated(view.text, names) if "<command-name>" in view.text else None
    if templated is not None:
        return templated
    return _spoken(view.said, names) if view.by_person else None


def _spoken(said: str, names: CommandNames) -> Command | None:
    text = said.strip()
    if len(text) > 1 and text[0] == text[-1] == '"' and text.count('"') == 2:
        text = text[1:-1].strip()
    first = text.split(None, 1)[0] if text else ""
    return _command(first, text[len(first) :].strip(), names)


def _templated(text: str, names: CommandNames) -> Command | None:
    """Return the command a host's own template is called by. `/compact` is left out: that one is the host's."""
    found = _named.search(text)
    if found is None or found[1] == "/compact":
        return None
    arguments = _arguments.search(text)
    return _command(found[1], arguments[1].strip() if arguments else "", names)


def _command(first: str, rest: str, names: CommandNames) -> Command | None:
    if first in names.compact:
        return Command(verb="compact", argument=rest or None)
    if first not in names.control:
        return None
    verb, *argument = rest.split(None, 1)[:2] or ["help"]
    if verb in VERBS:
        return Command(verb=cast(Verb, verb), argument=argument[0].strip() if argument else None)
    return Command(verb="help", argument=verb)


def signed(text: str) -> str:
    """Return what the gateway says by itself, told apart from what a model says."""
    return f"{text}\n\n{SIGNATURE}"


def is_signed(view: View) -> bool:
    """Whether a message in the assistant's role is the gateway's own."""
    return view.kind is ItemKind.MESSAGE and view.role is Role.ASSISTANT and view.text.rstrip().endswith(SIGNATURE)


def asides(commands: Iterable[bool], answers: Iterable[bool], signatures: Iterable[bool]) -> list[bool]:
    """Return, for each item, whether it was said between a person and the gateway: a command, or the answer to it.

    Decided by content alone, so that a history a client resends to a gateway that never saw it comes out the same.

    Args:
        commands: For each item, whether it is a command.
        answers: For each item, whether it is a message of the assistant's.
        signatures: For each item, whether the gateway signed it.
    """
    found: list[bool] = []
    before = False
    for command, answer, own in zip(commands, answers, signatures, strict=True):
        before = command or (answer and before)
        found.append(before or own)
    return found
