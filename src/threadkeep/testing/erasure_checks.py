"""What every backend of the `Erasure` port must do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from threadkeep.errors import StoreClosed, ThreadNotFound
from threadkeep.store.base import Erasure, Record, RecordKind, Search, ThreadStore
from threadkeep.testing.store_facts import StoreMaker, expect, new, opened, refuses, stored, thread, whole


class ErasingStore(ThreadStore, Search, Erasure, Protocol):
    """A store that erases, and whose index must not remember."""


ErasureMaker = StoreMaker[ErasingStore]


def tombstone(record: Record) -> Record:
    return replace(record, body=b"", erased=True)


async def an_erased_body_is_gone_and_its_record_stays(make: ErasureMaker) -> None:
    """The bytes go; ordinal, digests, kind, figures and neighbours stay, and the thread goes on."""
    records = [new(b"kept"), new(b"secret" * 500, chain=b"1" * 16, depth=1, turn=3), new(b"also kept", chain=b"2" * 16, depth=2)]
    kept = [stored("t", at, record) for at, record in enumerate(records)]
    async with opened(make) as store:
        await store.create(thread("t"), records)
        expect(await store.erase("t", [1, 1, 99], at_ms=7), 1, "the records that lost their body are counted")
        expect(await store.read(whole("t")), [kept[0], tombstone(kept[1]), kept[2]], "only its body is gone")
        without = await store.read(whole("t"), bodies=False)
        expect([record.erased for record in without], [False, True, False], "it says so without bodies too")
        expect([found.ordinal for found in await store.lookup([b"1" * 16])], [1], "its chain digest still finds it")
        expect(await store.erase("t", [1], at_ms=8), 0, "what is gone cannot be erased again")
        expect(await store.erase("t", [], at_ms=8), 0, "no ordinal, no record")
        expect(await store.append("t", [new(b"next")], expected=3), 4, "the thread goes on")
        with refuses(ThreadNotFound, "an unknown thread has nothing to erase"):
            await store.erase("nobody", [0], at_ms=7)


async def shared_bytes_are_erased_for_all_of_the_tenant(make: ErasureMaker) -> None:
    """Every record of the tenant with the same bytes loses them, whatever its thread or kind; another tenant's keeps them."""
    async with opened(make) as ours:
        theirs = await make(tenant="theirs", beside=ours)
        try:
            for store in (ours, theirs):
                await store.create(thread("t"), [new(b"same"), new(b"other"), new(b"same", kind=RecordKind.NOTE)])
                await store.create(thread("u"), [new(b"same")])
            expect(await ours.erase("t", [0], at_ms=7), 3, "each record that lost its body is counted")
            expect([r.erased for r in await ours.read(whole("t"))], [True, False, True], "in the same thread")
            expect([r.erased for r in await ours.read(whole("u"))], [True], "and in another")
            expect([r.body for r in await theirs.read(whole("t"))], [b"same", b"other", b"same"], "other tenants keep theirs")
            expect([r.erased for r in await theirs.read(whole("u"))], [False], "other tenants keep theirs")
        finally:
            await theirs.close()


async def erased_bytes_may_be_appended_anew(make: ErasureMaker) -> None:
    """Appending what was erased is a new act: the new record has its bytes, the old one stays erased, and both may go again."""
    async with opened(make) as store:
        await store.create(thread("t"), [new(b"said")])
        await store.erase("t", [0], at_ms=7)
        await store.append("t", [new(b"said"), new(b"said")], expected=1)
        expect([r.body for r in await store.read(whole("t"))], [b"", b"said", b"said"], "only what came later is there")
        expect([r.erased for r in await store.read(whole("t"))], [True, False, False], "the old record stays erased")
        expect(len({r.digest for r in await store.read(whole("t"))}), 1, "all three are known by the same digest")
        expect(await store.erase("t", [2], at_ms=8), 2, "it can be erased again")
        expect([r.erased for r in await store.read(whole("t"))], [True, True, True], "and all are gone")


async def search_forgets_what_was_erased(make: ErasureMaker) -> None:
    """Words of an erased record are found no more, whether it was indexed before or not; all others are."""
    async with opened(make) as store:
        await store.create(thread("t"), [new(b"port secret"), new(b"port open"), new(b"port hidden")])

        async def found(word: str) -> list[int]:
            return sorted(hit.ordinal for hit in await store.search([whole("t")], word, limit=9))

        expect(await found("port"), [0, 1, 2], "all are there")
        await store.append("t", [new(b"port late"), new(b"port last")], expected=3)
        expect(await store.erase("t", [0, 3], at_ms=7), 2, "one was indexed, one was not")
        expect(await found("port"), [1, 2, 4], "the others are found")
        expect(await found("secret"), [], "an indexed word is forgotten")
        expect(await found("late"), [], "a word that waited for the index never enters it")
        await store.append("t", [new(b"port secret")], expected=5)
        expect(await found("secret"), [5], "appended anew it is found where it now stands")


async def a_closed_store_erases_nothing(make: ErasureMaker) -> None:
    """Erasing in a closed store raises `StoreClosed`."""
    store = await make()
    await store.create(thread("t"), [new(b"kept")])
    await store.close()
    with refuses(StoreClosed, "a closed store does nothing"):
        await store.erase("t", [0], at_ms=7)


ERASURE_CHECKS: tuple[Callable[[ErasureMaker], Awaitable[None]], ...] = (
    an_erased_body_is_gone_and_its_record_stays,
    shared_bytes_are_erased_for_all_of_the_tenant,
    erased_bytes_may_be_appended_anew,
    search_forgets_what_was_erased,
    a_closed_store_erases_nothing,
)
