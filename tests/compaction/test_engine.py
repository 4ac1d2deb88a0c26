"""Compacting a window: budgets, the ladder, the checkpoint it makes."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.histories import RESPONSES, Json, Rollout, answered, call, environment, output, reasoning, said, turns, views
from tests.strategies import histories

from threadkeep.compaction import Section, Speaker, compact
from threadkeep.compaction.checkpoint import find_faults
from threadkeep.compaction.engine import NO_DRAFT, Outcome, conclude, parse_target, propose, read_ledger
from threadkeep.compaction.ledger import Ledger
from threadkeep.compaction.message_judgement import is_acknowledgement
from threadkeep.compaction.message_shortener import shorten
from threadkeep.compaction.plan import size_frontier
from threadkeep.compaction.state_text import render_state
from threadkeep.compaction.strategies.strategy import Goal
from threadkeep.errors import BadInput, NothingToCompact
from threadkeep.items import Item, find_orphans
from threadkeep.threads import EntryKind, encode_body


def run(rollout: Rollout, *, target: str | None = None, window_tokens: int | None = None) -> Outcome:
    outcome = compact(
        rollout.history(),
        thread_id="t",
        dialect=RESPONSES,
        tip=rollout.tip,
        goal=Goal(target=target, window_tokens=window_tokens),
    )
    rollout.checkpoint = outcome.checkpoint
    rollout.compacted_at = rollout.tip.next - 1
    return outcome


@pytest.mark.parametrize(
    ("full", "window", "budget"),
    [
        (200_000, 258_400, 20_000),
        (500_000, 258_400, 25_840),
        (20_000, 258_400, 2_000),
        (20_000, 20_000, 2_000),
        (4_000, 258_400, 1_000),
    ],
)
def test_the_frontier_is_a_tenth_within_its_bounds(full: int, window: int, budget: int) -> None:
    """2,000 tokens of a history that has four times as many; at most a tenth of the window."""
    assert size_frontier(full, window_tokens=window) == budget


@pytest.mark.parametrize(("text", "tokens"), [("8000", 8_000), ("10%", 1_000), (" 5% ", 500), ("0", 0)])
def test_a_target_is_tokens_or_a_share(text: str, tokens: int) -> None:
    """Of ten thousand."""
    assert parse_target(text, of_tokens=10_000) == tokens


@pytest.mark.parametrize("text", ["", "lots", "-5", "101%", "1.5%", "10 %"])
def test_what_is_no_target_is_refused(text: str) -> None:
    """A target that cannot be understood compacts nothing."""
    with pytest.raises(BadInput):
        parse_target(text, of_tokens=10_000)


def test_one_turn_with_150_calls_compacts_and_keeps_its_request() -> None:
    """The request of a long turn is the last thing to go; it never does."""
    request = said("Port every module, one by one. Never touch vendor/.")
    items = [environment("/src"), request]
    for number in range(150):
        items += [reasoning(f"r{number}"), call(f"c{number}"), output(f"c{number}", f"module {number}\n" * 40)]
    rollout = Rollout(items)
    outcome = run(rollout)
    window = rollout.history()
    assert RESPONSES.parse(request) in window.items
    assert find_orphans(views(window)) == []
    assert [entry.kind for entry in window.entries].count(EntryKind.STATE) == 1
    assert window.tokens == outcome.tokens_after < outcome.tokens_before // 2


def test_a_second_compaction_without_growth_is_refused() -> None:
    """A second compaction with nothing new in between is refused, whatever the first one kept."""
    rollout = Rollout(turns(1, 60, words=400))
    run(rollout)
    with pytest.raises(NothingToCompact):
        run(rollout)


def test_a_second_compaction_after_a_few_words_is_refused() -> None:
    """A few tokens do not count as growth."""
    rollout = Rollout(turns(1, 60, words=400))
    run(rollout)
    rollout.add([said("Thanks."), answered("You are welcome.")])
    with pytest.raises(NothingToCompact):
        run(rollout)


def test_a_short_history_has_nothing_to_compact() -> None:
    """What would not shrink stays as it is."""
    with pytest.raises(NothingToCompact):
        run(Rollout([said("Hello."), answered("Hi.")]))


def test_an_unreachable_target_gives_the_smallest_window_and_says_so() -> None:
    """The ladder ends with no frontier at all, and the report admits the rest."""
    outcome = run(Rollout(turns(1, 30)), target="1")
    assert outcome.over_target
    assert outcome.tokens_after < outcome.tokens_before // 2


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(100, 4_000), min_size=5, max_size=10))
@example([2_019, 3_427, 2_805, 3_930, 541, 3_639])
def test_using_the_room_that_is_left_never_gives_up_recent_work(sizes: list[int]) -> None:
    """The newest step may be larger than the frontier's budget; looking for more to keep must not lose it."""
    rollout = Rollout([item for words in sizes for item in (said("Go on with the port."), answered("berth " * words))])
    proposal = propose(rollout.history(), thread_id="t", dialect=RESPONSES, tip=rollout.tip)
    outcome = conclude(proposal, NO_DRAFT)
    first = proposal.brief.plan
    assert outcome.checkpoint.figures["kept_items"] >= len(first.tail)
    assert outcome.tokens_after >= first.kept_tokens


