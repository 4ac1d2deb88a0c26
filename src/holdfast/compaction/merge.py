"""Operations applied to the ledger, in code.

Nothing active leaves unless an operation names it, and a user's words give way only to a later user's words that code can tie to
them (`ties`). Where the tie is loose, the older entry stays and the claim stands beside it. Whose words they are is looked up: an
operation that puts into a user's mouth what no message of theirs holds is taken for the draft's own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import assert_never

from holdfast.compaction.ledger import Claim, Ledger, LedgerEntry, Section, Speaker
from holdfast.compaction.operations import Add, Hear, Operation, Redraft, Refresh, Supersede, Update
from holdfast.compaction.statements import shortened, statements
from holdfast.compaction.ties import Tie, terms, tie
from holdfast.thread import Pointer

BINDING = (Section.OBJECTIVE, Section.ACTIVE)
# Where lines are computed: what the session is for, and what gave way, nobody can compute.
COMPUTED = (Section.ACTIVE, Section.HANDOFF, Section.EVIDENCE)
SOURCES_KEPT = 6
_STOPS = ".!…。！ "
_QUOTES = ",;:\"'“”‘’()"


def merge(ledger: Ledger, operations: Sequence[Operation], *, spoken: Mapping[Pointer, str]) -> Ledger:
    """Return the ledger after `operations`, one compaction older.

    `spoken` holds every message of a person that the compaction can see; an operation that rests on anything else
    changes nothing a user said, and adds nothing in a user's name.
    """
    return amend(replace(ledger, age=ledger.age + 1), operations, spoken=spoken)


def amend(ledger: Ledger, operations: Sequence[Operation], *, spoken: Mapping[Pointer, str]) -> Ledger:
    """Return the ledger after `operations`, of the same age: the same compaction goes on."""
    work = _Merge(ledger, spoken)
    # What a draft says about its own older entries comes first: what it adds is not for it to take away again.
    for operation in sorted(operations, key=lambda operation: not isinstance(operation, Update | Redraft)):
        match operation:
            case Add():
                work.add(operation)
            case Hear():
                work.hear(operation)
            case Supersede():
                work.supersede(operation)
            case Refresh():
                work.refresh(operation)
            case Update():
                work.update(operation)
            case Redraft():
                work.redraft(operation)
            case _:
                assert_never(operation)
    return work.ledger()


class _Merge:
    """A ledger being changed, with an index from telling terms to the user's active entries."""

    def __init__(self, ledger: Ledger, spoken: Mapping[Pointer, str]) -> None:
        self._base = ledger
        self._spoken = spoken
        self._statements: dict[Pointer, dict[str, str]] = {}
        self._entries: dict[str, LedgerEntry] = {entry.id: entry for entry in ledger.entries}
        self._next = ledger.next_number
        self._by_text: dict[tuple[Section, str], str] = {}
        self._by_term: defaultdict[str, set[str]] = defaultdict(set)
        for entry in ledger.entries:
            self._index(entry)

    def ledger(self) -> Ledger:
        return replace(self._base, entries=tuple(self._entries.values()), next_number=self._next)

    def add(self, operation: Add) -> None:
        if operation.speaker is Speaker.USER and not self._said(operation.text, source=operation.source):
            operation = replace(operation, speaker=Speaker.MODEL)
        if operation.speaker is Speaker.USER:
            self.set_aside_what(operation.text, source=operation.source)
        known = self._told(operation)
        if known is not None:
            self._entries[known.id] = replace(known, sources=_merged_sources(known.sources, operation.source))
            return
        entry = LedgerEntry(
            id=str(self._next),
            section=operation.section,
            text=operation.text,
            sources=(operation.source,),
            speaker=operation.speaker,
            born=self._base.age,
        )
        self._next += 1
        self._entries[entry.id] = entry
        self._index(entry)

    def _told(self, operation: Add) -> LedgerEntry | None:
        """Return the entry that says the same already, where it still says it; what binds is told once in all."""
        for section in BINDING if operation.section in BINDING else (operation.section,):
            found = self._entries.get(self._by_text.get((section, normalised(operation.text)), ""))
            if found is not None and found.section is section and found.speaker is operation.speaker:
                return found
        return None

    def set_aside_what(self, text: str, *, source: Pointer) -> None:
        """Set aside, or contest, every active entry of a user that this later statement speaks about."""
        for entry_id in sorted(self._candidates(text), key=int):
            entry = self._entries[entry_id]
            if entry.section in BINDING and not entry.pinned and _is_later(source, entry):
                self._weigh(entry, Claim(text=text, source=source))

    def hear(self, operation: Hear) -> None:
        if self._said(operation.text, source=operation.source):
            self.set_aside_what(operation.text, source=operation.source)

    def supersede(self, operation: Supersede) -> None:
        entry = self._entries.get(operation.entry_id)
        if entry is None or entry.section not in BINDING or entry.pinned or not operation.claim.strip():
            return
        if entry.speaker is Speaker.COMPUTED:
            return
        if entry.speaker is Speaker.MODEL:
            self._retire(entry, Claim(text=shortened(operation.claim), source=operation.by, proven=False))
            return
        said = self._proof(operation, entry) if _is_later(operation.by, entry) else None
        if said is not None:
            self._weigh(entry, Claim(text=said, source=operation.by), at_least=Tie.RELATED)
        elif entry.claim is None:
            self._contest(entry, Claim(text=shortened(operation.claim), source=operation.by, proven=False))

    def _proof(self, operation: Supersede, entry: LedgerEntry) -> str | None:
        """Return the user's statement that an operation rests on, whole: half a sentence may say the opposite of all of it.

        Quoting a whole statement is proof enough that it was said; of a part, only where that statement is about the entry.
        """
        said = self._statements_at(operation.by)
        whole = said.get(normalised(operation.claim))
        if whole is not None:
            return whole
        quoted = " ".join(operation.claim.split())
        holding = (statement for statement in said.values() if quoted in statement)
        return next((statement for statement in holding if tie(entry.text, statement) is not Tie.NONE), None)

    def _said(self, text: str, *, source: Pointer) -> bool:
        return normalised(text) in self._statements_at(source)

    def _statements_at(self, source: Pointer) -> dict[str, str]:
        """Return what a person said in a message, statement by statement; nothing where no person spoke."""
        if source not in self._statements:
            found = statements(self._spoken.get(source, ""))
            self._statements[source] = {normalised(statement): statement for statement in found}
        return self._statements[source]

    def refresh(self, operation: Refresh) -> None:
        if operation.section not in COMPUTED:
            return
        stale = [
            entry.id
            for entry in self._entries.values()
            if entry.section is operation.section and entry.speaker is Speaker.COMPUTED
        ]
        for entry_id in stale:
            del self._entries[entry_id]
        for number, (text, source) in enumerate(operation.lines, start=1):
            entry = LedgerEntry(
                id=f"{operation.section.value[0]}{number}",
                section=operation.section,
                text=text,
                sources=(source,) if source else (),
                speaker=Speaker.COMPUTED,
                born=self._base.age,
            )
            self._entries[entry.id] = entry

    def update(self, operation: Update) -> None:
        entry = self._entries.get(operation.entry_id)
        if entry is not None and entry.speaker is Speaker.MODEL and not entry.pinned:
            self._entries[entry.id] = replace(entry, text=operation.text, sources=(operation.source,))

    def redraft(self, operation: Redraft) -> None:
        if operation.section in BINDING:
            return
        for entry in list(self._entries.values()):
            drafted = entry.section is operation.section and entry.speaker is Speaker.MODEL and not entry.pinned
            if drafted and entry.id not in operation.kept:
                del self._entries[entry.id]

    def _weigh(self, entry: LedgerEntry, claim: Claim, *, at_least: Tie = Tie.NONE) -> None:
        found = tie(entry.text, claim.text)
        if found is Tie.NONE:
            found = at_least
        match found:
            case Tie.REPLACES:
                self._retire(entry, claim)
            case Tie.RELATED:
                self._contest(entry, claim)
            case Tie.NONE:
                return
            case _:
                assert_never(found)

    def _retire(self, entry: LedgerEntry, claim: Claim) -> None:
        self._entries[entry.id] = replace(entry, section=Section.INACTIVE, claim=claim)

    def _contest(self, entry: LedgerEntry, claim: Claim) -> None:
        """Put a claim beside an entry; one that names more of its values is not displaced by one that names fewer."""
        if entry.claim is None or _names(claim, entry) >= _names(entry.claim, entry):
            self._entries[entry.id] = replace(entry, claim=claim)

    def _candidates(self, text: str) -> set[str]:
        about = terms(text)
        found: set[str] = set()
        for term in (*about.values, *about.words):
            found |= self._by_term.get(term, set())
        return found

    def _index(self, entry: LedgerEntry) -> None:
        self._by_text[(entry.section, normalised(entry.text))] = entry.id
        if entry.speaker is Speaker.USER and entry.section in BINDING:
            about = terms(entry.text)
            for term in (*about.values, *about.words):
                self._by_term[term].add(entry.id)


@lru_cache(maxsize=16_384)
def normalised(text: str) -> str:
    """Return what two tellings of the same sentence share: its words in any case, its signs exactly, no full stop."""
    words = (word.casefold() if word.strip(_QUOTES).isalpha() else word for word in text.rstrip(_STOPS).split())
    return " ".join(words) or text


def _names(claim: Claim, entry: LedgerEntry) -> int:
    return len(terms(claim.text).values & terms(entry.text).values)


def _is_later(source: Pointer, entry: LedgerEntry) -> bool:
    return all(source.ordinal > earlier.ordinal for earlier in entry.sources)


def _merged_sources(sources: tuple[Pointer, ...], new: Pointer) -> tuple[Pointer, ...]:
    """Return the sources with `new`: the first telling and the newest few."""
    if new in sources:
        return sources
    merged = (*sources, new)
    return merged if len(merged) <= SOURCES_KEPT else (merged[0], *merged[-(SOURCES_KEPT - 1) :])
