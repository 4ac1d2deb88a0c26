"""What of the user's demands a model can still act on, judged by nothing but one request.

Closed book: no store, no recall, no earlier request. A demand is kept if its needle stands where the model is told that it
holds: under Objective or Active Memory of the state block, or in a message of the user after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from threadkeep.compaction import Section
from threadkeep.compaction.state_text import HEADINGS, TAG
from threadkeep.demo.session import Demand
from threadkeep.tokens import estimate_bytes

CLEARED = "[old tool output cleared]"


class Older(StrEnum):
    """What became of a value that the user took back."""

    GONE = "no longer in the window"
    INACTIVE = "listed under Inactive Changes"
    BESIDE = "active with the newer one after it"
    ALONE = "active alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """A request as the demands are judged by it: lines that hold, lines that no longer do, and the user's own messages."""

    objective: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    inactive: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()

    @property
    def state(self) -> tuple[str, ...]:
        return (*self.objective, *self.active)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A demand and what a request makes of it. `where` is the active place that holds it, None if none does."""

    demand: Demand
    where: str | None
    older: Older | None

    @property
    def holds(self) -> bool:
        return self.where is not None and self.older is not Older.ALONE


class _Part(msgspec.Struct):
    text: str = ""


class _Item(msgspec.Struct):
    type: str = ""
    role: str = ""
    content: list[_Part] = []


def judge(demands: Sequence[Demand], items: Sequence[bytes]) -> list[Judged]:
    """Return what the last of a session's requests, given as its items, makes of each demand."""
    book = open_book(items)
    return [Judged(demand=demand, where=_place(demand, book), older=_older(demand, book)) for demand in demands]


def open_book(items: Sequence[bytes]) -> Book:
    """Return the request of these items; what stands before the state block is not counted as the user's own message."""
    book = Book()
    messages: list[str] = []
    for raw in items:
        item = msgspec.json.decode(raw, type=_Item)
        text = "\n".join(part.text for part in item.content)
        if f"<{TAG}>\n" in text and f"\n</{TAG}>" in text:
            sections = _sections(text.partition(f"<{TAG}>\n")[2].rpartition(f"\n</{TAG}>")[0])
            book = Book(
                objective=sections[Section.OBJECTIVE], active=sections[Section.ACTIVE], inactive=sections[Section.INACTIVE]
            )
            messages = []
        elif item.role == "user":
            messages.append(text)
    return Book(objective=book.objective, active=book.active, inactive=book.inactive, messages=tuple(messages))


def newest_only(history: Sequence[bytes], *, budget_tokens: int) -> list[bytes]:
    """Return the newest items that fit: what an agent sees whose host lets the oldest fall out of the window."""
    kept: list[bytes] = []
    room = budget_tokens
    for item in reversed(history):
        room -= estimate_bytes(len(item) + 1)
        if room < 0:
            break
        kept.append(item)
    return kept[::-1]


def outputs_cleared(history: Sequence[bytes], *, budget_tokens: int) -> list[bytes]:
    """Return the history with old tool outputs cleared until it fits; if that is not enough, the oldest items go too."""
    items = list(history)
    over = sum(estimate_bytes(len(item) + 1) for item in items) - budget_tokens
    for place, item in enumerate(items):
        if over <= 0:
            break
        if b'"type":"function_call_output"' in item[:40]:
            items[place] = msgspec.json.encode(msgspec.json.decode(item) | {"output": CLEARED})
            over -= estimate_bytes(len(item) + 1) - estimate_bytes(len(items[place]) + 1)
    return newest_only(items, budget_tokens=budget_tokens)


def user_messages_only(history: Sequence[bytes], *, budget_tokens: int) -> list[bytes]:
    """Return the newest messages of the user that fit, and nothing else: no work, but all the room for what was demanded."""
    spoken = [item for item in history if msgspec.json.decode(item, type=_Item).role == "user"]
    return newest_only(spoken, budget_tokens=budget_tokens)


def _sections(block: str) -> dict[Section, tuple[str, ...]]:
    headings = {heading: section for section, heading in HEADINGS.items()}
    lines: dict[Section, list[str]] = {section: [] for section in Section}
    section: Section | None = None
    for line in block.splitlines():
        section = headings.get(line, section)
        if section is not None and line not in headings:
            lines[section].append(line)
    return {section: tuple(found) for section, found in lines.items()}


def _place(demand: Demand, book: Book) -> str | None:
    places = (("objective", book.objective), ("active memory", book.active), ("recent message", book.messages))
    return next((name for name, lines in places if any(demand.needle in line for line in lines)), None)


def _older(demand: Demand, book: Book) -> Older | None:
    """Return where the value stands that this demand took back; None where it took nothing back."""
    stale = demand.stale
    if stale is None:
        return None
    # The state tells messages in the order they were sent, and those behind it come later: what the user says later decides.
    told = (*book.state, *book.messages)
    corrected = max((place for place, text in enumerate(told) if demand.needle in text), default=-1)
    if any(stale in text for text in told[corrected + 1 :]):
        return Older.ALONE
    if any(stale in text for text in told):
        return Older.BESIDE
    return Older.INACTIVE if any(stale in line for line in book.inactive) else Older.GONE
