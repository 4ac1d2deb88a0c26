"""From what a reply says to operations on the ledger.

A reply decides about the model's own entries alone. Of a user's entry it may only say that it gave way, and has to quote the
later message of the user that says so; anything else it says about one comes to nothing. So no reply, however wrong, changes a
user's text, adds a sentence in a user's name, or takes one away.

- Retained, copied or unmentioned: nothing. A retain outweighs a withdrawal of the same entry in the same reply.
- What a user said, or part of it, told again as if new: nothing; it is there word for word.
- What was set aside and comes back without a user's word: nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from threadkeep.compaction.ledger import BINDING, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.merge import plain
from threadkeep.compaction.operations import Add, Operation, Redraft, Retire, Update
from threadkeep.compaction.reply.entry import is_nothing, read_entry
from threadkeep.compaction.reply.evidence import UsersWords
from threadkeep.compaction.reply.parsing import ParsedEntry, ParsedState, Verb
from threadkeep.thread import Pointer

# How many entries of the model's own may stand in a section. A full one takes no more until some are updated or set aside, so
# that no number of replies can crowd out what people said; inactive ones stay well under what `merge` keeps of them.
ROOM = {Section.OBJECTIVE: 4, Section.ACTIVE: 80, Section.INACTIVE: 8, Section.HANDOFF: 16, Section.EVIDENCE: 40}
# How many claims of one reply are looked into, and how many entries it may name loosely, by their text alone. Replies have a few
# dozen; one that loops or means harm has thousands, and each would be searched for in everything users said.
CLAIMS_WEIGHED = 600
TEXTS_MATCHED = 64
LEAST_MATCH_CHARS = 12
LEAST_SHARED_CHARS = 4
WITHDRAWN = "withdrawn"


def operations_from(
    parsed: ParsedState,
    *,
    ledger: Ledger,
    spoken: Mapping[Pointer, str],
    thread_id: str,
    records: Collection[Pointer] = (),
) -> list[Operation]:
    """Return what a reply changes in the ledger.

    `spoken` holds every message of a person that the compaction can see, `records` every record it can. A pointer to anything
    else is not taken over; an entry without one that resolves points at the newest record there is.
    """
    draft = _Draft(ledger, spoken=spoken, thread_id=thread_id, records=records)
    draft.retained = {
        entry_id for entries in parsed.sections.values() for e in entries if e.verb is Verb.RETAIN for entry_id in e.ids
    }
    for section in Section:
        for entry in parsed.sections.get(section, ()):
            draft.take(section, entry)
    return draft.operations(complete=parsed.complete)


def _own(ledger: Ledger, section: Section) -> list[LedgerEntry]:
    """Return the model's own entries in a section."""
    return [entry for entry in ledger.section(section) if entry.speaker is Speaker.MODEL]


