"""What a store must do for each optional port it has: search, leases, erasure, notify.

Run them as `threadkeep.testing.store_checks` says. `CHECKS` are those of every port, for a store that has them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from threadkeep.errors import StoreClosed, ThreadNotFound
from threadkeep.store.base import Erasure, Leases, Notify, RecordKind, Search, Span, ThreadStore, Watch
from threadkeep.testing.expectations import expect, expect_error
from threadkeep.testing.store_checks import (
    THREAD_STORE_CHECKS,
    StoreMaker,
    expected_record,
    new_record,
    new_thread,
    open_store,
    read_bodies,
    read_erased,
    whole_span,
)


class SearchableStore(ThreadStore, Search, Protocol):
    """A store that finds words."""


async def check_search(make: StoreMaker[SearchableStore]) -> None:
    """Search ranks records that hold any word, includes what was just appended, and reads its query as words only.

    A closed store refuses it.
    """
    texts = ["staging runs on port 8443", "the port is closed", "配置文件在这里，端口是八千"]
    async with open_store(make) as store:
        await store.create(new_thread("t"), [new_record(text.encode()) for text in texts])
        await store.append("t", [new_record(b"port staging", kind=RecordKind.NOTE), new_record(b"\xff\0")], expected=3)

        async def search(query: str, *, spans: tuple[Span, ...] = (whole_span("t"),), limit: int = 10) -> list[int]:
            hits = await store.search(spans, query, limit=limit)
            scores = [hit.score for hit in hits]
            expect(scores, sorted(scores, reverse=True), "the best match comes first")
            return [hit.ordinal for hit in hits]

        expect(await search("staging port"), [0, 1], "more matching words rank higher, and only items are found")
        expect(await search("STAGING"), [0], "case does not matter")
        expect(await search("哪个端口？"), [2], "words of scripts without spaces are found")
        expect(await search("港"), [], "and others are not")
        expect(await search(""), [], "no word, no hit")
        expect(await search(' "*() -^: __ '), [], "signs are not words")
        for hostile in ('staging" OR "', "text:staging", "staging*", "staging NOT x", "NEAR(staging x)", "{text}: staging\0"):
            expect(await search(hostile), [0], f"{hostile!r} is words, not syntax")
        expect(await search("port", limit=1), [1], "a limit keeps the best")
        expect(await search("port", spans=()), [], "no span, no hit")
        overlapping = (Span(thread_id="t", start=1, stop=9), whole_span("t"), whole_span("nobody"))
        expect(await search("port", spans=overlapping), [1, 0], "a record is one hit however many spans hold it")
        expect(await search("port", spans=(Span(thread_id="t", start=0, stop=1),)), [0], "a span bounds the search")
        await store.append("t", [new_record(b"a port appended after the first search")], expected=5)
        expect(sorted(await search("appended")), [5], "what was just appended is found")
        expect(await search(" ".join(f"w{number}" for number in range(2000)) + " closed"), [1], "a long query is still words")
    with expect_error(StoreClosed, "a closed store does nothing"):
        await store.search([whole_span("t")], "word", limit=1)


async def check_search_inside_names(make: StoreMaker[SearchableStore]) -> None:
    """Each part of a path, a host, an address, a version or an identifier is a word."""
    texts = ["see src/api/part_7.py:12", "at staging.example.org/v2?x=anchor", "mail a.person@kelp.test", "pinned to 3.14.2-rc5"]
    asked = {"part_7": 0, "part_7.py": 0, "api": 0, "example": 1, "anchor": 1, "kelp": 2, "person": 2, "rc5": 3}
    async with open_store(make) as store:
        await store.create(new_thread("t"), [new_record(text.encode()) for text in texts])
        for query, ordinal in asked.items():
            hits = await store.search([whole_span("t")], query, limit=10)
            expect([hit.ordinal for hit in hits], [ordinal], f"{query} is a word of it")


async def check_search_stays_in_tenant(make: StoreMaker[SearchableStore]) -> None:
    """A tenant finds only its own words, even where another has a thread of the same name and bytes."""
    async with open_store(make) as ours:
        theirs = await make(tenant="theirs", beside=ours)
        try:
            await ours.create(new_thread("t"), [new_record(b"secret word")])
            expect(await theirs.search([whole_span("t")], "secret", limit=5), [], "words are not found by others")
            await theirs.create(new_thread("t"), [new_record(b"own"), new_record(b"secret word")])
            expect([hit.ordinal for hit in await theirs.search([whole_span("t")], "secret", limit=5)], [1], "each finds its own")
            expect([hit.ordinal for hit in await ours.search([whole_span("t")], "secret", limit=5)], [0], "each finds its own")
        finally:
            await theirs.close()


async def check_index_catches_up(make: StoreMaker[SearchableStore]) -> None:
    """One search finds all of many records that no search has seen, however large, and whatever their texts hold."""
    texts = [b"needle w%d" % number for number in range(1_100)]
    texts += [b"needle " + b"x" * 5_000_000, b"needle ahead \xff\0 abaft", b"needle last"]
    async with open_store(make) as store:
        await store.create(new_thread("t"), [new_record(text) for text in texts])

        async def search(word: str) -> list[int]:
            return sorted(hit.ordinal for hit in await store.search([whole_span("t")], word, limit=2_000))

        expect(await search("needle"), list(range(len(texts))), "every record is found")
        expect(await search("w511"), [511], "and by its own word")
        hostile, last = len(texts) - 2, len(texts) - 1
        found = [await search(word) for word in ("ahead", "abaft", "last")]
        expect(found, [[hostile], [hostile], [last]], "bytes that are no text hide neither their neighbours nor what follows")


async def check_openers_share_the_index(make: StoreMaker[SearchableStore]) -> None:
    """Searches through two openers of one place find each record once, whoever appended and whoever searched first."""
    async with open_store(make) as first:
        second = await make(beside=first)
        try:
            await first.create(new_thread("t"), [new_record(b"needle")])
            hits = await first.search([whole_span("t")], "needle", limit=9)
            expect(await second.search([whole_span("t")], "needle", limit=9), hits, "both find the same")
            await second.append("t", [new_record(b"needle too")], expected=1)
            both = await first.search([whole_span("t")], "needle", limit=9)
            expect(sorted(hit.ordinal for hit in both), [0, 1], "each record is one hit")
        finally:
            await second.close()


SEARCH_CHECKS: tuple[Callable[[StoreMaker[SearchableStore]], Awaitable[None]], ...] = (
    check_search,
    check_search_inside_names,
    check_search_stays_in_tenant,
    check_index_catches_up,
    check_openers_share_the_index,
)


class LeasingStore(ThreadStore, Leases, Protocol):
    """A store that gives leases."""


async def check_lease_has_one_holder(make: StoreMaker[LeasingStore]) -> None:
    """A lease has one holder until it expires or that holder releases it; a closed store gives and takes none."""
    async with open_store(make) as store:

        async def try_acquire(holder: str, now_ms: int, *, key: str = "k") -> str:
            return "taken" if await store.acquire(key, holder=holder, now_ms=now_ms, ttl_ms=10) else "held"

        expect(await try_acquire("a", 0), "taken", "a free lease is taken")
        expect(await try_acquire("b", 9), "held", "a held lease is not")
        expect(await try_acquire("b", 9, key="other"), "taken", "keys do not hinder each other")
        expect(await try_acquire("a", 9), "taken", "its holder renews it")
        expect(await try_acquire("b", 18), "held", "renewal moved the expiry")
        expect(await try_acquire("b", 19), "taken", "an expired lease is free")
        await store.release("k", holder="a")
        expect(await try_acquire("a", 20), "held", "only its holder gives a lease back")
        await store.release("k", holder="b")
        expect(await try_acquire("a", 20), "taken", "a lease given back is free")
        racers = await asyncio.gather(*(try_acquire(f"h{number}", 0, key="race") for number in range(20)))
        expect(racers.count("taken"), 1, "of many at once, one gets it")
    with expect_error(StoreClosed, "a closed store does nothing"):
        await store.acquire("k", holder="a", now_ms=0, ttl_ms=1)
    with expect_error(StoreClosed, "a closed store does nothing"):
        await store.release("k", holder="a")


async def check_lease_after_clock_jump(make: StoreMaker[LeasingStore]) -> None:
    """After the clock jumps back, a lease lasts its own term once more, and no longer."""
    async with open_store(make) as store:

        async def try_acquire(holder: str, now_ms: int, *, ttl_ms: int = 10) -> str:
            return "taken" if await store.acquire("k", holder=holder, now_ms=now_ms, ttl_ms=ttl_ms) else "held"

        expect(await try_acquire("a", 1_000_000), "taken", "a free lease is taken")
        expect(await try_acquire("b", 5, ttl_ms=500), "held", "a clock that went back does not free it at once")
        expect(await try_acquire("b", 14, ttl_ms=500), "held", "its term runs from where the clock is now")
        expect(await try_acquire("b", 15, ttl_ms=500), "taken", "and is its own, not the next holder's")
        expect(await try_acquire("a", 400), "held", "a clock that went on changes nothing")
        expect(await try_acquire("b", 100, ttl_ms=20), "taken", "its holder renews it on any clock")
        expect(await try_acquire("a", 120), "taken", "for the term it asked for")


async def check_lease_stays_in_tenant(make: StoreMaker[LeasingStore]) -> None:
    """Two tenants in one place hold a lease of the same key at once; another opener of the same tenant does not."""
    async with open_store(make) as ours:
        theirs, beside = await make(tenant="theirs", beside=ours), await make(beside=ours)
        try:
            askers = ((ours, "a"), (theirs, "b"), (beside, "c"))
            holders = [name for store, name in askers if await store.acquire("job", holder=name, now_ms=0, ttl_ms=9)]
            expect(holders, ["a", "b"], "tenants do not hinder each other; openers see each other's leases")
        finally:
            await theirs.close()
            await beside.close()


LEASE_CHECKS: tuple[Callable[[StoreMaker[LeasingStore]], Awaitable[None]], ...] = (
    check_lease_has_one_holder,
    check_lease_after_clock_jump,
    check_lease_stays_in_tenant,
)


class ErasingStore(ThreadStore, Search, Erasure, Protocol):
    """A store that erases, also from its search index."""


async def check_erased_body_is_gone(make: StoreMaker[ErasingStore]) -> None:
    """The bytes are gone; ordinal, digests, kind, figures and neighbours stay, and appends still work."""
    records = [
        new_record(b"kept"),
        new_record(b"secret" * 500, chain=b"1" * 16, depth=1, turn=3),
        new_record(b"also kept", chain=b"2" * 16, depth=2),
    ]
    kept = [expected_record("t", at, record) for at, record in enumerate(records)]
    async with open_store(make) as store:
        await store.create(new_thread("t"), records)
        expect(await store.erase("t", [1, 1, 99], at_ms=7), 1, "the records that lost their body are counted")
        expect(
            await store.read(whole_span("t")),
            [kept[0], replace(kept[1], body=b"", erased=True), kept[2]],
            "only its body is gone",
        )
        without = await store.read(whole_span("t"), bodies=False)
        expect([record.erased for record in without], [False, True, False], "it says so without bodies too")
        expect([found.ordinal for found in await store.lookup([b"1" * 16])], [1], "its chain digest still finds it")
        expect(await store.erase("t", [1], at_ms=8), 0, "what is gone cannot be erased again")
        expect(await store.erase("t", [], at_ms=8), 0, "no ordinal, no record")
        expect(await store.append("t", [new_record(b"next")], expected=3), 4, "the thread goes on")
        with expect_error(ThreadNotFound, "an unknown thread has nothing to erase"):
            await store.erase("nobody", [0], at_ms=7)
    with expect_error(StoreClosed, "a closed store does nothing"):
        await store.erase("t", [0], at_ms=7)


async def check_shared_bytes_are_erased(make: StoreMaker[ErasingStore]) -> None:
    """Every record of the tenant with the same bytes loses them, whatever its thread or kind; another tenant's keeps them."""
    async with open_store(make) as ours:
        theirs = await make(tenant="theirs", beside=ours)
        try:
            for store in (ours, theirs):
                await store.create(
                    new_thread("t"), [new_record(b"same"), new_record(b"other"), new_record(b"same", kind=RecordKind.NOTE)]
                )
                await store.create(new_thread("u"), [new_record(b"same")])
            expect(await ours.erase("t", [0], at_ms=7), 3, "each record that lost its body is counted")
            expect(await read_erased(ours, "t"), [True, False, True], "in the same thread")
            expect(await read_erased(ours, "u"), [True], "and in another")
            expect(await read_bodies(theirs, "t"), [b"same", b"other", b"same"], "other tenants keep theirs")
            expect(await read_erased(theirs, "u"), [False], "other tenants keep theirs")
        finally:
            await theirs.close()


