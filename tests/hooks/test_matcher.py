"""Which hooks run on which occasion."""

from __future__ import annotations

import pytest
from tests.hooks.samples import committed, compaction, started

from threadkeep.errors import BadInput
from threadkeep.hooks import CommandHook, Facts, HookEvent, Hooks, Matcher


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        (None, ["manual", "auto"]),
        ("", ["manual", "auto"]),
        ("*", ["manual", "auto"]),
        ("manual", ["manual"]),
        ("manual|auto", ["manual", "auto"]),
        ("auto|other", ["auto"]),
        ("man", []),
        ("Manual", []),
        ("^man", ["manual"]),
        ("u.o$", ["auto"]),
        ("(manual)", ["manual"]),
        ("[^x]*", ["manual", "auto"]),
    ],
)
def test_words_are_exact_and_everything_else_is_searched_for(pattern: str | None, matched: list[str]) -> None:
    """Nothing and a star match all, words match whole, a regular expression anywhere."""
    assert [trigger for trigger in ("manual", "auto") if Matcher(pattern).matches(trigger)] == matched


@pytest.mark.parametrize("pattern", ["(manual", "a{99999999999}", "(" * 5_000])
def test_what_is_no_regular_expression_is_refused(pattern: str) -> None:
    """At once, with the pattern named, whatever is wrong with it."""
    with pytest.raises(BadInput) as caught:
        Matcher(pattern)
    assert str(caught.value).startswith(f"{pattern!r} is no matcher: ")


def test_hooks_run_in_configured_order_on_their_event_alone_and_twice_if_configured_twice() -> None:
    """The trigger decides for compactions, the source for starts."""
    first, second, third, start = (CommandHook(command=("true",), name=name) for name in ("first", "second", "third", "start"))
    hooks = (
        Hooks()
        .on(HookEvent.PRE_COMPACT, first, matcher="auto")
        .on(HookEvent.POST_COMPACT, third)
        .on(HookEvent.PRE_COMPACT, second)
        .on(HookEvent.PRE_COMPACT, second, matcher="manual")
        .on(HookEvent.SESSION_START, start, matcher="compact|resume")
    )
    occasions: list[Facts] = [
        compaction(trigger="auto"),
        compaction(trigger="manual"),
        committed(),
        started(source="compact"),
        started(source="startup"),
    ]
    assert [hooks.select(facts) for facts in occasions] == [(first, second), (second, second), (third,), (start,), ()]
