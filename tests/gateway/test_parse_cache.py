"""A body is taken apart the same whether or not its beginning was seen before."""

from __future__ import annotations

import asyncio
import json
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.dialects import DIALECTS, Dialect, Request
from threadkeep.gateway.conversation.parse_cache import SHORTEST_BYTES, ParseCache

# Long enough that the splitter does not leave it to the dialect.
LONG = "x" * SHORTEST_BYTES
DIALECT = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)

texts = st.text(max_size=8) | st.sampled_from(('"messages":[', '"input":[{', "]}", '\\"]', "\ud83d"))
items = st.lists(st.fixed_dictionaries({"role": st.sampled_from(("system", "user", "assistant")), "content": texts}), max_size=4)
spaces = st.sampled_from(("", " ", "\n\t", "  "))


def written(dialect: Dialect, history: list[Any], *, before: str = "", after: str = "", space: str = "") -> bytes:
    """Return a request as a client would write it, with fields around its history."""
    separators = (f"{space},{space}", f"{space}:{space}")
    spelt = [json.dumps(item, separators=separators) for item in history]
    listed = f"[{space}{separators[0].join(spelt)}{space}]"
    fields = [f'"model"{separators[1]}"{LONG}"', before, f'"{dialect.history_field}"{separators[1]}{listed}', after]
    return ("{" + separators[0].join(field for field in fields if field) + "}").encode()


def split(splits: ParseCache, body: bytes) -> Request | None:
    return asyncio.run(splits.split(body))[0]


@DIALECT
@given(
    history=st.lists(items, min_size=1, max_size=5),
    space=spaces,
    before=st.sampled_from(
        ("", '"a":[1]', '"messages":[{"role":"user","content":"no"}]', '"nested":{"input":[{}],"messages":[{}]}')
    ),
    after=st.sampled_from(("", '"tools":[{"a":"]"}]', '"input":[]', '"messages":[{"role":"user","content":"last"}]', '"tools":')),
)
def test_a_growing_history_is_taken_apart_as_if_each_body_were_new(
    dialect: Dialect, history: list[list[Any]], space: str, before: str, after: str
) -> None:
    """Whatever stands around the history, and however it is spelt: fields, head and items are the same."""
    splits = ParseCache(dialect)
    for extend in accumulate(history):
        body = written(dialect, extend, before=before, after=after, space=space)
        assert split(splits, body) == dialect.split(body)


@DIALECT
def test_a_history_that_was_edited_or_cut_is_read_anew(dialect: Dialect) -> None:
    """A client that rewrites, shortens or empties its history gets what it wrote."""
    said = [{"role": "user", "content": f"{number}"} for number in range(4)]
    splits = ParseCache(dialect)
    for history in (said, [*said[:2], {"role": "user", "content": "other"}], said[:3], [], [*said, said[0]]):
        body = written(dialect, history)
        assert split(splits, body) == dialect.split(body)


@DIALECT
@pytest.mark.parametrize("second", ["[]", '[{"role":"user","content":"1"}]', "null", '"text"'])
def test_of_two_histories_in_one_body_the_last_counts(dialect: Dialect, second: str) -> None:
    """A second field of the history's name, behind one that is known, is what a provider would read."""
    said = [{"role": "user", "content": f"{number}"} for number in range(2)]
    splits = ParseCache(dialect)
    for history in (said[:1], said):
        assert split(splits, written(dialect, said[:1])) == dialect.split(written(dialect, said[:1]))
        body = written(dialect, history, after=f'"{dialect.history_field}":{second}')
        assert split(splits, body) == dialect.split(body)


@DIALECT
def test_items_that_were_read_before_are_the_same_objects(dialect: Dialect) -> None:
    """The beginning is not read again."""
    said = [{"role": "user", "content": f"{number}"} for number in range(4)]
    splits = ParseCache(dialect)
    earlier, later = split(splits, written(dialect, said[:3])), split(splits, written(dialect, said))
    assert earlier is not None
    assert later is not None
    assert [id(item) for item in later.items[:3]] == [id(item) for item in earlier.items]


@DIALECT
def test_no_more_is_remembered_than_fits(dialect: Dialect) -> None:
    """Beginnings beyond the limit are forgotten, oldest first, and their bodies still read right."""
    splits = ParseCache(dialect, limit_bytes=3 * SHORTEST_BYTES)
    bodies = [
        written(dialect, [{"role": "user", "content": f"{number}"}]).replace(b"model", b"model%d" % number) for number in range(9)
    ]
    for body in [*bodies, *bodies]:
        assert split(splits, body) == dialect.split(body)
        assert splits.remembered_bytes <= 3 * SHORTEST_BYTES
