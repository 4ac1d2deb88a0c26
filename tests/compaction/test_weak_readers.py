"""A contested entry is told so that a weak reader takes the newer words; a reply that repeats the line changes nothing."""

from __future__ import annotations

import pytest

from threadkeep.compaction.ledger import Brevity, Claim, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.merge import merge
from threadkeep.compaction.reply import operations_from, parse_state
from threadkeep.compaction.reply.entry import ParsedEntry
from threadkeep.compaction.state_text import TAG, render_state
from threadkeep.thread import Pointer

OLD, NEW = "The kiln fires at 1180 degrees.", "Fire it at 1220."


def at(ordinal: int) -> Pointer:
    return Pointer("t", ordinal)


def entry(number: int, text: str, *, claim: Claim | None = None, speaker: Speaker = Speaker.USER) -> LedgerEntry:
    return LedgerEntry(
        id=str(number), section=Section.ACTIVE, text=text, sources=(at(number),), speaker=speaker, born=0, claim=claim
    )


def lines(*entries: LedgerEntry, brevity: Brevity | None = None) -> list[str]:
    """What the state tells of these under Active Memory."""
    text = render_state(Ledger(entries=entries, next_number=90, brevity=brevity))
    told = text.partition("Active Memory:\n")[2].partition(f"\n</{TAG}>")[0]
    return told.partition("\n\n")[0].split("\n")


@pytest.mark.parametrize("brevity", [None, Brevity()])
def test_each_side_of_a_contest_is_called_what_it_is_before_it_is_read(brevity: Brevity | None) -> None:
    """The older words are called earlier and contested, the newer the latest; they stand in the order they were said in."""
    (line,) = lines(entry(1, OLD, claim=Claim(text=NEW, source=at(9))), brevity=brevity)
    places = [line.index(words) for words in ("earlier, contested: ", OLD, "latest #9: ", NEW)]
    assert places == sorted(places)


@pytest.mark.parametrize("brevity", [None, Brevity()])
def test_what_only_a_summary_disputes_is_not_called_earlier(brevity: Brevity | None) -> None:
    """No user took it back: it holds, and nothing on its line says otherwise."""
    (line,) = lines(entry(1, OLD, claim=Claim(text=NEW, source=at(9), proven=False)), brevity=brevity)
    assert "earlier" not in line
    assert "latest" not in line


def test_words_between_the_first_and_the_latest_are_earlier_too() -> None:
    """In the whole form each has its record; in the brief one everything before the latest stands behind one mark."""
    chain = entry(1, OLD, claim=Claim(text=f"{NEW} — before that #5: Make it 1200.", source=at(9)))
    assert lines(chain) == [f"- [1] earlier, contested: {OLD} (#1) — latest #9: {NEW} — before that #5: Make it 1200."]
    assert lines(chain, brevity=Brevity()) == [f"- earlier, contested: {OLD} #1; Make it 1200. #5 — latest #9: {NEW}"]


@pytest.mark.parametrize(
    "line",
    [
        f"- [1] earlier, contested: {OLD} (#1) — latest #9: {NEW}",
        f"- [1] **earlier, contested:** {OLD} (#1) -- latest #9: {NEW}",
        f"- [1] {OLD} (#1) — latest #9: {NEW}",
        f"- [1] {OLD} (#1) — contested by #9: {NEW}",
    ],
    ids=["as it is told", "decorated", "half of it", "as it was told before"],
)
def test_a_contested_line_is_read_back_in_every_form_it_was_ever_told(line: str) -> None:
    """The older words are the entry's, the newer the claim beside them; repeating the line changes nothing."""
    ledger = Ledger(entries=(entry(1, OLD, claim=Claim(text=NEW, source=at(9))), entry(9, NEW)), next_number=10)
    parsed = parse_state(f"<{TAG}>\nActive Memory:\n{line}\n</{TAG}>")
    assert parsed.sections == {Section.ACTIVE: (ParsedEntry(ids=("1",), text=OLD, pointers=(1, 9), claim=NEW),)}
    spoken = {at(1): OLD, at(9): NEW}
    operations = operations_from(parsed, ledger=ledger, spoken=spoken, thread_id="t")
    assert merge(ledger, operations, spoken=spoken).entries == ledger.entries
