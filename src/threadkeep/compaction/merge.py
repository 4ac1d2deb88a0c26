"""Operations applied to the ledger, in code.

Nothing active leaves unless an operation names it, and a user's words give way only to a later user's words that code can tie to
them (`ties`). Where the tie is loose, the older entry stays and the claim stands beside it. Whose words they are is looked up: an
operation that puts into a user's mouth what no message of theirs holds is taken for the draft's own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import assert_never

from threadkeep.compaction.changes import corrects, is_courtesy, only_asks, withdraws
from threadkeep.compaction.contests import brief, contested, tells, told_by
from threadkeep.compaction.hearing import Heard, normalised, says_again
from threadkeep.compaction.ledger import BINDING, Claim, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.operations import Add, Hear, Operation, Redraft, Refresh, Supersede, Update
from threadkeep.compaction.overlap import Statements, all_terms, terms_of
from threadkeep.compaction.restated import takes_its_place
from threadkeep.compaction.statements import is_paste, shortened
from threadkeep.compaction.ties import Terms, Tie, terms, tie
from threadkeep.compaction.updates import Newer, Older, may_change
from threadkeep.thread import Pointer

# Where lines are computed: what the session is for, and what gave way, nobody can compute.
COMPUTED = (Section.ACTIVE, Section.HANDOFF, Section.EVIDENCE)
SOURCES_KEPT = 6
# A statement that several entries are related to is about those that share so much of what the nearest shares with it.
NEAR_THE_BEST = 0.6


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
        self._heard = Heard(spoken)
        self._entries: dict[str, LedgerEntry] = {entry.id: entry for entry in ledger.entries}
        self._next = ledger.next_number
        self._by_text: dict[tuple[Section, str], str] = {}
        self._indexed: Statements[str] | None = None
        self._against: defaultdict[str, set[str]] | None = None
        for entry in ledger.entries:
            self._index(entry)

    def ledger(self) -> Ledger:
        return replace(self._base, entries=tuple(self._entries.values()), next_number=self._next)

    def add(self, operation: Add) -> None:
        if operation.speaker is Speaker.USER and not self._heard.said(operation.text, source=operation.source):
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
        if is_courtesy(text) or is_paste(text) or only_asks(text):
            return
        claim = Claim(text=self._heard.passage(text, source=source), source=source)
        about = terms(text)
        sharing = (self._entries[entry_id] for entry_id in sorted(self._said_by_users.sharing(terms_of(text)), key=int))
        older = {entry.id: entry for entry in sharing if self._may_give_way(entry, text, source)}
        found = [(entry, tie(entry.text, text)) for entry in older.values()]
        replaced = [entry for entry, how in found if how is Tie.REPLACES]
        placed = [entry for entry, how in found if how is not Tie.REPLACES and takes_its_place(text, entry.text)]
        if len(placed) == 1:
            replaced.extend(placed)
        related = self._nearest([entry for entry, how in found if how is Tie.RELATED and entry not in replaced], about)
        for entry in replaced:
            self._weigh(entry, claim, statement=text, how=Tie.REPLACES)
        for entry in related:
            self._weigh(entry, claim, statement=text, how=Tie.RELATED)
        if replaced or (related and not withdraws(text)):
            return
        # Tied to nothing by what it says, it may still be a change: then it stands beside what it most likely changes. What is
        # taken back is told by the words it begins with, and those it is tied by may only give the reason: both are candidates.
        for entry_id in self._likely_changed(text, source, sharing=older):
            self._contest(self._entries[entry_id], claim)

    def _nearest(self, related: list[LedgerEntry], about: Terms) -> list[LedgerEntry]:
        """Return those entries that a statement is most likely about: all that share about as much with it as the nearest."""
        weighed = [(self._said_by_users.likeness(about, terms(entry.text)).weight, entry) for entry in related]
        best = max((weight for weight, _ in weighed), default=0.0)
        return [entry for weight, entry in weighed if weight >= NEAR_THE_BEST * best]

    def _likely_changed(self, text: str, source: Pointer, *, sharing: Mapping[str, LedgerEntry]) -> list[str]:
        """Return what a statement may change; `sharing` is what shares a term with it and may give way."""

        def older(ids: Iterable[str]) -> list[Older]:
            entries = (self._entries[entry_id] for entry_id in sorted(ids, key=int))
            return [
                Older(key=entry.id, text=entry.text, message=entry.sources[-1].ordinal)
                for entry in entries
                if entry.speaker is Speaker.USER
                and entry.sources
                and (entry.id in sharing or self._may_give_way(entry, text, source))
            ]

        def last(messages: int) -> list[Older]:
            said = older(entry.id for entry in self._entries.values() if entry.speaker is Speaker.USER)
            newest = sorted({each.message for each in said})[-messages:]
            return [each for each in said if each.message in newest]

        around = self._heard.around(text, source=source)
        return may_change(Newer(text=text, around=around), among=self._said_by_users, older=older, last=last)

    def _may_give_way(self, entry: LedgerEntry, text: str, source: Pointer) -> bool:
        """Whether a statement comes after an entry that binds: in a later message, or further on in the same one."""
        if entry.section not in BINDING or entry.pinned:
            return False
        if is_paste(entry.text) or says_again(entry.text, text):
            return False
        if _is_later(source, entry):
            return True
        return entry.sources[-1:] == (source,) and self._heard.comes_first(entry.text, then=text, source=source)

    def hear(self, operation: Hear) -> None:
        """Let words take their effect that a user said in a message in view, or noted beside the conversation."""
        if self._heard.said(operation.text, source=operation.source) or self._noted(operation):
            self.set_aside_what(operation.text, source=operation.source)

    def _noted(self, operation: Hear) -> bool:
        ids = (self._by_text.get((section, normalised(operation.text)), "") for section in BINDING)
        entries = (entry for entry_id in ids if (entry := self._entries.get(entry_id)) is not None)
        return any(entry.speaker is Speaker.USER and operation.source in entry.sources for entry in entries)

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
            how = tie(entry.text, said)
            if how is Tie.NONE and _might_be_about(said, entry):
                how = Tie.RELATED
            self._weigh(entry, Claim(text=said, source=operation.by), statement=said, how=how)
        elif entry.claim is None:
            self._contest(entry, Claim(text=shortened(operation.claim), source=operation.by, proven=False))

    def _proof(self, operation: Supersede, entry: LedgerEntry) -> str | None:
        """Return the user's statement that an operation rests on, whole: half a sentence may say the opposite of all of it.

        Quoting a whole statement is proof enough that it was said; of a part, only where that statement is about the entry.
        """
        said = self._heard.statements_at(operation.by)
        whole = said.get(normalised(operation.claim))
        if whole is not None:
            return whole
        quoted = " ".join(operation.claim.split())
        holding = (statement for statement in said.values() if quoted in statement)
        return next((statement for statement in holding if tie(entry.text, statement) is not Tie.NONE), None)

    def refresh(self, operation: Refresh) -> None:
        if operation.section not in COMPUTED:
            return
        computed = [
            entry for entry in self._entries.values() if entry.section is operation.section and entry.speaker is Speaker.COMPUTED
        ]
        for entry in computed:
            if not entry.pinned:
                del self._entries[entry.id]
        # What a person pinned keeps its name and is told once.
        pinned = {entry.text for entry in computed if entry.pinned}
        names = (name for number in count(1) if (name := f"{operation.section.value[0]}{number}") not in self._entries)
        for text, source in operation.lines:
            if text in pinned:
                continue
            entry = LedgerEntry(
                id=next(names),
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

    def _weigh(self, entry: LedgerEntry, claim: Claim, *, statement: str, how: Tie) -> None:
        """Let a user's statement that stands to an entry like this take its effect on it."""
        match how:
            case Tie.REPLACES if _is_later(claim.source, entry):
                self._retire(entry, replace(claim, text=statement))
            case Tie.RELATED | Tie.REPLACES:
                self._contest(entry, claim)
            case Tie.NONE:
                pass
            case _:
                assert_never(how)

    def _retire(self, entry: LedgerEntry, claim: Claim) -> None:
        self._put_claimed(replace(entry, section=Section.INACTIVE, claim=claim))
        self._hand_on(entry, claim)

    def _contest(self, entry: LedgerEntry, claim: Claim) -> None:
        now = contested(entry, claim) if claim.proven else replace(entry, claim=claim)
        if now is not entry:
            self._put_claimed(now)
            self._hand_on(entry, claim)

    def _hand_on(self, entry: LedgerEntry, claim: Claim) -> None:
        """Bring what speaks against an entry also before those it speaks against itself: the last word is for all of them."""
        if entry.speaker is not Speaker.USER or not claim.proven:
            return
        ids = self._spoken_against[entry.text] | self._spoken_against[brief(entry.text)]
        for older in [self._entries[entry_id] for entry_id in ids - {entry.id} if entry_id in self._entries]:
            if older.claim is not None and tells(older.claim, entry.text):
                self._put_claimed(contested(older, claim))

    def _put_claimed(self, entry: LedgerEntry) -> None:
        self._entries[entry.id] = entry
        if self._against is not None:
            _note_claim(entry, self._against)

    @property
    def _spoken_against(self) -> defaultdict[str, set[str]]:
        """What a statement spoke against at any time, by its words as claims tell it; made when first asked for."""
        if self._against is None:
            self._against = defaultdict(set)
            for entry in self._entries.values():
                _note_claim(entry, self._against)
        return self._against

    def _index(self, entry: LedgerEntry) -> None:
        self._by_text[(entry.section, normalised(entry.text))] = entry.id
        if self._indexed is not None and entry.speaker is Speaker.USER and entry.section in BINDING:
            self._indexed.add(entry.id, entry.text)

    @property
    def _said_by_users(self) -> Statements[str]:
        """What users said, by its terms: made when first asked for, as many merges only add what was computed."""
        if self._indexed is None:
            self._indexed = Statements()
            for entry in self._entries.values():
                if entry.speaker is Speaker.USER and entry.section in BINDING:
                    self._indexed.add(entry.id, entry.text)
        return self._indexed


def _note_claim(entry: LedgerEntry, against: defaultdict[str, set[str]]) -> None:
    for statement in told_by(entry.claim) if entry.claim is not None else ():
        against[statement].add(entry.id)


def _might_be_about(said: str, entry: LedgerEntry) -> bool:
    """Whether a draft may lay a user's words beside an entry: they share a term, or are a change that names nothing."""
    if is_courtesy(said):
        return False
    return not all_terms(terms(said)).isdisjoint(all_terms(terms(entry.text))) or corrects(said) or withdraws(said)


def _is_later(source: Pointer, entry: LedgerEntry) -> bool:
    return all(source.ordinal > earlier.ordinal for earlier in entry.sources)


def _merged_sources(sources: tuple[Pointer, ...], new: Pointer) -> tuple[Pointer, ...]:
    """Return the sources with `new`: the first telling and the newest few."""
    if new in sources:
        return sources
    merged = tuple(sorted((*sources, new), key=lambda source: source.ordinal))
    return merged if len(merged) <= SOURCES_KEPT else (merged[0], *merged[-(SOURCES_KEPT - 1) :])
