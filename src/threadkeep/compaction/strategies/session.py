"""The session strategy: a model updates the ledger, and code checks the changes.

The model gets the state with its ids and the user's messages by number, on the thread's own prefix or as a transcript. Its answer
becomes operations; people's messages stay in the ledger whatever it answers. A reply changes only the model's own entries. It may
retire a user's entry only with a quotation of a later message of the user. Entries that it retains, copies or omits stay; a
retain outweighs a withdrawal in the same reply. An operation that names no entry of the ledger does nothing, and a user's words
repeated as a new entry are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from threadkeep.compaction.ledger import BINDING, Add, Ledger, LedgerEntry, Operation, Redraft, Retire, Section, Speaker, Update
from threadkeep.compaction.merge import LEAST_QUOTE_CHARS, apply, normalise_text
from threadkeep.compaction.strategies.instructions import choose_answer_tokens, write_session_instruction
from threadkeep.compaction.strategies.reply import ParsedEntry, ParsedState, Verb, is_nothing, parse_state, read_entry
from threadkeep.compaction.strategies.requests import DraftWriter, write_draft
from threadkeep.compaction.strategies.strategy import Brief, Draft, DraftRefused, Strategy, Summariser
from threadkeep.threads import Pointer

BLOCK_TOKENS = 4_000
# A longer block is no state: unchanged entries need not be written.
MOST_BLOCK_TOKENS = 20_000


async def draft(brief: Brief, summariser: Summariser) -> Draft:
    """Return the model's operations for the span.

    Raises:
        DraftRefused: The reply is no draft.
        ModelError: The request failed.
    """
    written = await write_draft(brief, summariser, lambda: _LedgerDraft(brief))
    return Draft(strategy=SESSION, stages=tuple(written.stages), ignored=written.ignored)


SESSION = Strategy(name="session", draft=draft)


def find_unknown_operations(parsed: ParsedState, ledger: Ledger) -> list[str]:
    """Return the operations of a reply that name no entry of the ledger, as written; they are ignored."""
    known = {entry.id for entry in ledger.entries} | {normalise_text(entry.text) for entry in ledger.entries}
    operations = [entry for entries in parsed.sections.values() for entry in entries if entry.verb]
    return [
        f"{entry.verb} {', '.join(entry.ids) or entry.text}"
        for entry in operations
        if not known & {*entry.ids, normalise_text(entry.text)}
    ]


class _LedgerDraft(DraftWriter):
    """A ledger that each reply updates."""

    transcript_has_state = False
    needs_its_end = False
    most_tokens = MOST_BLOCK_TOKENS

    def __init__(self, brief: Brief) -> None:
        self.stages: list[tuple[Operation, ...]] = []
        self.ignored = 0
        self._brief = brief
        self._ledger: Ledger = brief.ledger
        plan = brief.plan
        self._spoken = brief.spoken
        self._records = [seen.source for seen in plan.observed]

    def instruction(self) -> str:
        brief = self._brief
        # The state already shows messages from before the last compaction.
        user_entries = (entry for entry in brief.ledger.entries if entry.speaker is Speaker.USER)
        shown = {source for entry in user_entries for source in entry.sources}
        new = [seen for seen in brief.plan.spoken if seen.entry.source not in shown]
        target = choose_answer_tokens(brief.plan.tokens_before, most=BLOCK_TOKENS)
        return write_session_instruction(
            self._ledger, new, prompt=brief.goal.prompt, focus=brief.goal.focus, target_tokens=target
        )

    def is_draft(self, text: str) -> bool:
        state = parse_state(text)
        return state.found_block or state.complete

    def take(self, text: str) -> None:
        parsed = parse_state(text)
        if not parsed.sections:
            raise DraftRefused("unreadable")
        self.ignored += len(find_unknown_operations(parsed, self._ledger))
        operations = tuple(
            read_operations(
                parsed,
                ledger=self._ledger,
                spoken=self._spoken,
                thread_id=self._brief.thread_id,
                records=self._records,
            )
        )
        self._ledger = apply(self._ledger, operations, spoken=self._spoken)
        self.stages.append(operations)


# The most entries of the model's own in a section, so that no number of replies crowds out people's messages.
ROOM = {Section.OBJECTIVE: 4, Section.ACTIVE: 80, Section.INACTIVE: 8, Section.HANDOFF: 16, Section.EVIDENCE: 40}
# The most claims of one reply to check: each is searched in all messages of users.
CLAIMS_WEIGHED = 600
LEAST_SHARED_CHARS = 4
WITHDRAWN = "withdrawn"

_quoted = re.compile(r"\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|„([^“”\n]{1,400})[“”]|«([^»\n]{1,400})»|「([^」\n]{1,400})」")


def read_operations(
    parsed: ParsedState, *, ledger: Ledger, spoken: Mapping[Pointer, str], thread_id: str, records: Collection[Pointer] = ()
) -> list[Operation]:
    """Return the operations of a reply. Pointers to records outside `spoken`, `records` and the ledger are dropped.

    `spoken` holds every message of a person in the compaction's input. An entry without a pointer gets the newest one.
    """
    changes = _Changes(ledger, spoken, thread_id, records)
    for entries in parsed.sections.values():
        changes.retained.update(number for entry in entries if entry.verb is Verb.RETAIN for number in entry.ids)
    for section in Section:
        for entry in parsed.sections.get(section, ()):
            changes.take(section, entry)
    return changes.finish(complete=parsed.complete)


class _Changes:
    """The operations collected so far from one reply."""

    def __init__(self, ledger: Ledger, spoken: Mapping[Pointer, str], thread_id: str, records: Collection[Pointer]) -> None:
        self.retained: set[str] = set()
        self._entries = {entry.id: entry for entry in ledger.entries if entry.speaker in (Speaker.USER, Speaker.MODEL)}
        self._by_text: dict[str, LedgerEntry] = {}
        for entry in sorted(ledger.entries, key=lambda entry: entry.section not in BINDING):
            self._by_text.setdefault(normalise_text(entry.text), entry)
        cited, seen = [source for entry in ledger.entries for source in entry.sources], [*records, *spoken]
        self._records = {place.ordinal: place for place in (*cited, *seen)}
        self._newest = max(seen or cited or [Pointer(thread_id, 0)], key=lambda place: place.ordinal)
        self._messages = {place: f" {normalise_text(text)} " for place, text in spoken.items()}
        users = (f" {normalise_text(entry.text)} " for entry in ledger.entries if entry.speaker is Speaker.USER)
        self._user_text = "\n".join((*self._messages.values(), *users))
        own = [entry for entry in ledger.entries if entry.speaker is Speaker.MODEL]
        self._old_handoff = [entry for entry in own if entry.section is Section.HANDOFF]
        self._room = {section: most - sum(entry.section is section for entry in own) for section, most in ROOM.items()}
        self._room[Section.HANDOFF] = ROOM[Section.HANDOFF]
        self._known, self._repeated, self._decided = set(self._by_text), set[str](), set[str]()
        self._found: list[Operation] = []
        self._handoff: list[Operation] = []
        self._claims_left = CLAIMS_WEIGHED

    def take(self, section: Section, entry: ParsedEntry) -> None:
        """Add the operations of one entry of the reply."""
        gone = entry.verb in (Verb.SUPERSEDE, Verb.WITHDRAW) or (section is Section.INACTIVE and entry.verb is None)
        targets = self._find_targets(entry, gone=gone)
        self._repeated.update(target.id for target in targets)
        own = [read_entry(target.text) for target in targets]
        if any(each and each.verb and (each.verb, each.text) == (entry.verb, entry.text) for each in own):
            return  # A copy of an entry whose own words begin with what reads like a verb.
        if gone:
            for target in targets:
                self._set_aside(target, entry)
        elif entry.verb is Verb.UPDATE:
            self._take_update(entry, targets)
        elif entry.verb is None and targets and all(target.section is section for target in targets):
            self._revise(targets[0], entry.text, entry)
        elif entry.verb is None:
            self._add(section, entry.text, entry)

    def finish(self, *, complete: bool) -> list[Operation]:
        """Return the operations. A complete reply replaces the handoff section; a torn one does not."""
        kept = tuple(entry.id for entry in self._old_handoff if entry.id in self._repeated)
        is_anew = complete and bool(self._handoff or kept)
        if is_anew and len(kept) < len(self._old_handoff):
            self._found.append(Redraft(section=Section.HANDOFF, kept=kept))
        room = ROOM[Section.HANDOFF] - len(kept if is_anew else self._old_handoff)
        return [*self._found, *self._handoff[: max(0, room)]]

    def _find_targets(self, entry: ParsedEntry, *, gone: bool) -> list[LedgerEntry]:
        """Return the ledger's entries that an entry of the reply names by id or by the same words."""
        targets = [self._entries[number] for number in entry.ids if number in self._entries]
        if entry.text and entry.verb is None and not gone:
            # Small models number their entries themselves: ignore a number if its entry has no similar text.
            targets = [target for target in targets if _are_similar(entry.text, target.text)]
        if targets or not entry.text or (entry.ids and entry.verb):
            return targets
        same = self._by_text.get(normalise_text(entry.text))
        return [same] if same is not None and same.id in self._entries else []

    def _take_update(self, entry: ParsedEntry, targets: list[LedgerEntry]) -> None:
        """Revise the first of the model's own entries that an update names, and retire the others."""
        own = [target for target in targets if target.speaker is Speaker.MODEL]
        for target in targets:
            if target.speaker is Speaker.USER:
                self._set_aside(target, entry)
        text = entry.text
        if own and entry.claim:
            text = entry.claim if normalise_text(text) in normalise_text(own[0].text) else f"{text} → {entry.claim}"
        if own:
            self._revise(own[0], text, entry)
        for other in own[1:]:
            if text and self._can_retire(other):
                self._retire(other, self._find_source(entry), text)

    def _can_retire(self, target: LedgerEntry) -> bool:
        """Whether a reply may retire an entry: it binds, is not pinned, and the reply has not retained or changed it."""
        return target.section in BINDING and not target.pinned and target.id not in self._decided | self.retained

    def _set_aside(self, target: LedgerEntry, entry: ParsedEntry) -> None:
        """Retire an entry; a user's entry only if the reply quotes a later message of the user."""
        if not self._can_retire(target) or not self._can_check_another():
            return
        if target.speaker is Speaker.USER:
            if (quotation := self._find_quotation(target, entry)) is not None:
                self._retire(target, *quotation)
        else:
            self._retire(target, self._find_source(entry), entry.claim or WITHDRAWN)
            self._add(target.section, entry.claim, entry)

    def _retire(self, target: LedgerEntry, by: Pointer, quote: str) -> None:
        self._decided.add(target.id)
        self._found.append(Retire(entry_id=target.id, by=by, quote=quote))

    def _find_quotation(self, target: LedgerEntry, entry: ParsedEntry) -> tuple[Pointer, str] | None:
        """Return the later message of a user that a reply quotes, in quotation marks, behind an arrow or as the entry."""
        marked = ("".join(groups) for groups in _quoted.findall(f"{entry.text}\n{entry.claim}"))
        own = normalise_text(target.text)
        texts = (text.strip() for text in (*marked, entry.claim, entry.text))
        quotes = [text for text in texts if len(normalise_text(text)) >= LEAST_QUOTE_CHARS and normalise_text(text) not in own]
        since = max((source.ordinal for source in target.sources), default=-1)
        later = [place for place in self._messages if place.ordinal > since]
        for place in sorted(later, key=lambda place: (place.ordinal not in entry.pointers, -place.ordinal)):
            for quote in quotes:
                if f" {normalise_text(quote)} " in self._messages[place]:
                    return place, quote
        return None

    def _revise(self, target: LedgerEntry, text: str, entry: ParsedEntry) -> None:
        mine = target.speaker is Speaker.MODEL and not target.pinned and target.id not in self._decided
        if mine and text and self._is_new(text):
            self._decided.add(target.id)
            self._known.add(normalise_text(text))
            self._found.append(Update(entry_id=target.id, text=text, source=self._find_source(entry)))

    def _add(self, section: Section, text: str, entry: ParsedEntry) -> None:
        """Add an entry of the model's own, unless the ledger or a user's message has its text."""
        if self._room[section] > 0 and not is_nothing(text) and self._is_new(text):
            self._room[section] -= 1
            self._known.add(normalise_text(text))
            added = self._handoff if section is Section.HANDOFF else self._found
            added.append(Add(section=section, text=text, source=self._find_source(entry)))

    def _is_new(self, text: str) -> bool:
        """Whether neither the ledger nor this reply has the text yet, and no user said it, with or without a label before it."""
        if normalise_text(text) in self._known or not self._can_check_another():
            return False
        return not any(
            f" {words} " in self._user_text for part in (text, text.partition(": ")[2]) if (words := normalise_text(part))
        )

    def _can_check_another(self) -> bool:
        self._claims_left -= 1
        return self._claims_left >= 0

    def _find_source(self, entry: ParsedEntry) -> Pointer:
        return next((self._records[ordinal] for ordinal in entry.pointers if ordinal in self._records), self._newest)


def _are_similar(text: str, known: str) -> bool:
    """Whether two texts share a word of some length, or one is part of the other."""
    one, other = sorted((normalise_text(text), normalise_text(known)), key=len)
    shared = {*one.split()} & {*other.split()}
    return any(len(word) >= LEAST_SHARED_CHARS for word in shared) or f" {one} " in f" {other} "
