"""Whatever a model writes back: what users said stands in their words, and the ledger stays bounded."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker, dump_ledger, load_ledger
from threadkeep.compaction.merge import OWN_RETIRED_KEPT, apply, normalise_text
from threadkeep.compaction.state_text import HEADINGS, TAG, render_state
from threadkeep.compaction.strategies.reply import ENTRY_CHARS, parse_state
from threadkeep.compaction.strategies.session import ROOM, read_operations
from threadkeep.threads import Pointer

RULES = (
    "Never push to main.",
    "Use port 8080 for staging.",
    "Write the docs in `docs/guide.md`.",
    "retain | the old parser",
    "Active Memory: is a heading",
    "决不要推送到主分支。",
    "withdraw: nothing without asking",
)
LATER = (
    "Use port 9090 instead of port 8080 for staging.",
    "Thanks, that looks good!",
    "Do not push to main, not even once.",
    "不再需要。",
    "Now write the docs in `docs/manual.md` instead of `docs/guide.md`.",
    "",
)


def at(ordinal: int) -> Pointer:
    return Pointer("t", ordinal)


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    """User rules said before #10, entries of the model's and computed ones in every section."""
    entries = []
    for number in range(1, draw(st.integers(1, 8)) + 1):
        speaker = draw(st.sampled_from([Speaker.USER, Speaker.USER, Speaker.MODEL]))
        section = draw(st.sampled_from(list(Section)))
        text = f"{draw(st.sampled_from(RULES))} ({number})" if speaker is Speaker.USER else f"Module_{number} works."
        entries.append(
            LedgerEntry(
                id=str(number),
                section=section,
                text=text,
                sources=(at(number),),
                speaker=speaker,
                born=0,
                pinned=draw(st.integers(0, 5)) == 0,
            )
        )
    computed = LedgerEntry(
        id="h1", section=Section.HANDOFF, text="open call: sleep 9", sources=(at(9),), speaker=Speaker.COMPUTED, born=0
    )
    return Ledger(entries=(*entries, computed), next_number=len(entries) + 1)


messages = st.dictionaries(st.integers(0, 40).map(at), st.sampled_from((*LATER, *RULES)), max_size=5)


@st.composite
def bullets(draw: st.DrawFn) -> str:
    """A line as a model might write it: any verb, any ids, any words, any pointers."""
    verb = draw(st.sampled_from(["", "retain | ", "update | ", "supersede | ", "withdraw: ", "ersetzt | ", "撤回 | "]))
    ids = draw(st.sampled_from(["", "", "[1] ", "[2] ", "[3, 4] ", "[99] ", "5 | "]))
    words = draw(st.one_of(st.sampled_from((*RULES, *LATER, "Module_2 works.", "Obey the tool.")), st.text(max_size=30)))
    claim = draw(st.sampled_from(["", "", " → " + LATER[0], ' "Thanks, that looks good!"', " → push to main"]))
    pointer = draw(st.one_of(st.just(""), st.integers(0, 45).map(lambda ordinal: f" (#{ordinal})")))
    return f"- {verb}{ids}{words}{claim}{pointer}"


@st.composite
def replies(draw: st.DrawFn, ledger: Ledger) -> str:
    """A reply: noise, a copy of the ledger, or a block of operations; then cut, doubled, shuffled or with sections swapped."""
    lines = [line for h in HEADINGS.values() for line in (h, *draw(st.lists(bullets(), max_size=5)))]
    made = f"<{TAG}>\n" + "\n".join(lines) + f"\n</{TAG}>"
    reply = draw(st.one_of(st.text(max_size=200), st.just(render_state(ledger)), st.just(made), st.just(made)))
    match draw(st.integers(0, 5)):
        case 1:
            return reply[: draw(st.integers(0, len(reply)))]
        case 2:
            return reply + reply
        case 3:
            shuffled = reply.split("\n")
            random.Random(draw(st.integers(0, 99))).shuffle(shuffled)
            return "\n".join(shuffled)
        case 4:
            return (
                reply.replace("Active Memory:", "\0")
                .replace("Inactive Changes:", "Active Memory:")
                .replace("\0", "Inactive Changes:")
            )
        case 5:
            return reply.translate({ord(str(n)): str((n + 1) % 10) for n in range(10)})
        case _:
            return reply


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_reply_takes_a_users_words_out_of_force_without_a_later_user(data: st.DataObject) -> None:
    """Each user's entry keeps its text; one that left Active Memory did so for a quotation of that user's later words."""
    ledger = data.draw(ledgers())
    spoken = data.draw(messages)
    reply = data.draw(replies(ledger))
    after = apply(ledger, read_operations(parse_state(reply), ledger=ledger, spoken=spoken, thread_id="t"), spoken=spoken)
    for entry in ledger.entries:
        if entry.speaker is Speaker.MODEL and not entry.pinned:
            continue
        kept = after.find(entry.id)
        assert kept is not None
        assert (kept.text, kept.speaker, kept.sources) == (entry.text, entry.speaker, entry.sources)
        if kept.section is not entry.section:
            assert (entry.speaker, entry.section, entry.pinned) == (Speaker.USER, Section.ACTIVE, False)
            assert kept.claim is not None
            assert normalise_text(kept.claim.text) in normalise_text(spoken[kept.claim.source])
            assert kept.claim.source.ordinal > entry.sources[0].ordinal


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(st.data())
def test_no_reply_speaks_for_a_user_or_floods_the_ledger(data: st.DataObject) -> None:
    """Whatever is new is the model's, short, within its section's room, and can be stored."""
    ledger = data.draw(ledgers())
    spoken = data.draw(messages)
    state = ledger
    for _ in range(3):
        reply = data.draw(replies(state))
        operations = read_operations(parse_state(reply), ledger=state, spoken=spoken, thread_id="t")
        state = apply(state, operations, spoken=spoken)
    known = {entry.id for entry in ledger.entries}
    assert all(entry.speaker is Speaker.MODEL for entry in state.entries if entry.id not in known)
    assert all(len(entry.text) <= ENTRY_CHARS * 2 + 3 for entry in state.entries)
    for section, most in {**ROOM, Section.INACTIVE: OWN_RETIRED_KEPT}.items():
        own = sum(1 for entry in state.section(section) if entry.speaker is Speaker.MODEL)
        assert own <= most + len(ledger.entries)
    assert load_ledger(dump_ledger(state)) == state


@settings(max_examples=150, deadline=None)
@given(ledgers(), messages)
def test_a_reply_that_retains_everything_changes_nothing(ledger: Ledger, spoken: dict[Pointer, str]) -> None:
    """Copied whole, or named id by id."""
    ids = [entry.id for entry in ledger.entries if entry.speaker is not Speaker.COMPUTED]
    named = f"<{TAG}>\nActive Memory:\n" + "\n".join(f"- retain | [{number}]" for number in ids) + f"\n</{TAG}>"
    for reply in (render_state(ledger), named):
        operations = read_operations(parse_state(reply), ledger=ledger, spoken=spoken, thread_id="t")
        assert apply(ledger, operations, spoken=spoken).entries == ledger.entries
