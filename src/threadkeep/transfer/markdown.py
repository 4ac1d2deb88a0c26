"""A thread as a document for people to read."""

from __future__ import annotations

import re

from threadkeep.items import ItemKind, Role, View

_ticks = re.compile(r"`{3,}")


def heading(title: str) -> str:
    return f"# {_one_line(title) or 'Untitled'}\n"


def turn_heading(number: int) -> str:
    return f"\n## Turn {number}\n"


def item_text(view: View) -> str:
    """Return an item as a paragraph; what tools were given and gave back in fences that they cannot leave."""
    match view.kind:
        case ItemKind.MESSAGE:
            return f"\n**{_speaker(view)}**{_images(view)}\n\n{view.text.strip()}\n"
        case ItemKind.CALL:
            return f"\n**call** `{_one_line(view.tool or '')}`\n\n{_fenced(view.text)}"
        case ItemKind.OUTPUT:
            return f"\n**output**{_images(view)}\n\n{_fenced(view.text)}" + (f"\n**user**\n\n{view.said}\n" if view.said else "")
        case ItemKind.REASONING:
            return f"\n*reasoning*\n\n{_quoted(view.text)}\n" if view.text.strip() else ""
        case ItemKind.OPAQUE:
            return "\n*(an item only its provider can read)*\n"


def checkpoint_text(*, tokens_before: int, tokens_after: int) -> str:
    return f"\n---\n\n*compacted here: {tokens_before:,} → {tokens_after:,} tokens*\n\n---\n"


def _speaker(view: View) -> str:
    if view.role is Role.USER and not view.by_person:
        return "host"
    return view.role.value


def _images(view: View) -> str:
    return f" *({view.images} image{'s' if view.images > 1 else ''})*" if view.images else ""


def _fenced(text: str) -> str:
    longest = max((len(match[0]) for match in _ticks.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.strip().splitlines())


def _one_line(text: str) -> str:
    return " ".join(text.split())
