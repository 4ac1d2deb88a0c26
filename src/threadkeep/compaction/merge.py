"""Computes the next ledger from records and drafts.

`merge_observed` puts people's messages and the journal into the ledger; `apply` applies the operations of a draft. A user's
entry leaves Active Memory only by an operation that names it and quotes a later message of the user; it then moves to Inactive
Changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from threadkeep.compaction.facts.facts import Line, ObservedItem, render_facts
from threadkeep.compaction.journal import Journal, Turn, advance
from threadkeep.compaction.ledger import (
    BINDING,
    Add,
    Claim,
    Ledger,
    LedgerEntry,
    Operation,
    Redraft,
    Retire,
    Section,
    Speaker,
    Update,
)
from threadkeep.compaction.message_judgement import is_acknowledgement
from threadkeep.compaction.message_shortener import shorten
from threadkeep.threads import Pointer, parse_pointer

SOURCES_KEPT = 6
# A shorter quotation could stand in any message.
LEAST_QUOTE_CHARS = 8
# The most retired entries of the model under Inactive Changes. A user's retired entries stay for good.
OWN_RETIRED_KEPT = 20
ASKED = "asked: "
SO_FAR = "done so far: "
FOCUS = "the user asked to keep in focus: "


def merge_observed(ledger: Ledger, items: Sequence[ObservedItem], *, focus: str | None = None) -> Ledger:
    """Return the ledger with the messages and facts of a window's items; known ones are skipped."""
    upto, age = ledger.journal.upto, ledger.age
    journal = advance(ledger.journal, items)
    said = {entry.id: entry for entry in ledger.entries if entry.pinned or entry.speaker in (Speaker.USER, Speaker.MODEL)}
    known = {_normalise_space(entry.text): entry.id for entry in said.values() if _can_be_said_again(entry)}
    # A pin may hold a message of a checkpoint that was undone.
    told = {source for entry in said.values() if entry.speaker is Speaker.USER for source in entry.sources}
    number = ledger.next_number
    for seen in items:
        if not seen.view.by_person or seen.source.ordinal < upto or seen.source in told:
            continue
        if is_acknowledgement(seen.view.said):
            continue
        text = shorten(seen.view.said)
        again = said.pop(known.get(_normalise_space(text), ""), None)
        if again is not None:
            # A repeated message moves to its last place: the later message decides.
            sources = tuple(dict.fromkeys((*again.sources, seen.source)))[-SOURCES_KEPT:]
            said[again.id] = replace(again, text=text, sources=sources)
            continue
        entry = LedgerEntry(
            id=str(number), section=Section.ACTIVE, text=text, sources=(seen.source,), speaker=Speaker.USER, born=age
        )
        number += 1
        said[entry.id] = entry
        known[_normalise_space(text)] = entry.id
    for entry in _find_goals(said.values(), journal):
        said[entry.id] = replace(entry, section=Section.OBJECTIVE)
    computed = _skip_pinned(compute_entries(journal, age=age, focus=focus), said)
    return replace(ledger, entries=(*said.values(), *computed), next_number=number, journal=journal)


def apply(ledger: Ledger, operations: Iterable[Operation], *, spoken: Mapping[Pointer, str]) -> Ledger:
    """Return the ledger after a draft's operations. `spoken` holds every message of a person in the compaction's input."""
    entries = {entry.id: entry for entry in ledger.entries}
    number = ledger.next_number
    # Changes to older entries come first, so that a draft cannot remove its own additions.
    for operation in sorted(operations, key=lambda each: not isinstance(each, Update | Redraft)):
        match operation:
            case Add():
                entries[str(number)] = LedgerEntry(
                    id=str(number),
                    section=operation.section,
                    text=operation.text,
                    sources=(operation.source,),
                    speaker=Speaker.MODEL,
                    born=ledger.age,
                )
                number += 1
            case Retire():
                if (retired := _retire(entries.get(operation.entry_id), operation, spoken)) is not None:
                    del entries[retired.id]
                    entries[retired.id] = retired
            case Update():
                entry = entries.get(operation.entry_id)
                if entry is not None and entry.speaker is Speaker.MODEL and not entry.pinned:
                    entries[entry.id] = replace(entry, text=operation.text, sources=(operation.source,))
            case Redraft():
                for entry in list(entries.values()) if operation.section not in BINDING else ():
                    drafted = entry.section is operation.section and entry.speaker is Speaker.MODEL and not entry.pinned
                    if drafted and entry.id not in operation.kept:
                        del entries[entry.id]
            case _:
                assert_never(operation)
    own = [entry for entry in entries.values() if entry.section is Section.INACTIVE and entry.speaker is Speaker.MODEL]
    for entry in [entry for entry in own if not entry.pinned][:-OWN_RETIRED_KEPT]:
        del entries[entry.id]
    return replace(ledger, entries=tuple(entries.values()), next_number=number)


def normalise_text(text: str) -> str:
    """Return only the words and numbers of a text, to compare a quotation with its source."""
    return " ".join("".join(char if char.isalnum() else " " for char in text.casefold()).split())


def _retire(entry: LedgerEntry | None, operation: Retire, spoken: Mapping[Pointer, str]) -> LedgerEntry | None:
    """Return the retired entry; None if the operation may not retire it."""
    if entry is None or entry.pinned or entry.section not in BINDING or not operation.quote.strip():
        return None
    claim = Claim(text=" ".join(operation.quote.split()), source=operation.by)
    match entry.speaker:
        case Speaker.MODEL:
            return replace(entry, section=Section.INACTIVE, claim=claim)
        case Speaker.USER:
            quote = normalise_text(operation.quote)
            is_later = _is_later(operation.by, entry, spoken)
            found = len(quote) >= LEAST_QUOTE_CHARS and f" {quote} " in f" {normalise_text(spoken.get(operation.by, ''))} "
            if entry.section is Section.OBJECTIVE or not (is_later and found and _is_one_statement(entry.text)):
                return None
            return replace(entry, section=Section.INACTIVE, claim=claim)
        case Speaker.AGENT | Speaker.COMPUTED:
            return None
        case _:
            assert_never(entry.speaker)


