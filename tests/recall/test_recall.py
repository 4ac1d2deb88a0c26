"""Originals back, by pointer or by words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.histories import answered, call, output, said, turns

from holdfast import Holdfast
from holdfast.errors import RecordNotFound
from holdfast.recall import excerpt
from holdfast.recall.recall import EXCERPT_CHARS

pytestmark = pytest.mark.anyio


async def test_every_pointer_a_compaction_leaves_leads_to_the_original(hf: Holdfast) -> None:
    """What a stub or an entry names is there in full."""
    thread = await hf.thread("t")
    long = "the staging database listens on 5433\n" * 80
    await thread.record([said("Find the port."), call("a"), output("a", long), answered("5433."), *turns(1, 4)])
    await thread.compact(target="1")
    (recalled,) = await thread.recall("#4")
    assert (recalled.text, recalled.score, str(recalled.pointer)) == (long, 1.0, "t#4")
    for entry in (await thread.state()).entries:
        for source in entry.sources:
            (found,) = await thread.recall(str(source))
            assert found.pointer == source


async def test_words_find_what_was_compacted_away(hf: Holdfast) -> None:
    """The best match comes first, quoted where it matches."""
    thread = await hf.thread("t")
    filler = "nothing of interest in this line of the log\n" * 60
    await thread.record([said("Look."), call("a"), output("a", f"{filler}zanzibar port 5433\n{filler}"), *turns(1, 4)])
    await thread.compact(target="1")
    hits = await thread.recall("which port has zanzibar?")
    assert str(hits[0].pointer) == "t#4"
    assert "zanzibar port 5433" in hits[0].text
    assert len(hits[0].text) <= EXCERPT_CHARS + 2


async def test_cjk_words_are_found(hf: Holdfast) -> None:
    """A script without spaces is searched like any other."""
    thread = await hf.thread("t")
    await thread.record([said("测试数据库的端口是5433。"), answered("好的。"), *turns(1, 3)])
    hits = await thread.recall("数据库端口")
    assert str(hits[0].pointer) == "t#2"


async def test_what_was_rolled_back_is_not_found_by_words_but_by_pointer(hf: Holdfast) -> None:
    """Search follows the live path; a pointer leads anywhere in the thread."""
    thread = await hf.thread("t")
    await thread.record(turns(1, 1))
    await thread.record([said("The code word is marmalade.")])
    last = (await thread.records())[-1].ordinal
    await thread.rollback(turns=1)
    assert await thread.recall("marmalade") == []
    (found,) = await thread.recall(f"#{last}")
    assert found.text == "The code word is marmalade."


async def test_a_fork_recalls_what_its_ancestors_said_and_not_what_they_said_later(hf: Holdfast) -> None:
    """`#N` means one record wherever it is read."""
    parent = await hf.thread("p")
    await parent.record([said("The code word is marmalade.")])
    child = await (await parent.fork(new_id="c")).fork(new_id="d")
    await parent.record([said("The other word is turnip.")])
    await child.record([said("And here it is parsnip.")])
    (by_pointer,) = await child.recall("#2")
    assert (str(by_pointer.pointer), by_pointer.text) == ("p#2", "The code word is marmalade.")
    assert [str(hit.pointer) for hit in await child.recall("marmalade")] == ["p#2"]
    assert await child.recall("turnip") == []


async def test_a_pointer_to_nothing_is_an_error(hf: Holdfast) -> None:
    """Named as it was asked for."""
    thread = await hf.thread("t")
    for pointer in ("#99", "nobody#1"):
        with pytest.raises(RecordNotFound):
            await thread.recall(pointer)


@pytest.mark.parametrize("query", ["", "   ", '"', "NEAR(", "* OR -", "😀", "\x00", "a" * 5_000])
async def test_no_query_breaks_the_search(hf: Holdfast, query: str) -> None:
    """Operators and noise are words or nothing."""
    thread = await hf.thread("t")
    await thread.record([said("Hello there.")])
    assert await thread.recall(query) == []


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=2_000), st.text(max_size=30))
def test_an_excerpt_is_a_stretch_of_the_text(text: str, query: str) -> None:
    """Nothing is made up, and nothing is longer than asked for."""
    quoted = excerpt(text, query)
    assert quoted.strip("…") in text or quoted in text
    assert len(quoted) <= EXCERPT_CHARS + 2