async def check_erased_bytes_can_return(make: StoreMaker[ErasingStore]) -> None:
    """Erased bytes can be appended again: the new record has them, the old one stays erased, and both can be erased."""
    async with open_store(make) as store:
        await store.create(new_thread("t"), [new_record(b"said")])
        await store.erase("t", [0], at_ms=7)
        await store.append("t", [new_record(b"said"), new_record(b"said")], expected=1)
        expect(await read_bodies(store, "t"), [b"", b"said", b"said"], "only what came later is there")
        expect(await read_erased(store, "t"), [True, False, False], "the old record stays erased")
        expect(len({r.digest for r in await store.read(whole_span("t"))}), 1, "all three are known by the same digest")
        expect(await store.erase("t", [2], at_ms=8), 2, "it can be erased again")
        expect(await read_erased(store, "t"), [True, True, True], "and all are gone")


async def check_search_forgets_erased_words(make: StoreMaker[ErasingStore]) -> None:
    """Words of an erased record are not found, whether it was indexed before or not; all others are."""
    async with open_store(make) as store:
        await store.create(new_thread("t"), [new_record(b"port secret"), new_record(b"port open"), new_record(b"port hidden")])

        async def search(word: str) -> list[int]:
            return sorted(hit.ordinal for hit in await store.search([whole_span("t")], word, limit=9))

        expect(await search("port"), [0, 1, 2], "all are there")
        await store.append("t", [new_record(b"port late"), new_record(b"port last")], expected=3)
        expect(await store.erase("t", [0, 3], at_ms=7), 2, "one was indexed, one was not")
        expect(await search("port"), [1, 2, 4], "the others are found")
        expect(await search("secret"), [], "an indexed word is forgotten")
        expect(await search("late"), [], "a word that waited for the index never enters it")
        await store.append("t", [new_record(b"port secret")], expected=5)
        expect(await search("secret"), [5], "appended anew it is found where it now stands")


