"""What every backend of the `Leases` port must do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from threadkeep.errors import StoreClosed
from threadkeep.store.base import Leases, ThreadStore
from threadkeep.testing.store_facts import StoreMaker, expect, opened, refuses


class LeasingStore(ThreadStore, Leases, Protocol):
    """A store that gives leases."""


LeaseMaker = StoreMaker[LeasingStore]


async def leases_have_one_holder(make: LeaseMaker) -> None:
    """A lease is held by one until it expires or is given back by its holder."""
    async with opened(make) as store:

        async def taken(holder: str, now_ms: int, *, key: str = "k") -> str:
            return "taken" if await store.acquire(key, holder=holder, now_ms=now_ms, ttl_ms=10) else "held"

        expect(await taken("a", 0), "taken", "a free lease is taken")
        expect(await taken("b", 9), "held", "a held lease is not")
        expect(await taken("b", 9, key="other"), "taken", "keys do not hinder each other")
        expect(await taken("a", 9), "taken", "its holder renews it")
        expect(await taken("b", 18), "held", "renewal moved the expiry")
        expect(await taken("b", 19), "taken", "an expired lease is free")
        await store.release("k", holder="a")
        expect(await taken("a", 20), "held", "only its holder gives a lease back")
        await store.release("k", holder="b")
        expect(await taken("a", 20), "taken", "a lease given back is free")
        racers = await asyncio.gather(*(taken(f"h{number}", 0, key="race") for number in range(20)))
        expect(racers.count("taken"), 1, "of many at once, one takes it")


async def a_lease_outlives_no_clock(make: LeaseMaker) -> None:
    """When the clock jumps back, another's lease lasts its own term from then on, once, and not until time has caught up."""
    async with opened(make) as store:

        async def taken(holder: str, now_ms: int, *, ttl_ms: int = 10) -> str:
            return "taken" if await store.acquire("k", holder=holder, now_ms=now_ms, ttl_ms=ttl_ms) else "held"

        expect(await taken("a", 1_000_000), "taken", "a free lease is taken")
        expect(await taken("b", 5, ttl_ms=500), "held", "a clock that went back does not free it at once")
        expect(await taken("b", 14, ttl_ms=500), "held", "its term runs from where the clock is now")
        expect(await taken("b", 15, ttl_ms=500), "taken", "and is its own, not the next holder's")
        expect(await taken("a", 400), "held", "a clock that went on changes nothing")
        expect(await taken("b", 100, ttl_ms=20), "taken", "its holder renews it on any clock")
        expect(await taken("a", 120), "taken", "for the term it asked for")


async def a_lease_is_a_tenants_own(make: LeaseMaker) -> None:
    """Two tenants in one place hold a lease of the same key at once; another opener of the same tenant does not."""
    async with opened(make) as ours:
        theirs, beside = await make(tenant="theirs", beside=ours), await make(beside=ours)
        try:
            askers = ((ours, "a"), (theirs, "b"), (beside, "c"))
            taken = [name for store, name in askers if await store.acquire("job", holder=name, now_ms=0, ttl_ms=9)]
            expect(taken, ["a", "b"], "tenants do not hinder each other; openers see each other's leases")
        finally:
            await theirs.close()
            await beside.close()


async def a_closed_store_gives_no_lease(make: LeaseMaker) -> None:
    """Asking a closed store for a lease, or giving one back, raises `StoreClosed`."""
    store = await make()
    await store.close()
    with refuses(StoreClosed, "a closed store does nothing"):
        await store.acquire("k", holder="a", now_ms=0, ttl_ms=1)
    with refuses(StoreClosed, "a closed store does nothing"):
        await store.release("k", holder="a")


LEASE_CHECKS: tuple[Callable[[LeaseMaker], Awaitable[None]], ...] = (
    leases_have_one_holder,
    a_lease_outlives_no_clock,
    a_lease_is_a_tenants_own,
    a_closed_store_gives_no_lease,
)
