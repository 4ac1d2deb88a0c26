"""What every backend of the `Search` port must do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from threadkeep.errors import StoreClosed
from threadkeep.store.base import RecordKind, Search, Span, ThreadStore
from threadkeep.testing.store_facts import StoreMaker, expect, new, opened, refuses, thread, whole


class SearchableStore(ThreadStore, Search, Protocol):
    """A store that finds words."""


SearchMaker = StoreMaker[SearchableStore]


async def search_finds_words(make: SearchMaker) -> None:
    """Search ranks what holds any word, sees what was just appended, and takes its query as words only."""
    texts = ["staging runs on port 8443", "the port is closed", "配置文件在这里，端口是八千"]
    async with opened(make) as store:
        await store.create(thread("t"), [new(text.encode()) for text in texts])
        await store.append("t", [new(b"port staging", kind=RecordKind.NOTE), new(b"\xff\0")], expected=3)

        async def found(query: str, *, spans: tuple[Span, ...] = (whole("t"),), limit: int = 10) -> list[int]:
            hits = await store.search(spans, query, limit=limit)
            scores = [hit.score for hit in hits]
            expect(scores, sorted(scores, reverse=True), "the best match comes first")
            return [hit.ordinal for hit in hits]

        expect(await found("staging port"), [0, 1], "more matching words rank higher, and only items are found")
        expect(await found("STAGING"), [0], "case does not matter")
        expect(await found("哪个端口？"), [2], "words of scripts without spaces are found")
        expect(await found("港"), [], "and others are not")
        expect(await found(""), [], "no word, no hit")
        expect(await found(' "*() -^: __ '), [], "signs are not words")
        for hostile in ('staging" OR "', "text:staging", "staging*", "staging NOT x", "NEAR(staging x)", "{text}: staging\0"):
            expect(await found(hostile), [0], f"{hostile!r} is words, not syntax")
        expect(await found("port", limit=1), [1], "a limit keeps the best")
        expect(await found("port", spans=()), [], "no span, no hit")
        overlapping = (Span(thread_id="t", start=1, stop=9), whole("t"), whole("nobody"))
        expect(await found("port", spans=overlapping), [1, 0], "a record is one hit however many spans hold it")
        expect(await found("port", spans=(Span(thread_id="t", start=0, stop=1),)), [0], "a span bounds the search")
        await store.append("t", [new(b"a port appended after the first search")], expected=5)
        expect(sorted(await found("appended")), [5], "what was just appended is found")
        expect(await found(" ".join(f"w{number}" for number in range(2000)) + " closed"), [1], "a long query is still words")


async def words_are_found_inside_names(make: SearchMaker) -> None:
    """Parts of a path, a host, an address, a version or an identifier are words, wherever in it they stand."""
    texts = ["see src/api/part_7.py:12", "at staging.example.org/v2?x=anchor", "mail a.person@kelp.test", "pinned to 3.14.2-rc5"]
    asked = {"part_7": 0, "part_7.py": 0, "api": 0, "example": 1, "anchor": 1, "kelp": 2, "person": 2, "rc5": 3}
    async with opened(make) as store:
        await store.create(thread("t"), [new(text.encode()) for text in texts])
        for query, ordinal in asked.items():
            hits = await store.search([whole("t")], query, limit=10)
            expect([hit.ordinal for hit in hits], [ordinal], f"{query} is a word of it")


async def words_are_a_tenants_own(make: SearchMaker) -> None:
    """A tenant finds its own words and nobody else's, though both have a thread of that name with the same bytes."""
    async with opened(make) as ours:
        theirs = await make(tenant="theirs", beside=ours)
        try:
            await ours.create(thread("t"), [new(b"secret word")])
            expect(await theirs.search([whole("t")], "secret", limit=5), [], "words are not found by others")
            await theirs.create(thread("t"), [new(b"own"), new(b"secret word")])
            expect([hit.ordinal for hit in await theirs.search([whole("t")], "secret", limit=5)], [1], "each finds its own")
            expect([hit.ordinal for hit in await ours.search([whole("t")], "secret", limit=5)], [0], "each finds its own")
        finally:
            await theirs.close()


async def a_closed_store_finds_nothing(make: SearchMaker) -> None:
    """Searching a closed store raises `StoreClosed`."""
    store = await make()
    await store.close()
    with refuses(StoreClosed, "a closed store does nothing"):
        await store.search([whole("t")], "word", limit=1)


SEARCH_CHECKS: tuple[Callable[[SearchMaker], Awaitable[None]], ...] = (
    search_finds_words,
    words_are_found_inside_names,
    words_are_a_tenants_own,
    a_closed_store_finds_nothing,
)