@pytest.mark.parametrize("target", ["40%", "25%", "12%", "6%"])
def test_a_target_is_met(target: str) -> None:
    """With long messages, large outputs and many turns; the window holds what the report says."""
    sayings = [said(f"Keep port {number} free for harbour {number}. " + "Mind the tide there. " * 20) for number in range(40)]
    rollout = Rollout([item for number, each in enumerate(sayings) for item in (each, *turns(number, number, words=120)[1:])])
    outcome = run(rollout, target=target)
    assert not outcome.over_target
    assert rollout.history().tokens == outcome.tokens_after <= parse_target(target, of_tokens=outcome.tokens_before)


@settings(max_examples=40, deadline=None)
@given(histories(open_end=False, max_turns=8), st.sampled_from(["60%", "30%", "10%", "500", "1"]))
def test_a_target_is_met_or_the_outcome_says_that_it_is_not(items: list[Json], target: str) -> None:
    """Whatever the history; and either way nothing a person said is missing from the ledger."""
    rollout = Rollout([*turns(1, 3), *items])
    wanted = parse_target(target, of_tokens=rollout.history().tokens)
    try:
        outcome = run(rollout, target=target)
    except NothingToCompact:
        return
    assert rollout.history().tokens == outcome.tokens_after
    assert outcome.over_target == (outcome.tokens_after > wanted)
    assert outcome.report.kept + outcome.report.left_out == outcome.report.required
    views_said = [RESPONSES.view(Item(record.body)) for record in rollout.items]
    said_so = {shorten(view.said) for view in views_said if view.by_person and not is_acknowledgement(view.said)}
    told = [entry.text for entry in outcome.ledger.entries if entry.speaker is Speaker.USER]
    assert {" ".join(text.split()) for text in told} == {" ".join(text.split()) for text in said_so}


def test_a_wide_compaction_shows_again_what_a_tight_one_left_out() -> None:
    """The state is made from the ledger each time, so an earlier small window has no effect."""
    rules = [f"Never touch locks/part_{number}.lock, not even when the tests ask for it." for number in range(60)]
    rollout = Rollout([said("Port the parser."), *(item for rule in rules for item in (said(rule), answered("Good. " * 60)))])
    tight = run(rollout, target="1000")
    assert tight.report.left_out > 10
    assert f"{tight.report.left_out} messages of the user (#" in render_state(tight.ledger)
    rollout.add(turns(1, 30, words=200))
    wide = run(rollout)
    assert wide.report.left_out == 0
    shown = "\n".join(view.text for view in views(rollout.history()))
    assert [rule for rule in rules if rule not in shown] == []


