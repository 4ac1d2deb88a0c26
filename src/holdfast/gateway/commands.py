"""What a person says to the gateway itself, in the middle of a conversation with a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.items import ItemKind, Role, View

_compact = re.compile(r"\s*/(?:compact|codex-compact)(?:\s+(?P<focus>\S.*?))?\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactCommand:
    """`/compact [focus]`: compact this conversation now."""

    focus: str | None


def command_in(view: View) -> CompactCommand | None:
    """Return the command a message is, if it is one: its whole first word must be the command's name."""
    if not view.by_person:
        return None
    match = _compact.fullmatch(view.said)
    return CompactCommand(focus=match["focus"]) if match else None


def asides(views: Sequence[View]) -> list[bool]:
    """Return, for each item, whether it was said between a person and the gateway: a command, or the answer to it.

    Decided by content alone, so that a history a client resends to a gateway that never saw it comes out the same.
    """
    found: list[bool] = []
    for view in views:
        answer = view.kind is ItemKind.MESSAGE and view.role is Role.ASSISTANT
        found.append(command_in(view) is not None or (answer and bool(found) and found[-1]))
    return found
