"""The session state: a ledger of entries in five sections, and the journal they are made from.

A ledger is a value: each compaction makes a new one. What people said and what the agent found out is kept here in full, however
little of it a window had room for, so that a later window may show what a tight one left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

import msgspec

from threadkeep.compaction.journal import Journal
from threadkeep.threads import Pointer, parse_pointer


class Section(StrEnum):
    OBJECTIVE = "objective"
    ACTIVE = "active"
    INACTIVE = "inactive"
    HANDOFF = "handoff"
    EVIDENCE = "evidence"


# Entries of these sections bind; the others inform.
BINDING = (Section.OBJECTIVE, Section.ACTIVE)


class Speaker(StrEnum):
    """The author of an entry. Only a user's words bind.

    `AGENT` marks sentences quoted from the agent's answers, `MODEL` lines of a draft or of the agent's own note, `COMPUTED`
    lines that code derived from the records.
    """

    USER = "user"
    AGENT = "agent"
    MODEL = "model"
    COMPUTED = "computed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The words that retired an entry, and where a person said them."""

    text: str
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One thing the session must remember.

    `claim` holds the words that retired it; only an inactive entry has one. `noted` marks a note outside the conversation.
    """

    id: str
    section: Section
    text: str
    sources: tuple[Pointer, ...]
    speaker: Speaker
    born: int
    pinned: bool = False
    noted: bool = False
    claim: Claim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Every entry, in the order a state tells them.

    Attributes:
        age: The number of compactions so far.
        journal: The source of the computed entries.
        in_view: Entries that messages of the window tell, so that the state need not.
        brief: Entries that the state tells in part.
        left_out: Entries the state has no room for; recall finds them.
    """

    entries: tuple[LedgerEntry, ...] = ()
    age: int = 0
    next_number: int = 1
    journal: Journal = field(default_factory=Journal)
    in_view: frozenset[str] = frozenset()
    brief: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()

    def section(self, section: Section) -> tuple[LedgerEntry, ...]:
        return tuple(entry for entry in self.entries if entry.section is section)

    def find(self, entry_id: str) -> LedgerEntry | None:
        return next((entry for entry in self.entries if entry.id == entry_id), None)

    def with_entry(self, entry: LedgerEntry) -> Ledger:
        """Return a ledger where `entry` stands in place of the one with its id."""
        return replace(self, entries=tuple(entry if old.id == entry.id else old for old in self.entries))


class _StoredClaim(msgspec.Struct, omit_defaults=True):
    text: str
    source: str


class _StoredEntry(msgspec.Struct, omit_defaults=True):
    id: str
    section: Section
    text: str
    sources: list[str]
    speaker: Speaker
    born: int = 0
    pinned: bool = False
    noted: bool = False
    claim: _StoredClaim | None = None


class _StoredLedger(msgspec.Struct, omit_defaults=True):
    entries: list[_StoredEntry]
    age: int
    next_number: int
    journal: Journal = msgspec.field(default_factory=Journal)
    in_view: list[str] = []
    brief: list[str] = []
    left_out: list[str] = []
    v: int = 2


def dump_ledger(ledger: Ledger) -> bytes:
    """Return the ledger as a checkpoint stores it."""
    stored = _StoredLedger(
        entries=[
            _StoredEntry(
                id=entry.id,
                section=entry.section,
                text=entry.text,
                sources=[str(source) for source in entry.sources],
                speaker=entry.speaker,
                born=entry.born,
                pinned=entry.pinned,
                noted=entry.noted,
                claim=_StoredClaim(text=entry.claim.text, source=str(entry.claim.source)) if entry.claim else None,
            )
            for entry in ledger.entries
        ],
        age=ledger.age,
        next_number=ledger.next_number,
        journal=ledger.journal,
        in_view=sorted(ledger.in_view),
        brief=sorted(ledger.brief),
        left_out=sorted(ledger.left_out),
    )
    return msgspec.json.encode(stored)


def load_ledger(raw: bytes) -> Ledger:
    """Return the ledger a checkpoint stored."""
    stored = msgspec.json.decode(raw, type=_StoredLedger)
    return Ledger(
        entries=tuple(
            LedgerEntry(
                id=entry.id,
                section=entry.section,
                text=entry.text,
                sources=tuple(parse_pointer(source) for source in entry.sources),
                speaker=entry.speaker,
                born=entry.born,
                pinned=entry.pinned,
                noted=entry.noted,
                claim=Claim(text=entry.claim.text, source=parse_pointer(entry.claim.source)) if entry.claim else None,
            )
            for entry in stored.entries
        ),
        age=stored.age,
        next_number=stored.next_number,
        journal=stored.journal,
        in_view=frozenset(stored.in_view),
        brief=frozenset(stored.brief),
        left_out=frozenset(stored.left_out),
    )


# The operations of a draft on the ledger. Entries without an operation stay.


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """A new entry in the model's words."""

    section: Section
    text: str
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """Retire the entry `entry_id` for `quote` in the record `by`. For a user's entry, code checks the quotation."""

    entry_id: str
    by: Pointer
    quote: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Change the text of the model's own entry `entry_id`; other entries do not change."""

    entry_id: str
    text: str
    source: Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Redraft:
    """Remove the model's own entries in a section that does not bind, except `kept`."""

    section: Section
    kept: tuple[str, ...]


Operation = Add | Retire | Update | Redraft