def _is_later(by: Pointer, entry: LedgerEntry, spoken: Mapping[Pointer, str]) -> bool:
    """Whether a message is later than an entry. Across threads, whose ordinals differ, the order in `spoken` decides."""
    last = entry.sources[-1] if entry.sources else by
    if last.thread_id != by.thread_id and last in spoken and by in spoken:
        order = list(spoken)
        if order.index(last) > order.index(by):
            return False
    return all(source.ordinal < by.ordinal for source in entry.sources)


def _is_one_statement(text: str) -> bool:
    """Whether a message is one statement. Code cannot tell which of several statements was retired."""
    flat = text.strip()
    return len(flat) <= 300 and "\n" not in flat and not any(f"{end} " in flat for end in ".!?;。！？；")


def _find_goals(entries: Iterable[LedgerEntry], journal: Journal) -> list[LedgerEntry]:
    """Return the entries of the session's first request, and of the request that began the work if that is another."""
    goals = {parse_pointer(goal) for goal in (journal.first, journal.began) if goal}
    return [entry for entry in entries if _can_be_said_again(entry) and not goals.isdisjoint(entry.sources)]


def _can_be_said_again(entry: LedgerEntry) -> bool:
    return entry.speaker is Speaker.USER and entry.section is Section.ACTIVE and not entry.pinned


def _normalise_space(text: str) -> str:
    return " ".join(text.split())


def _skip_pinned(computed: Iterable[LedgerEntry], said: Mapping[str, LedgerEntry]) -> Iterator[LedgerEntry]:
    """Yield computed entries without those that are pinned already; none takes the id of another entry."""
    pinned = {entry.text for entry in said.values() if entry.pinned}
    for entry in computed:
        if entry.text in pinned:
            continue
        name = entry.id
        while name in said:
            name += "+"
        yield replace(entry, id=name)


def compute_entries(journal: Journal, *, age: int, focus: str | None = None) -> list[LedgerEntry]:
    """Return the entries that code computes from the journal, in the order of the state."""
    facts = render_facts(journal.facts)
    turns = [turn for turn in journal.turns if turn.earlier or turn.answer or turn.work]
    running = journal.turns[-1] if journal.turns and journal.turns[-1].answered is None else None
    told = [Line(text=_tell_turn(turn, is_running=turn is running), source=parse_pointer(turn.source)) for turn in turns]
    answers = [answer for turn in turns for answer in (turn.earlier, turn.answer)]
    # Findings that an answer already contains are left out.
    findings = [finding for finding in journal.findings if not any(finding.text in answer for answer in answers)]
    found = [Line(text=finding.text, source=parse_pointer(finding.source)) for finding in findings]
    work = (*told, *facts.todos, *facts.failure, *facts.open_calls)
    wish = [_build_entry("h0", f"{FOCUS}{focus}", age=age)] if focus else []
    return [
        *_build_entries(found, section=Section.ACTIVE, letter="f", speaker=Speaker.AGENT, age=age),
        *wish,
        *_build_entries(work, section=Section.HANDOFF, letter="h", speaker=Speaker.COMPUTED, age=age),
        *_build_entries(_group_by_folder(facts.changed), section=Section.EVIDENCE, letter="e", speaker=Speaker.COMPUTED, age=age),
        *_build_entries(facts.images, section=Section.EVIDENCE, letter="i", speaker=Speaker.COMPUTED, age=age),
    ]


def _group_by_folder(changed: Sequence[Line]) -> Iterator[Line]:
    """Yield the file changes, a line for each folder and kind of change, the newest last."""
    places: dict[tuple[str, str], list[Line]] = {}
    for line in changed:
        done, _, path = line.text.partition(" ")
        folder, slash, _ = path.rpartition("/")
        key = (done, f"{folder}{slash}")
        places.setdefault(key, []).append(line)
        # The folder of the last change comes last.
        places[key] = places.pop(key)
    for (done, folder), lines in places.items():
        if len(lines) == 1:
            yield lines[0]
            continue
        names = ", ".join(f"{line.text.removeprefix(f'{done} {folder}')} #{line.source.ordinal}" for line in lines)
        yield Line(text=f"{done} in {folder}: {names}" if folder else f"{done}: {names}", source=lines[-1].source)


def _build_entry(name: str, text: str, *, age: int) -> LedgerEntry:
    return LedgerEntry(id=name, section=Section.HANDOFF, text=text, sources=(), speaker=Speaker.COMPUTED, born=age)


def _tell_turn(turn: Turn, *, is_running: bool) -> str:
    """Return a turn on one line. Of a running turn only the work: the window holds its request."""
    answers = [answer for answer in (turn.earlier, turn.answer) if answer]
    if is_running and not answers:
        return f"{SO_FAR}{' — '.join(turn.work)}"
    answered = [f"answered: {' — then: '.join(answers)}"] if answers else []
    return " — ".join((f"{ASKED}{turn.asked}", *answered, *turn.work))


def _build_entries(lines: Iterable[Line], *, section: Section, letter: str, speaker: Speaker, age: int) -> Iterator[LedgerEntry]:
    for number, line in enumerate(lines, start=1):
        name, sources = f"{letter}{number}", (line.source,)
        yield LedgerEntry(id=name, section=section, text=line.text, sources=sources, speaker=speaker, born=age)