def test_what_was_left_out_comes_back_the_same_however_it_was_compacted() -> None:
    """Three tight compactions in between or none: the ledger holds the same messages in the same order."""

    def messages(*, tight: int) -> list[tuple[str, tuple[int, ...]]]:
        rollout = Rollout(turns(1, 10))
        for number in range(1, 4):
            if number <= tight:
                run(rollout, target="1")
            rollout.add([said(f"Keep port {number} free."), answered("Good."), *turns(10 * number + 1, 10 * number + 10)])
        ledger = run(rollout).ledger
        found = [entry for entry in ledger.section(Section.ACTIVE) if entry.speaker is Speaker.USER]
        return [(entry.text, tuple(source.ordinal for source in entry.sources)) for entry in found]

    assert messages(tight=3) == messages(tight=1) == messages(tight=0)


def test_the_window_remembers_by_its_checkpoint() -> None:
    """What the next compaction begins with is what the last one stored."""
    rollout = Rollout(turns(1, 30))
    outcome = run(rollout)
    assert read_ledger(rollout.history()) == outcome.ledger


def test_a_checkpoint_does_not_grow_with_the_bytes_it_keeps() -> None:
    """Kept items are named, not copied."""

    def size(length: int) -> int:
        rollout = Rollout([environment("/src" * length), *turns(1, 30)])
        outcome = run(rollout)
        assert rollout.history().items[0] == RESPONSES.parse(environment("/src" * length))
        return len(encode_body(outcome.checkpoint))

    assert abs(size(10_000) - size(5_000)) < 10


def test_checkpoints_over_unchanged_kept_items_stay_small() -> None:
    """Fifty compactions name what they keep fifty times, in small records."""
    rollout = Rollout([said("Remember this."), answered("x" * 3_000)])
    sizes = []
    for number in range(10):
        rollout.add(turns(10 * number + 1, 10 * number + 10, words=120))
        sizes.append(len(encode_body(run(rollout).checkpoint)))
    assert max(sizes) < 40_000


def test_a_running_call_is_still_there_when_its_output_arrives() -> None:
    """A compaction while a tool runs leaves room for what it returns."""
    patch = "+ line of the patch\n" * 900
    rollout = Rollout([*turns(1, 20), said("Apply the patch."), call("patch", patch)])
    run(rollout)
    rollout.add([output("patch", "done")])
    assert find_orphans(views(rollout.history())) == []


def test_a_thought_waits_for_what_it_leads_to() -> None:
    """Reasoning that came last belongs to the next item; a provider refuses one without the other."""
    rollout = Rollout([*turns(1, 20), said("Go on."), reasoning("thought" * 600)])
    run(rollout, target="1")
    assert RESPONSES.parse(reasoning("thought" * 600)) in rollout.history().items


def test_the_validator_notices_that_the_request_is_gone() -> None:
    """The state in the user's role does not stand in for a request."""
    state = RESPONSES.view(RESPONSES.make_user_message(render_state(Ledger())))
    request = RESPONSES.view(RESPONSES.parse(said("Do it.")))
    assert find_faults([request], [state]) == ["no request of a person is left"]


def test_the_request_stands_last_where_nothing_followed_it() -> None:
    """Host context, the state, then what to do now."""
    rollout = Rollout([environment("/src"), *turns(1, 20), said("Now do the last part, please.")])
    run(rollout, target="1")
    assert rollout.history().items[-1] == RESPONSES.parse(said("Now do the last part, please."))


def test_in_a_tiny_window_messages_come_before_what_the_agent_found() -> None:
    """While one of them is left to recall, no finding and no turn takes its room; in a wide window both are told."""
    rules = [f"Never touch locks/part_{number}.lock, not even when the tests ask for it." for number in range(60)]
    found = "The lock of part_{} is held by `keeper.py` until the queue of {} entries is empty."
    talk = [item for n, rule in enumerate(rules) for item in (said(rule), answered(found.format(n, n + 40)))]
    tiny, wide = (run(Rollout([said("Port the parser."), *talk]), target=target) for target in ("1000", None))

    def told_by_code(outcome: Outcome) -> int:
        told = [entry for entry in outcome.ledger.entries if entry.id not in outcome.ledger.left_out]
        return sum(entry.speaker in (Speaker.AGENT, Speaker.COMPUTED) for entry in told)

    assert tiny.report.left_out > 0
    assert (told_by_code(tiny), told_by_code(wide) > 0) == (0, True)
