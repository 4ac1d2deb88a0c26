"""What a compaction sheds and re-bills, and when it pays to wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.histories import RESPONSES, answered, said

from holdfast.compaction.worth import Worth, worth_of
from holdfast.items import Item
from holdfast.tokens import estimate_item

tokens = st.integers(min_value=0, max_value=1_000_000)


def size(*items: Item) -> int:
    return sum(estimate_item(item.raw) for item in items)


def test_what_both_windows_begin_with_is_not_read_anew() -> None:
    """Only what stands behind the first difference misses the cache."""
    told = [said("Rules."), answered("A long answer. " * 50), said("The state."), said("Go on.")]
    head, old, new, last = (RESPONSES.parse(item) for item in told)
    expected = Worth(sheds=size(old) - size(new), rebills=size(new, last))
    assert worth_of([head, old, last], [head, new, last]) == expected


def test_far_from_the_limit_a_shorter_window_pays() -> None:
    """A hundred more requests at a tenth of 90,000 tokens outweigh reading 10,000 anew."""
    assert not Worth(sheds=90_000, rebills=10_000).waiting_is_cheaper(room_tokens=100_000, growth_tokens=1_000)


def test_close_to_the_limit_it_pays_to_wait() -> None:
    """With one request left before it must happen anyway, doing it now saves nothing."""
    assert Worth(sheds=20_000, rebills=10_000).waiting_is_cheaper(room_tokens=1_000, growth_tokens=1_000)


def test_a_draft_that_costs_much_can_wait() -> None:
    """What a model reads and writes for it counts like what is read anew."""
    cheap = Worth(sheds=90_000, rebills=10_000)
    dear = Worth(sheds=90_000, rebills=10_000, asks=100_000)
    assert not cheap.waiting_is_cheaper(room_tokens=5_000, growth_tokens=1_000)
    assert dear.waiting_is_cheaper(room_tokens=5_000, growth_tokens=1_000)


@given(sheds=tokens, rebills=tokens, asks=tokens, growth=tokens)
def test_without_room_nobody_waits(sheds: int, rebills: int, asks: int, growth: int) -> None:
    """At the limit there is no choice, whatever it costs."""
    assert not Worth(sheds=sheds, rebills=rebills, asks=asks).waiting_is_cheaper(room_tokens=0, growth_tokens=growth)


@given(sheds=tokens, rebills=tokens, room=tokens, growth=tokens)
def test_shedding_more_never_makes_waiting_cheaper(sheds: int, rebills: int, room: int, growth: int) -> None:
    """If it pays now, it pays all the more with more to shed."""
    if not Worth(sheds=sheds, rebills=rebills).waiting_is_cheaper(room_tokens=room, growth_tokens=growth):
        assert not Worth(sheds=sheds + 1_000, rebills=rebills).waiting_is_cheaper(room_tokens=room, growth_tokens=growth)