ERASURE_CHECKS: tuple[Callable[[StoreMaker[ErasingStore]], Awaitable[None]], ...] = (
    check_erased_body_is_gone,
    check_shared_bytes_are_erased,
    check_erased_bytes_can_return,
    check_search_forgets_erased_words,
)


# Long enough for any machine; nothing waits for it to pass.
PATIENCE_SECONDS = 30.0


class NotifyingStore(ThreadStore, Notify, Protocol):
    """A store that reports changes."""


async def wait_for_change(watch: Watch) -> str:
    """Return "told" once the watch reports a change, "never told" if none comes in time."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await watch.wait(within_s=PATIENCE_SECONDS):
                pass
    except TimeoutError:
        return "never told"
    return "told"


async def drain_watch(watch: Watch) -> None:
    """Read what a watch reports about its own start."""
    while await watch.wait(within_s=0.05):
        pass


async def check_other_writers_notify(make: StoreMaker[NotifyingStore]) -> None:
    """A watch of one thread, or of all, reports what another opener of the store wrote."""
    async with open_store(make) as store:
        await store.create(new_thread("t"), [])
        beside = await make(beside=store)
        try:
            for ordinal, kind in enumerate((RecordKind.MAIL, RecordKind.CHECKPOINT)):
                async with store.watch("t") as one, store.watch() as every:
                    await drain_watch(one)
                    await drain_watch(every)
                    await beside.append("t", [new_record(b"{}", kind=kind)], expected=ordinal)
                    expect([await wait_for_change(one), await wait_for_change(every)], ["told", "told"], f"a {kind} is reported")
            async with store.watch() as every:
                await drain_watch(every)
                await beside.create(new_thread("u"), [new_record(b"{}", kind=RecordKind.MAIL)])
                expect(await wait_for_change(every), "told", "the first record of a new thread is reported too")
        finally:
            await beside.close()


async def check_no_change_is_missed(make: StoreMaker[NotifyingStore]) -> None:
    """Mail that arrives inside the block before anyone waits is reported to the next wait."""
    async with open_store(make) as store:
        await store.create(new_thread("t"), [])
        async with store.watch("t") as watch:
            await drain_watch(watch)
            await store.append("t", [new_record(b"{}", kind=RecordKind.MAIL)], expected=0)
            expect(await wait_for_change(watch), "told", "a change before the wait is still reported")


async def check_watch_needs_thread(make: StoreMaker[NotifyingStore]) -> None:
    """Watching an unknown thread raises `ThreadNotFound`, watching a closed store `StoreClosed`."""
    store = await make()
    with expect_error(ThreadNotFound, "an unknown thread cannot be watched"):
        async with store.watch("nobody"):
            pass
    await store.close()
    with expect_error(StoreClosed, "a closed store cannot be watched"):
        async with store.watch():
            pass


NOTIFY_CHECKS: tuple[Callable[[StoreMaker[NotifyingStore]], Awaitable[None]], ...] = (
    check_other_writers_notify,
    check_no_change_is_missed,
    check_watch_needs_thread,
)


class WholeStore(ThreadStore, Search, Leases, Erasure, Notify, Protocol):
    """A store with every optional port."""


Check = Callable[[StoreMaker[WholeStore]], Awaitable[None]]

CHECKS: tuple[Check, ...] = (*THREAD_STORE_CHECKS, *SEARCH_CHECKS, *LEASE_CHECKS, *ERASURE_CHECKS, *NOTIFY_CHECKS)
