"""Pointers as people and models write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.errors import InvalidPointer
from threadkeep.threads import Pointer, parse_pointer


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", fullmatch=True), st.integers(0, 10**15 - 1))
def test_a_written_pointer_reads_as_itself(thread_id: str, ordinal: int) -> None:
    """Every thread that can have a name can be pointed at."""
    pointer = Pointer(thread_id, ordinal)
    assert parse_pointer(str(pointer)) == pointer


def test_a_bare_ordinal_is_a_record_of_the_thread_at_hand() -> None:
    """`#12` needs to know within which thread."""
    assert parse_pointer(" #12 ", within="t") == Pointer("t", 12)
    with pytest.raises(InvalidPointer):
        parse_pointer("#12")


@pytest.mark.parametrize("text", ["", "12", "t#", "t#-1", "a b#1", "#1#2", "t#1 and more", "-t#1", "t#" + "1" * 16])
def test_what_is_no_pointer_is_refused(text: str) -> None:
    """A question that merely contains one is a question."""
    with pytest.raises(InvalidPointer):
        parse_pointer(text, within="t")
