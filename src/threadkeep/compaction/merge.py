"""From records and drafts to the next ledger, in code.

`merge_observed` puts what people said and what the journal knows into the ledger; `apply` carries out what a draft asks for.
Nothing a user said leaves unless an operation names it and quotes a later message of theirs; even then it only moves to Inactive
Changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from threadkeep.compaction.facts import Line, ObservedItem, render_facts
from threadkeep.compaction.journal import Journal, Turn, advance
from threadkeep.compaction.ledger import BINDING, Claim, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.operations import Add, Operation, Redraft, Retire, Update
from threadkeep.compaction.speech import is_acknowledgement, shorten
from threadkeep.threads import Pointer, parse_pointer

SOURCES_KEPT = 6
# A shorter quotation could stand in any message.
LEAST_QUOTE_CHARS = 8
# Of what a model took back of its own, so much stays under Inactive Changes. What a user said stays there for good.
OWN_RETIRED_KEPT = 20
ASKED = "asked: "
SO_FAR = "done so far: "
FOCUS = "the user asked to keep in focus: "


def merge_observed(ledger: Ledger, items: Sequence[ObservedItem], *, focus: str | None = None) -> Ledger:
    """Return the ledger with what these items of a window say; what it knows already is passed over."""
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
            # It stands where it was said last: the later one decides.
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
    """Return the ledger after a draft's operations. `spoken` holds every message of a person that the compaction can see."""
    entries = {entry.id: entry for entry in ledger.entries}
    number = ledger.next_number
    # What a draft says about its own older entries comes first: what it adds is not for it to take away again.
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
    """Return the words and numbers of a text alone: what a quotation shares with what it quotes, whatever signs it lost."""
    return " ".join("".join(char if char.isalnum() else " " for char in text.casefold()).split())


def _retire(entry: LedgerEntry | None, operation: Retire, spoken: Mapping[Pointer, str]) -> LedgerEntry | None:
    """Return an entry as retired by an operation; None where the operation may not do that."""
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
    """Whether a message was said after an entry. A thread that continues another counts anew: the order in `spoken` decides."""
    last = entry.sources[-1] if entry.sources else by
    if last.thread_id != by.thread_id and last in spoken and by in spoken:
        order = list(spoken)
        if order.index(last) > order.index(by):
            return False
    return all(source.ordinal < by.ordinal for source in entry.sources)


def _is_one_statement(text: str) -> bool:
    """Whether a message says one thing. One that says several stays whole: code cannot tell which of them gave way."""
    flat = text.strip()
    return len(flat) <= 300 and "\n" not in flat and not any(f"{end} " in flat for end in ".!?;。！？；")


def _find_goals(entries: Iterable[LedgerEntry], journal: Journal) -> list[LedgerEntry]:
    """Return what the session is for: its first request, and the one that set the work under way where that is another."""
    goals = {journal.first, journal.began}
    return [entry for entry in entries if _can_be_said_again(entry) and any(str(source) in goals for source in entry.sources)]


def _can_be_said_again(entry: LedgerEntry) -> bool:
    return entry.speaker is Speaker.USER and entry.section is Section.ACTIVE and not entry.pinned


def _normalise_space(text: str) -> str:
    return " ".join(text.split())


def _skip_pinned(computed: Iterable[LedgerEntry], said: Mapping[str, LedgerEntry]) -> Iterator[LedgerEntry]:
    """Yield computed entries that no pin holds already; none takes the id of one that a pin holds."""
    pinned = {entry.text for entry in said.values() if entry.pinned}
    for entry in computed:
        if entry.text in pinned:
            continue
        name = entry.id
        while name in said:
            name += "+"
        yield replace(entry, id=name)


def compute_entries(journal: Journal, *, age: int, focus: str | None = None) -> list[LedgerEntry]:
    """Return the entries that code makes from the journal, section by section, in the order a state tells them."""
    facts = render_facts(journal.facts)
    turns = [turn for turn in journal.turns if turn.earlier or turn.answer or turn.work]
    running = journal.turns[-1] if journal.turns and journal.turns[-1].answered is None else None
    told = [Line(text=_tell_turn(turn, is_running=turn is running), source=parse_pointer(turn.source)) for turn in turns]
    answers = [answer for turn in turns for answer in (turn.earlier, turn.answer)]
    # What a turn's answer tells is not told twice.
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
    """Yield what was done to files, a line for each folder and kind of change, the newest last."""
    places: dict[tuple[str, str], list[Line]] = {}
    for line in changed:
        done, _, path = line.text.partition(" ")
        folder, slash, _ = path.rpartition("/")
        key = (done, f"{folder}{slash}")
        places.setdefault(key, []).append(line)
        # The folder that was worked in last is told last.
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
    """Return a turn on one line. A running request stands whole in the window: only its work is told."""
    answers = [answer for answer in (turn.earlier, turn.answer) if answer]
    if is_running and not answers:
        return f"{SO_FAR}{' — '.join(turn.work)}"
    answered = [f"answered: {' — then: '.join(answers)}"] if answers else []
    return " — ".join((f"{ASKED}{turn.asked}", *answered, *turn.work))


def _build_entries(lines: Iterable[Line], *, section: Section, letter: str, speaker: Speaker, age: int) -> Iterator[LedgerEntry]:
    for number, line in enumerate(lines, start=1):
        name, sources = f"{letter}{number}", (line.source,)
        yield LedgerEntry(id=name, section=section, text=line.text, sources=sources, speaker=speaker, born=age)
