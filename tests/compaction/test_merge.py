"""From records and drafts to the next ledger: every message stands in order, and gives way only to the user's own later words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.histories import Json, Rollout, answered, call, output, said, turns
from tests.strategies import histories

from threadkeep.compaction.facts.facts import ObservedItem
from threadkeep.compaction.ledger import (
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
    dump_ledger,
    load_ledger,
)
from threadkeep.compaction.merge import FOCUS, SOURCES_KEPT, apply, compute_entries, merge_observed
from threadkeep.compaction.message_judgement import is_acknowledgement
from threadkeep.compaction.message_shortener import shorten
from threadkeep.threads import Pointer

PORT = "Use port 8080 for staging."
LATER = "Use port 9090 instead of port 8080 for staging."


def at(ordinal: int) -> Pointer:
    return Pointer("t", ordinal)


def observed(items: Sequence[Json]) -> tuple[ObservedItem, ...]:
    return Rollout(items).plan(frontier_tokens=0).observed


def told(*texts: str) -> Ledger:
    """A ledger in which a user said these; the objective comes first."""
    return merge_observed(Ledger(age=1), observed([said(text) for text in ("Build the tide table.", *texts)]))


def messages(ledger: Ledger) -> list[tuple[str, tuple[int, ...]]]:
    """Return what people said, with where."""
    return [
        (entry.text, tuple(source.ordinal for source in entry.sources))
        for entry in ledger.section(Section.ACTIVE)
        if entry.speaker is Speaker.USER
    ]


def texts(ledger: Ledger, section: Section = Section.ACTIVE) -> list[str]:
    return [entry.text for entry in ledger.section(section)]


def entry(number: str, text: str, *, speaker: Speaker = Speaker.USER, section: Section = Section.ACTIVE) -> LedgerEntry:
    return LedgerEntry(id=number, section=section, text=text, sources=(at(int(number)),), speaker=speaker, born=0)


def test_each_message_is_one_entry_in_order_and_nothing_is_concluded() -> None:
    """Corrections, contradictions and repetitions are all kept, and the reader sees which is later."""
    said_so = (PORT, LATER, "Never push to main. Always run `make lint`.", "Push to main.")
    ledger = told(*said_so)
    assert [text for text, _ in messages(ledger)] == list(said_so)
    assert [where for _, where in messages(ledger)] == sorted(where for _, where in messages(ledger))
    assert ledger.section(Section.INACTIVE) == ()


def test_the_same_message_again_stands_where_it_was_said_last() -> None:
    """One entry with its places: the later one decides. Words that differ in a sign or in case are other words."""
    ledger = told("Use tabs.", "Use spaces.", "Use  tabs.", "use tabs.", "Use tabs")
    assert [text for text, _ in messages(ledger)] == ["Use spaces.", "Use  tabs.", "use tabs.", "Use tabs"]
    assert [len(where) for _, where in messages(ledger)] == [1, 2, 1, 1]
    often = told(*(text for number in range(20) for text in ("Use tabs.", f"Look at part {number}.")))
    assert [len(where) for text, where in messages(often) if text == "Use tabs."] == [SOURCES_KEPT]


def test_acknowledgements_are_left_out_and_nothing_else() -> None:
    """A character or two in any language is a message."""
    short = ["不要。", "やめて。", "لا", "нет", "no", "8080"]
    ledger = told("ok", "Go on.", "谢谢", *short, "Thanks!", "👍")
    assert [text for text, _ in messages(ledger)] == short


def test_the_objective_is_the_first_request_and_the_one_that_set_the_work_under_way() -> None:
    """Work is under way when the agent uses a tool; greetings ask for nothing; how often it was compacted changes nothing."""
    talk = [said("Hello!"), answered("Hello."), said("How old is this parser?"), answered("Ten years."), said("Wow.")]
    work = [said("Port it."), call("a"), output("a"), said("Test it."), call("b"), output("b")]
    both = ["How old is this parser?", "Port it."]
    assert texts(merge_observed(Ledger(), observed([*talk, *work])), Section.OBJECTIVE) == both
    assert texts(merge_observed(Ledger(), observed(work)), Section.OBJECTIVE) == ["Port it."]
    rollout = Rollout(talk)
    first = merge_observed(Ledger(), rollout.plan(frontier_tokens=0).observed)
    assert texts(first, Section.OBJECTIVE) == ["How old is this parser?"]
    rollout.add(work[:1])
    asked = merge_observed(first, rollout.plan(frontier_tokens=0).observed)
    rollout.add(work[1:])
    later = merge_observed(asked, rollout.plan(frontier_tokens=0).observed)
    assert texts(later, Section.OBJECTIVE) == both
    assert texts(later) == ["Test it."]


def test_findings_and_work_are_computed_beside_what_people_said() -> None:
    """The agent's words are the agent's; turns and open calls are handed over; a focus is named first."""
    remark = "The crash of build 7 is tracked as ERR-4471-q from now on."
    items = [said("Port it."), answered(remark), call("a"), output("a"), answered("The cause is lock_a in db-3.")]
    items += [said("Deploy."), call("b", '{"cmd":"make deploy"}')]
    ledger = merge_observed(Ledger(), observed(items), focus="the deploy")
    assert [(e.text, e.speaker) for e in ledger.section(Section.ACTIVE) if e.speaker is not Speaker.USER] == [
        (remark, Speaker.AGENT)
    ]
    handoff = texts(ledger, Section.HANDOFF)
    assert handoff[0] == f"{FOCUS}the deploy"
    assert handoff[1].startswith("asked: Port it. — answered: The cause is lock_a in db-3.")
    assert [line.partition(":")[0] for line in handoff[2:]] == ["open call"]


def test_of_the_running_request_only_the_work_is_told() -> None:
    """It stands whole in the window; a request that was answered or broken off stands there no more."""
    edit = [call("a", '{"cmd":"touch src/a.py"}'), output("a", "Process exited with code 0")]
    assert texts(merge_observed(Ledger(), observed([said("Write it."), *edit])), Section.HANDOFF) == ["done so far: changed a.py"]
    assert texts(merge_observed(Ledger(), observed([said("Write it.")])), Section.HANDOFF) == []
    broken_off = [said("Look at it."), said("Write it."), *edit, said("Stop.")]
    assert texts(merge_observed(Ledger(), observed(broken_off)), Section.HANDOFF) == ["asked: Write it. — changed a.py"]


def test_a_request_that_goes_on_keeps_what_was_answered_before() -> None:
    """Both answers are told, the later one behind the earlier."""
    first, second = "I cannot accept changes for you, so I ask each time.", "The sheet of team 7 loads in 40 ms now."
    items = [said("Accept all changes from now on."), answered(first), said("ok continue"), answered(second)]
    asked = "asked: Accept all changes from now on. — answered:"
    assert texts(merge_observed(Ledger(), observed(items)), Section.HANDOFF) == [f"{asked} {first} — then: {second}"]
    assert texts(merge_observed(Ledger(), observed(items[:3])), Section.HANDOFF) == [f"{asked} {first}"]


def test_files_are_told_by_folder_each_with_its_record() -> None:
    """A folder of many files is one line."""
    items = [said("Write them.")]
    for number, path in enumerate(("src/a.py", "src/b.py", "docs/c.md")):
        items += [call(f"c{number}", f'{{"cmd":"touch {path}"}}'), output(f"c{number}", "Process exited with code 0")]
    ledger = merge_observed(Ledger(), observed(items))
    assert texts(ledger, Section.EVIDENCE) == ["changed in src/: a.py #2, b.py #4", "changed docs/c.md"]


@settings(max_examples=60, deadline=None)
@given(histories())
def test_taking_in_the_same_items_again_changes_nothing(items: list[Json]) -> None:
    """In one go or in two, and as often as one likes."""
    seen = observed(items)
    once = merge_observed(Ledger(), seen)
    assert merge_observed(once, seen) == once
    assert merge_observed(once, ()) == once


@settings(max_examples=60, deadline=None)
@given(histories(), st.data())
def test_every_message_of_a_person_is_in_the_ledger_once_and_in_order(items: list[Json], data: st.DataObject) -> None:
    """Whole, or with its pasted blocks shortened, however often the thread was compacted in between."""
    seen = observed(items)
    middle = data.draw(st.integers(0, len(seen)))
    ledger = merge_observed(merge_observed(Ledger(), seen[:middle]), seen[middle:])
    spoken = [each for each in seen if each.view.by_person and not is_acknowledgement(each.view.said)]
    told_at = {source: e for e in ledger.entries if e.speaker is Speaker.USER for source in e.sources}
    for each in spoken:
        assert told_at[each.source].text.split() == shorten(each.view.said).split()
    order = [e.sources[-1].ordinal for e in ledger.section(Section.ACTIVE) if e.speaker is Speaker.USER]
    assert order == sorted(order)
    assert len({e.id for e in ledger.entries}) == len(ledger.entries)


def test_a_pinned_line_keeps_its_id_from_what_is_computed_anew() -> None:
    """No other entry takes it, and the pinned words are not told twice."""
    ledger = merge_observed(Ledger(), observed([said("Go."), answered("The cause is lock_a in db-3.")]))
    [old] = [e for e in ledger.entries if e.speaker is Speaker.AGENT]
    pinned = replace(old, text="An older line.", pinned=True)
    after = merge_observed(Ledger(entries=(pinned,), journal=ledger.journal), ())
    assert [e.text for e in after.entries if e.speaker is Speaker.AGENT] == ["An older line.", old.text]
    assert len({e.id for e in after.entries}) == len(after.entries)
    again = merge_observed(ledger.with_entry(replace(old, pinned=True)), ())
    assert [e.text for e in again.entries].count(old.text) == 1


SPOKEN = {at(2): PORT, at(9): LATER, at(11): "Thanks, that looks good!"}


def retired(operation: Retire, *, ledger: Ledger) -> list[str]:
    return texts(apply(ledger, [operation], spoken=SPOKEN), Section.INACTIVE)


def test_a_users_entry_gives_way_to_a_quotation_of_a_later_message() -> None:
    """The entry moves to Inactive Changes with the words that retired it and their record."""
    ledger = Ledger(entries=(entry("2", PORT), entry("3", "Never push to main.")), next_number=4)
    after = apply(ledger, [Retire(entry_id="2", by=at(9), quote="use port 9090 instead of port 8080")], spoken=SPOKEN)
    [gone] = after.section(Section.INACTIVE)
    assert (gone.text, gone.speaker, gone.sources) == (PORT, Speaker.USER, (at(2),))
    assert gone.claim == Claim(text="use port 9090 instead of port 8080", source=at(9))
    assert texts(after) == ["Never push to main."]


@pytest.mark.parametrize(
    "operation",
    [
        Retire(entry_id="2", by=at(9), quote="use port 7070 instead"),
        Retire(entry_id="2", by=at(9), quote="port"),
        Retire(entry_id="2", by=at(9), quote=""),
        Retire(entry_id="2", by=at(9), quote="se port 9090 instea"),
        Retire(entry_id="2", by=at(10), quote="use port 9090 instead of port 8080"),
        Retire(entry_id="2", by=at(2), quote="Use port 8080 for staging."),
        Retire(entry_id="99", by=at(9), quote="use port 9090 instead of port 8080"),
    ],
)
def test_what_no_later_message_says_retires_nothing(operation: Retire) -> None:
    """A quotation that is invented, too short, empty, cut within a word, or from another record has no effect."""
    assert retired(operation, ledger=Ledger(entries=(entry("2", PORT),))) == []


def test_an_older_message_never_retires_a_newer_one() -> None:
    """Not even where the newer one was said before, too."""
    newer = replace(entry("1", PORT), sources=(at(1), at(10)))
    assert retired(Retire(entry_id="1", by=at(9), quote=LATER), ledger=Ledger(entries=(newer,))) == []


def test_a_message_of_the_thread_before_is_older_whatever_its_number() -> None:
    """A thread that continues another counts anew."""
    spoken = {Pointer("before", 400): LATER, at(5): PORT}
    ledger = Ledger(entries=(entry("5", PORT),))
    after = apply(ledger, [Retire(entry_id="5", by=Pointer("before", 400), quote=LATER)], spoken=spoken)
    assert after == ledger


@pytest.mark.parametrize("text", [f"{PORT} Never push to main.", f"{PORT}\nAnd no tabs", f"{PORT} 决不要推送。 好", "x " * 200])
def test_a_message_that_says_several_things_stays_whole(text: str) -> None:
    """Code cannot tell which of them gave way."""
    assert retired(Retire(entry_id="2", by=at(9), quote=LATER), ledger=Ledger(entries=(entry("2", text),))) == []


@pytest.mark.parametrize("speaker", [Speaker.AGENT, Speaker.COMPUTED])
def test_what_was_computed_is_not_for_a_draft_to_take_away(speaker: Speaker) -> None:
    """Findings and facts stay until they are computed anew."""
    assert retired(Retire(entry_id="2", by=at(9), quote=LATER), ledger=Ledger(entries=(entry("2", PORT, speaker=speaker),))) == []


def test_pins_and_the_objective_hold_against_any_quotation() -> None:
    """A correction does not retire a pin; only the user can change the objective."""
    for held in (replace(entry("2", PORT), pinned=True), entry("2", PORT, section=Section.OBJECTIVE)):
        assert retired(Retire(entry_id="2", by=at(9), quote=LATER), ledger=Ledger(entries=(held,))) == []


def test_a_draft_rules_its_own_entries_and_no_others() -> None:
    """It adds, updates, retires and redrafts what it wrote; what it adds is marked as a model's."""
    own = entry("4", "Module_4 works.", speaker=Speaker.MODEL)
    step = entry("5", "Port part 5 next.", speaker=Speaker.MODEL, section=Section.HANDOFF)
    ledger = Ledger(entries=(entry("2", PORT), own, step), next_number=6, age=3)
    operations: list[Operation] = [
        Add(section=Section.HANDOFF, text="Port part 6 next.", source=at(9)),
        Update(entry_id="4", text="Module_4 is done.", source=at(9)),
        Redraft(section=Section.HANDOFF, kept=()),
        Redraft(section=Section.ACTIVE, kept=()),
        Update(entry_id="2", text="Use any port.", source=at(9)),
    ]
    after = apply(ledger, operations, spoken=SPOKEN)
    assert [(e.id, e.text, e.speaker, e.born) for e in after.entries] == [
        ("2", PORT, Speaker.USER, 0),
        ("4", "Module_4 is done.", Speaker.MODEL, 0),
        ("6", "Port part 6 next.", Speaker.MODEL, 3),
    ]
    gone = apply(after, [Retire(entry_id="4", by=at(11), quote="withdrawn")], spoken=SPOKEN)
    assert texts(gone, Section.INACTIVE) == ["Module_4 is done."]


def test_what_no_operation_mentions_is_retained() -> None:
    """An empty draft changes nothing."""
    ledger = told(PORT, "Never push to main.")
    assert apply(ledger, [], spoken={}) == ledger


def test_a_stored_ledger_is_the_ledger() -> None:
    """Every field survives the checkpoint, the journal with it."""
    ledger = merge_observed(Ledger(age=2), observed([*turns(1, 4), said(PORT), said(LATER)]))
    number = next(e.id for e in ledger.entries if e.text == PORT)
    by = next(e.sources[-1] for e in ledger.entries if e.text == LATER)
    state = apply(ledger, [Retire(entry_id=number, by=by, quote=LATER)], spoken={by: LATER})
    state = replace(state, in_view=frozenset({"1"}), brief=frozenset({"2"}), left_out=frozenset({"3", "f1"}))
    assert len(state.section(Section.INACTIVE)) == 1
    assert load_ledger(dump_ledger(state)) == state
    assert compute_entries(load_ledger(dump_ledger(state)).journal, age=2) == compute_entries(ledger.journal, age=2)