class _Draft:
    """Operations being gathered from one reply."""

    def __init__(self, ledger: Ledger, *, spoken: Mapping[Pointer, str], thread_id: str, records: Collection[Pointer]) -> None:
        self.retained: set[str] = set()
        self._ledger = ledger
        self._entries = {entry.id: entry for entry in ledger.entries if entry.speaker in (Speaker.USER, Speaker.MODEL)}
        self._binding = [entry for entry in self._entries.values() if entry.section in BINDING]
        self._by_text: dict[str, LedgerEntry] = {}
        for entry in (*self._binding, *ledger.entries):
            self._by_text.setdefault(plain(entry.text), entry)
        told = [source for entry in ledger.entries for source in entry.sources]
        seen = [*records, *spoken]
        self._places = {place.ordinal: place for place in (*told, *seen)}
        self._newest = max(seen or told or [Pointer(thread_id, 0)], key=lambda place: place.ordinal)
        self._users = UsersWords(ledger, spoken)
        self._room = {section: most - len(_own(ledger, section)) for section, most in ROOM.items()}
        self._new: set[str] = set()
        self._handoff: list[Add] = []
        self._told_again: set[str] = set()
        self._decided: set[str] = set()
        self._found: list[Operation] = []
        self._claims_left = CLAIMS_WEIGHED
        self._matches_left = TEXTS_MATCHED

    def take(self, section: Section, entry: ParsedEntry) -> None:
        """Take one entry of the reply."""
        gone = entry.verb in (Verb.SUPERSEDE, Verb.WITHDRAW) or (section is Section.INACTIVE and entry.verb is None)
        targets = [self._entries[entry_id] for entry_id in entry.ids if entry_id in self._entries]
        if entry.text and entry.verb is None and not gone:
            # Small models number their entries themselves: a number whose entry speaks of something else names nothing.
            targets = [target for target in targets if _akin(entry.text, target.text)]
        if not targets and (match := self._match(entry, loosely=gone)):
            targets = [match]
        self._told_again.update(target.id for target in targets)
        if any(_is_copy(entry, target) for target in targets):
            return
        if gone:
            self._take_gone(entry, targets)
        elif entry.verb is Verb.UPDATE and targets:
            self._take_update(entry, targets)
        elif not targets:
            self._add(section, entry.text, entry)
        elif entry.verb is None and all(target.section is section for target in targets):
            for target in targets[:1]:
                self._revise(target, entry.text, entry)
        elif entry.verb is None:
            self._add(section, entry.text, entry)

    def operations(self, *, complete: bool) -> list[Operation]:
        """Return what was gathered. The handoff is drafted anew each time, unless its end may be missing."""
        standing = _own(self._ledger, Section.HANDOFF)
        kept = tuple(entry.id for entry in standing if entry.id in self._told_again)
        if complete and (self._handoff or kept):
            if len(kept) < len(standing):
                self._found.append(Redraft(section=Section.HANDOFF, kept=kept))
            room = ROOM[Section.HANDOFF] - len(kept)
        else:
            room = self._room[Section.HANDOFF]
        return [*self._found, *self._handoff[: max(0, room)]]

    def _take_gone(self, entry: ParsedEntry, targets: list[LedgerEntry]) -> None:
        for target in targets:
            self._set_aside(target, entry)

    def _take_update(self, entry: ParsedEntry, targets: list[LedgerEntry]) -> None:
        """Revise the first of the model's own entries that an update names, and let the others give way to it."""
        own = [target for target in targets if target.speaker is Speaker.MODEL]
        for target in targets:
            if target.speaker is Speaker.USER:
                self._set_aside(target, entry)
        if not own:
            return
        first = own[0]
        replaces = entry.claim and (not entry.text or plain(entry.text) in plain(first.text))
        text = entry.claim if replaces else f"{entry.text} → {entry.claim}" if entry.claim else entry.text
        self._revise(first, text, entry)
        for other in own[1:]:
            if text and self._may_go(other):
                self._decided.add(other.id)
                self._found.append(Retire(entry_id=other.id, by=self._place(entry), quote=text))

    def _may_go(self, target: LedgerEntry) -> bool:
        """Whether a reply may speak against an entry: it binds, no pin holds it, and the reply did not retain or name it yet."""
        named = target.id in self._decided or target.id in self.retained
        return target.section in BINDING and not target.pinned and not named

    def _set_aside(self, target: LedgerEntry, entry: ParsedEntry) -> None:
        if not self._may_go(target) or not self._weighs_another():
            return
        if target.speaker is Speaker.USER:
            self._put_to_the_test(target, entry)
            return
        self._decided.add(target.id)
        self._found.append(Retire(entry_id=target.id, by=self._place(entry), quote=entry.claim or WITHDRAWN))
        if entry.claim:
            self._add(target.section, entry.claim, entry)

    def _put_to_the_test(self, target: LedgerEntry, entry: ParsedEntry) -> None:
        """Retire a user's entry where the reply quotes a later message of the user."""
        if (heard := self._users.quoted_against(target, entry)) is not None:
            place, quote = heard
            self._decided.add(target.id)
            self._found.append(Retire(entry_id=target.id, by=place, quote=quote))

    def _revise(self, target: LedgerEntry, text: str, entry: ParsedEntry) -> None:
        if target.speaker is not Speaker.MODEL or target.pinned or target.id in self._decided or not text:
            return
        if plain(text) == plain(target.text) or not self._is_news(text):
            return
        self._decided.add(target.id)
        self._new.add(plain(text))
        self._found.append(Update(entry_id=target.id, text=text, source=self._place(entry)))

    def _add(self, section: Section, text: str, entry: ParsedEntry) -> None:
        """Add text of the model's own, unless it stands in the ledger or a user said it."""
        full = len(self._handoff) >= ROOM[section] if section is Section.HANDOFF else self._room[section] <= 0
        if full or is_nothing(text) or not self._is_news(text):
            return
        new = Add(section=section, text=text, source=self._place(entry))
        if section is Section.HANDOFF:
            self._handoff.append(new)
        else:
            self._room[section] -= 1
            self._found.append(new)
        self._new.add(plain(text))

    def _is_news(self, text: str) -> bool:
        """Whether neither the ledger nor this reply has the text yet, and no user said it."""
        known = plain(text) in self._by_text or plain(text) in self._new
        return not known and self._weighs_another() and not self._users.said(text)

    def _weighs_another(self) -> bool:
        self._claims_left -= 1
        return self._claims_left >= 0

    def _place(self, entry: ParsedEntry) -> Pointer:
        return next((self._places[ordinal] for ordinal in entry.pointers if ordinal in self._places), self._newest)

    def _match(self, entry: ParsedEntry, *, loosely: bool) -> LedgerEntry | None:
        """Return the entry a reply names by its text: the same words; loosely, part of them or the same exact values."""
        exact = self._by_text.get(plain(entry.text)) if entry.text else None
        if exact is not None:
            return self._entries.get(exact.id)
        if not loosely or not entry.text or self._matches_left <= 0:
            return None
        self._matches_left -= 1
        found = list(_alike(entry.text, self._binding))
        return found[0] if len(found) == 1 else None


def _is_copy(entry: ParsedEntry, target: LedgerEntry) -> bool:
    """Whether a reply only repeats an entry whose own words begin with what reads like a verb."""
    own = read_entry(target.text)
    return own is not None and own.verb is not None and (own.verb, own.text) == (entry.verb, entry.text)


def _akin(text: str, told: str) -> bool:
    """Whether two texts share a word of some length, or one is part of the other."""
    one, other = plain(text), plain(told)
    words = {word for word in one.split() if len(word) >= LEAST_SHARED_CHARS}
    return bool(words & set(other.split())) or _contains(one, other)


def _contains(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return f" {shorter} " in f" {longer} "


def _alike(text: str, entries: Iterable[LedgerEntry]) -> Iterator[LedgerEntry]:
    words = plain(text)
    for entry in entries:
        told = plain(entry.text)
        if min(len(words), len(told)) >= LEAST_MATCH_CHARS and _contains(words, told):
            yield entry
