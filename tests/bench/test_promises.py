"""docs/promises.md and the suite say the same."""

from __future__ import annotations

import pytest
from tests.bench.promises import FEWEST_TESTS, PAGE, PROMISES, ROOT, Promise, found_in, page


def test_there_are_twelve_promises_in_order() -> None:
    """Numbered without a gap."""
    assert [promise.number for promise in PROMISES] == list(range(1, 13))


@pytest.mark.parametrize("promise", PROMISES, ids=[f"promise-{promise.number}" for promise in PROMISES])
def test_a_promise_has_tests_that_exist_and_are_meant_to_pass(promise: Promise) -> None:
    """At least three, none of them named twice or expected to fail."""
    named = [(ROOT / "tests" / file, name) for file, _, name in (test.partition("::") for test in promise.tests)]
    assert len(set(named)) == len(named) >= FEWEST_TESTS
    assert [name for file, name in named if found_in(file).get(name) is not False] == []


def test_the_page_is_what_the_suite_says() -> None:
    """`python -m tests.bench.promises` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page()
