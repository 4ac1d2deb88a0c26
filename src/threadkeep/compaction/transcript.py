"""Renders a span as text, for a model that does not have the conversation.

The text is data: state tags are neutralised, and each item names its speaker and record, so that an answer can cite it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from threadkeep.compaction.plan import Position
from threadkeep.compaction.secrets import mask_secrets
from threadkeep.compaction.state_text import TAG
from threadkeep.dialects.pictures import find_pictures
from threadkeep.items import ItemKind, Role, View
from threadkeep.tokens import estimate_text

# Tool outputs are cut first: recall has them, and their beginning and end tell the result.
OUTPUT_TOKENS = 600
MESSAGE_TOKENS = 6_000
_SHOWN_ARGUMENTS = ("cmd", "command", "path", "file_path", "query", "pattern")

_tag = re.compile(rf"<(/?\s*{TAG})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One item as text."""

    text: str
    tokens: int
    opens_turn: bool


def split_passages(positions: Sequence[Position], *, output_tokens: int = OUTPUT_TOKENS) -> list[Passage]:
    """Return the items of a span as text, oldest first; reasoning and opaque items are left out."""
    passages: list[Passage] = []
    for position in positions:
        text = _render_item(position, output_tokens=output_tokens)
        if text:
            opens = position.view.by_person and position.view.kind is ItemKind.MESSAGE
            passages.append(Passage(text=text, tokens=estimate_text(text), opens_turn=opens))
    return passages


def chunk_passages(told: Sequence[Passage], *, budget_tokens: int) -> list[list[Passage]]:
    """Return the passages in chunks within `budget_tokens`, oldest first, cut at the beginning of a turn if possible.

    A single passage larger than the budget is shortened in its middle; nothing else is left out.
    """
    if sum(passage.tokens for passage in told) <= budget_tokens:
        return [list(told)] if told else []
    chunks: list[list[Passage]] = [[]]
    held = 0
    for passage in told:
        fitted = passage if passage.tokens <= budget_tokens else _shorten_passage(passage, budget_tokens)
        if held and (held + fitted.tokens > budget_tokens or (fitted.opens_turn and held * 2 > budget_tokens)):
            chunks.append([])
            held = 0
        chunks[-1].append(fitted)
        held += fitted.tokens
    return [chunk for chunk in chunks if chunk]


def shorten_text(text: str, *, tokens: int) -> str:
    """Shorten a text to about `tokens` in its middle, with a mark that names the missing tokens."""
    over = estimate_text(text) - tokens
    if over <= 0:
        return text
    keep = max(8, len(text) * tokens // (tokens + over) // 2)
    return f"{text[:keep]}…{over} tokens left out…{text[-keep:]}"


def tell_call(view: View) -> str:
    """Return a call as a person would write it: the command if it has one, else its arguments."""
    try:
        arguments = msgspec.json.decode(view.text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return view.text
    for name in _SHOWN_ARGUMENTS if isinstance(arguments, dict) else ():
        value = arguments.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            return " ".join(value)
    return view.text


def untag(text: str) -> str:
    """Return text that cannot open or close a state block."""
    return _tag.sub(r"‹\1", text)


def make_harmless(text: str) -> str:
    """Return a transcript's text as another model may read it: no state block of its own, credentials masked."""
    return untag(mask_secrets(text))


def _render_pictures(position: Position) -> str:
    """Return a note on the pictures of an item, with their addresses if they have any."""
    if not position.view.images:
        return ""
    elsewhere = [str(picture) for picture in find_pictures(position.entry.item.raw) if picture.address]
    inline = position.view.images - len(elsewhere)
    return "".join(f" [{told}]" for told in ([f"{inline} image(s)"] if inline else []) + elsewhere)


def _shorten_passage(passage: Passage, budget_tokens: int) -> Passage:
    text = shorten_text(passage.text, tokens=budget_tokens)
    return Passage(text=text, tokens=estimate_text(text), opens_turn=passage.opens_turn)


def _render_item(position: Position, *, output_tokens: int) -> str | None:
    view = position.view
    name = f"#{position.entry.source.ordinal} " if position.entry.source else ""
    match view.kind:
        case ItemKind.MESSAGE:
            who = "user" if view.by_person else "context" if view.role is not Role.ASSISTANT else "assistant"
            text = view.said if view.by_person else view.text
            told = f"{shorten_text(text, tokens=MESSAGE_TOKENS)}{_render_pictures(position)}".strip()
            return f"[{name}{who}] {make_harmless(told)}" if told else None
        case ItemKind.CALL:
            return f"[{name}call {view.tool}] {make_harmless(shorten_text(tell_call(view), tokens=output_tokens))}"
        case ItemKind.OUTPUT:
            said = f"\n[{name}user] {make_harmless(view.said)}" if view.by_person else ""
            return f"[{name}output] {make_harmless(shorten_text(view.text, tokens=output_tokens))}{said}"
        case ItemKind.REASONING | ItemKind.OPAQUE:
            return None
