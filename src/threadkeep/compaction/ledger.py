"""The session state: a ledger of entries in five sections.

Entries have ids, sources, speakers, ages and pins. A ledger is a value: merging makes a new one (`threadkeep.compaction.merge`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from threadkeep.thread import Pointer, parse_pointer


class Section(StrEnum):
    OBJECTIVE = "objective"
    ACTIVE = "active"
    INACTIVE = "inactive"
    HANDOFF = "handoff"
    EVIDENCE = "evidence"


# What stands here binds; the rest tells.
BINDING = (Section.OBJECTIVE, Section.ACTIVE)


class Speaker(StrEnum):
    """Whose words an entry is. Only a user's words bind."""

    USER = "user"
    MODEL = "model"
    COMPUTED = "computed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A later statement that may have changed an entry, and where it was said.

    `proven` means that a person said it there; otherwise it is only what a draft made of it.
    """

    text: str
    source: Pointer
    proven: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One thing the session must remember.

    `claim` on an active entry makes it contested: both stand side by side. On an inactive one it is what replaced it.
    """

    id: str
    section: Section
    text: str
    sources: tuple[Pointer, ...]
    speaker: Speaker
    born: int
    pinned: bool = False
    claim: Claim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Brevity:
    """How a state that is over its budget is told in fewer words. No entry leaves the ledger by it.

    Attributes:
        passing: Entries shown by their pointers alone: messages that only tell, and demand nothing (`passing`).
        in_view: Entries, and claims beside entries, whose words stand in a message that the window keeps whole.
        bare: Whether a user's words that stand there whole go without their pointers: there is no more to see behind them.
    """

    passing: frozenset[str] = frozenset()
    in_view: frozenset[str] = frozenset()
    bare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Every entry, in the order they were made.

    Attributes:
        age: How many compactions it has lived through.
        archived: How many entries have left it for the archive.
        brevity: How it is told in fewer words; None where the budget allows all of them.
        behind: Entries that need no words in the state: messages behind it tell them, and all that speaks against them.
    """

    entries: tuple[LedgerEntry, ...] = ()
    age: int = 0
    next_number: int = 1
    archived: int = 0
    brevity: Brevity | None = None
    behind: frozenset[str] = frozenset()

    def section(self, section: Section) -> tuple[LedgerEntry, ...]:
        return tuple(entry for entry in self.entries if entry.section is section)

    def find(self, entry_id: str) -> LedgerEntry | None:
        return next((entry for entry in self.entries if entry.id == entry_id), None)

    def with_entry(self, entry: LedgerEntry) -> Ledger:
        """Return a ledger where `entry` stands in place of the one with its id."""
        return replace(self, entries=tuple(entry if old.id == entry.id else old for old in self.entries))

    def without(self, ids: Iterable[str]) -> Ledger:
        """Return a ledger whose entries `ids` have gone to the archive; what is pinned stays, whoever names it."""
        gone = set(ids)
        kept = tuple(entry for entry in self.entries if entry.pinned or entry.id not in gone)
        return replace(self, entries=kept, archived=self.archived + len(self.entries) - len(kept))


class _StoredClaim(msgspec.Struct, omit_defaults=True):
    text: str
    source: str
    proven: bool = True


class _StoredEntry(msgspec.Struct, omit_defaults=True):
    id: str
    section: Section
    text: str
    sources: list[str]
    speaker: Speaker
    born: int = 0
    pinned: bool = False
    claim: _StoredClaim | None = None


class _StoredBrevity(msgspec.Struct, omit_defaults=True):
    passing: list[str] = []
    in_view: list[str] = []
    bare: bool = False


class _StoredLedger(msgspec.Struct, omit_defaults=True):
    entries: list[_StoredEntry]
    age: int
    next_number: int
    archived: int = 0
    brevity: _StoredBrevity | None = None
    behind: list[str] = []
    v: int = 1


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
                claim=_stored_claim(entry.claim) if entry.claim else None,
            )
            for entry in ledger.entries
        ],
        age=ledger.age,
        next_number=ledger.next_number,
        archived=ledger.archived,
        brevity=_stored_brevity(ledger.brevity) if ledger.brevity else None,
        behind=sorted(ledger.behind),
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
                claim=_loaded_claim(entry.claim) if entry.claim else None,
            )
            for entry in stored.entries
        ),
        age=stored.age,
        next_number=stored.next_number,
        archived=stored.archived,
        brevity=_loaded_brevity(stored.brevity) if stored.brevity else None,
        behind=frozenset(stored.behind),
    )


def _stored_brevity(brevity: Brevity) -> _StoredBrevity:
    return _StoredBrevity(passing=sorted(brevity.passing), in_view=sorted(brevity.in_view), bare=brevity.bare)


def _loaded_brevity(stored: _StoredBrevity) -> Brevity:
    return Brevity(passing=frozenset(stored.passing), in_view=frozenset(stored.in_view), bare=stored.bare)


def _stored_claim(claim: Claim) -> _StoredClaim:
    return _StoredClaim(text=claim.text, source=str(claim.source), proven=claim.proven)


def _loaded_claim(stored: _StoredClaim) -> Claim:
    return Claim(text=stored.text, source=parse_pointer(stored.source), proven=stored.proven)
