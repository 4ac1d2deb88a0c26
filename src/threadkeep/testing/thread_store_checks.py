"""What every backend of the `ThreadStore` port must do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from threadkeep.errors import OrdinalConflict, StoreClosed, ThreadExists, ThreadNotFound
from threadkeep.store.base import Found, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.testing.store_facts import EVERYTHING, StoreMaker, expect, new, opened, refuses, stored, thread, whole

ThreadStoreMaker = StoreMaker[ThreadStore]


async def bytes_come_back_exactly(make: ThreadStoreMaker) -> None:
    """Whatever the bytes, they are read back as they were, with every other field of their record."""
    bodies = [b"{}", b"", b"\0nul\0\xff\xfe", "端口 🪸".encode(), b"x" * 1_000_000, b"{}", b" {} "]
    records = [new(body, turn=turn, at_ms=turn * 7) for turn, body in enumerate(bodies)]
    records.append(replace(new(b"mark", kind=RecordKind.CHECKPOINT, chain=b"c" * 16, depth=2), target=3))
    records += [new(kind.encode(), kind=kind) for kind in RecordKind]
    records.append(new(b"key [redacted]", chain=b"d" * 16, depth=3, redacted=True))
    async with opened(make) as store:
        await store.create(thread("t"), records)
        found = await store.read(whole("t"))
        expect(found, [stored("t", at, record) for at, record in enumerate(records)], "a record is what was appended")
        expect({type(record.kind) for record in found}, {RecordKind}, "kinds are read as kinds")


async def ordinals_follow_each_other(make: ThreadStoreMaker) -> None:
    """Ordinals start at `start`, have no gap, and `next` says what comes."""
    async with opened(make) as store:
        await store.create(thread("t"), [])
        expect(
            await store.get("t"),
            ThreadRow(id="t", dialect="chat", created_at_ms=5, updated_at_ms=5, start=0, parent=None, next=0),
            "an empty thread is at its start, and was updated when it was created",
        )
        expect(await store.append("t", [new(b"a"), new(b"b")], expected=0), 2, "append returns the next ordinal")
        expect(await store.append("t", [], expected=2), 2, "appending nothing moves nothing")
        expect(await store.append("t", [new(b"c", at_ms=9)], expected=2), 3, "append returns the next ordinal")
        expect(
            await store.get("t"),
            ThreadRow(id="t", dialect="chat", created_at_ms=5, updated_at_ms=9, start=0, parent=None, next=3),
            "the newest record says when the thread was updated",
        )
        expect([record.ordinal for record in await store.read(whole("t"))], [0, 1, 2], "ordinals have no gap")


async def a_fork_continues_its_parents_ordinals(make: ThreadStoreMaker) -> None:
    """A fork begins at an ordinal of its parent, holds only its own records, and leaves the parent alone."""
    async with opened(make) as store:
        await store.create(thread("t"), [new(b"a"), new(b"b"), new(b"c")])
        await store.create(thread("fork", start=2, parent="t"), [])
        expect((await store.get("fork")).next, 2, "an empty fork is at its start")
        expect(await store.append("fork", [new(b"d"), new(b"e")], expected=2), 4, "a fork counts on from its start")
        row = await store.get("fork")
        expect((row.start, row.parent, row.next), (2, "t", 4), "a fork knows where it came from")
        expect([(r.ordinal, r.body) for r in await store.read(whole("fork"))], [(2, b"d"), (3, b"e")], "a fork copies nothing")
        expect(await store.append("t", [new(b"f")], expected=3), 4, "the parent goes on beside its fork")
        with refuses(ThreadNotFound, "a fork needs its parent"):
            await store.create(thread("orphan", start=1, parent="nobody"), [])


async def a_stale_writer_is_refused(make: ThreadStoreMaker) -> None:
    """An append that expects another ordinal writes nothing and says where the thread is."""
    async with opened(make) as store:
        await store.create(thread("t"), [new(b"a")])
        for expected in (0, 2):
            try:
                await store.append("t", [new(b"stale"), new(b"staler")], expected=expected)
            except OrdinalConflict as conflict:
                found = (conflict.thread_id, conflict.expected, conflict.actual)
                expect(found, ("t", expected, 1), "a conflict names both ordinals")
            else:
                raise AssertionError("a stale append was taken")
        expect([r.body for r in await store.read(whole("t"))], [b"a"], "a conflict leaves nothing")
        expect(await store.append("t", [new(b"b")], expected=1), 2, "after a conflict the thread goes on")


async def another_opener_is_seen(make: ThreadStoreMaker) -> None:
    """What one opener of a place acknowledged, the next one reads and conflicts with."""
    async with opened(make) as first:
        second = await make(beside=first)
        try:
            expect(second.tenant, first.tenant, "a tenant has one key")
            await first.create(thread("t"), [new(b"a")])
            expect([r.body for r in await second.read(whole("t"))], [b"a"], "an acknowledged record is seen by all")
            expect(await second.append("t", [new(b"b")], expected=1), 2, "any opener may append")
            with refuses(OrdinalConflict, "the first opener is stale now"):
                await first.append("t", [new(b"c")], expected=1)
            with refuses(ThreadExists, "an id is taken for every opener"):
                await second.create(thread("t"), [])
        finally:
            await second.close()


async def create_is_one_unit(make: ThreadStoreMaker) -> None:
    """A second thread of the same id is refused and adds nothing; an unknown thread is not found."""
    async with opened(make) as store:
        await store.create(thread("t"), [new(b"a")])
        with refuses(ThreadExists, "an id is taken once"):
            await store.create(thread("t"), [new(b"b")])
        expect([r.body for r in await store.read(whole("t"))], [b"a"], "a refused create leaves nothing")
        with refuses(ThreadNotFound, "an unknown thread cannot be appended to"):
            await store.append("nobody", [new(b"b")], expected=0)
        with refuses(ThreadNotFound, "an unknown thread has no row"):
            await store.get("nobody")
        expect(await store.read(whole("nobody")), [], "an unknown thread has no records")


async def filters_combine(make: ThreadStoreMaker) -> None:
    """Every filter of `read`, alone and together, keeps what it names, in the order asked for."""
    kinds = [RecordKind.TURN, RecordKind.ITEM, RecordKind.ITEM, RecordKind.NOTE, RecordKind.CHECKPOINT]
    records = [new(b"%d" % at, kind=kinds[at % 5], turn=at // 5) for at in range(20)]
    turn, item, _, _, checkpoint = kinds
    async with opened(make) as store:
        await store.create(thread("t"), records)
        await store.create(thread("u"), records)

        async def ordinals(start: int = 0, stop: int = EVERYTHING, **filters: object) -> list[int]:
            found = await store.read(Span(thread_id="t", start=start, stop=stop), **filters)  # type: ignore[arg-type]  # filters by name, each of its own type
            wanted = [stored("t", r.ordinal, records[r.ordinal], bodies=bool(filters.get("bodies", True))) for r in found]
            expect(found, wanted, f"records read with {filters} are whole")
            return [record.ordinal for record in found]

        expect(await ordinals(start=3, stop=6), [3, 4, 5], "a span stops before its stop")
        expect(await ordinals(start=18), [18, 19], "a span may reach beyond the end")
        expect(await ordinals(start=6, stop=6), [], "an empty span is empty")
        expect(await ordinals(kinds={checkpoint}), [4, 9, 14, 19], "one kind")
        expect(await ordinals(kinds=[item, checkpoint], stop=7), [1, 2, 4, 6], "kinds of both sorts")
        expect(await ordinals(kinds={turn, checkpoint}, start=4, stop=11), [4, 5, 9, 10], "two kinds in ordinal order")
        expect(await ordinals(kinds=()), [], "no kind, no record")
        expect(await ordinals(ordinals=[7, 3, 3, 99, -1]), [3, 7], "ordinals, once each and in order")
        expect(await ordinals(ordinals=()), [], "no ordinal, no record")
        expect(await ordinals(ordinals=range(5000), limit=2), [0, 1], "many ordinals")
        expect(await ordinals(turn=2), [10, 11, 12, 13, 14], "one turn")
        expect(await ordinals(turn=2, kinds={turn}), [10], "where a turn begins")
        expect(await ordinals(newest_first=True, limit=2), [19, 18], "the newest first")
        expect(await ordinals(newest_first=True, limit=1, kinds={checkpoint}, stop=14), [9], "the newest of a kind")
        expect(await ordinals(limit=0), [], "a limit of nothing")
        expect(await ordinals(bodies=False, kinds={item}, limit=3), [1, 2, 6], "without bodies")
        expect(await ordinals(bodies=False, kinds={checkpoint}, turn=1, ordinals=[9, 14], newest_first=True), [9], "all together")


async def chains_are_found(make: ThreadStoreMaker) -> None:
    """`lookup` returns every record of the digests asked for, the newest first, and nothing for the unknown."""
    one, two, nobody = b"1" * 16, b"2" * 16, b"9" * 16
    async with opened(make) as store:
        await store.create(thread("t"), [new(b"a", chain=one, depth=1), new(b"b", chain=two, depth=2), new(b"c")])
        await store.create(thread("u"), [new(b"a", chain=one, depth=1)])
        found = await store.lookup([nobody, one, two, one])
        wanted = [
            Found(chain=one, thread_id="u", ordinal=0, depth=1),
            Found(chain=two, thread_id="t", ordinal=1, depth=2),
            Found(chain=one, thread_id="t", ordinal=0, depth=1),
        ]
        expect(found, wanted, "the newest record first, each once")
        expect(await store.lookup([nobody]), [], "an unknown digest finds nothing")
        expect(await store.lookup([]), [], "no digest finds nothing")
        many = [at.to_bytes(16, "big") for at in range(3000)]
        expect(await store.lookup([*many, two]), [wanted[1]], "many digests at once")


async def threads_are_listed_newest_first(make: ThreadStoreMaker) -> None:
    """The thread written to last stands first; a prefix is letters, whatever letters they are."""
    async with opened(make) as store:
        for name in ("a_b", "a%b", "axb", "A_b", "b"):
            await store.create(thread(name), [new(b"x")])
        await store.append("axb", [new(b"y")], expected=1)

        async def names(prefix: str = "", limit: int = 100) -> list[str]:
            return [row.id for row in await store.threads(prefix=prefix, limit=limit)]

        expect(await names(), ["axb", "b", "A_b", "a%b", "a_b"], "the most recently written first")
        expect(await names(limit=2), ["axb", "b"], "a limit keeps the newest")
        expect(await names("a_"), ["a_b"], "an underscore is a letter")
        expect(await names("a%"), ["a%b"], "a percent sign is a letter")
        expect(await names("a"), ["axb", "a%b", "a_b"], "letters keep their case")
        expect(await names("c"), [], "no thread, no row")
        expect(await store.threads(prefix="b"), [await store.get("b")], "a listed row is the thread's row")


async def order_is_by_ordinal_whatever_the_clock_says(make: ThreadStoreMaker) -> None:
    """A clock that goes backwards costs nothing: records are taken, read and listed in the order they came."""
    async with opened(make) as store:
        await store.create(thread("early"), [new(b"a", at_ms=9_000)])
        await store.create(thread("late"), [new(b"b", at_ms=5_000), new(b"c", at_ms=4_000)])
        expect(await store.append("late", [new(b"d", at_ms=-1)], expected=2), 3, "an earlier time is taken")
        expect(
            [(r.ordinal, r.at_ms) for r in await store.read(whole("late"))], [(0, 5_000), (1, 4_000), (2, -1)], "ordinals order"
        )
        newest = await store.read(whole("late"), newest_first=True, limit=1)
        expect([r.body for r in newest], [b"d"], "the newest record is the last one appended")
        expect([row.id for row in await store.threads()], ["late", "early"], "the thread written last stands first")
        expect((await store.get("late")).updated_at_ms, -1, "a thread was updated when its last record says")


async def tenants_never_meet(make: ThreadStoreMaker) -> None:
    """Two tenants in one place share neither ids nor chains, even for equal bytes."""
    async with opened(make) as ours:
        theirs = await make(tenant="theirs", beside=ours)
        try:
            expect(len({ours.tenant.key, theirs.tenant.key}), 2, "tenants have keys of their own")
            await ours.create(thread("t"), [new(b"secret word", chain=b"1" * 16, depth=1)])
            expect(await theirs.threads(), [], "threads are not listed to others")
            expect(await theirs.read(whole("t")), [], "records are not read by others")
            expect(await theirs.lookup([b"1" * 16]), [], "chains are not found by others")
            with refuses(ThreadNotFound, "others' threads are not there"):
                await theirs.append("t", [new(b"x")], expected=1)
            with refuses(ThreadNotFound, "others' threads are no parents"):
                await theirs.create(thread("fork", start=1, parent="t"), [])
            await theirs.create(thread("t"), [new(b"secret word"), new(b"own")])
            expect([r.body for r in await ours.read(whole("t"))], [b"secret word"], "an id means one thread a tenant")
        finally:
            await theirs.close()


async def concurrent_appends_all_arrive(make: ThreadStoreMaker) -> None:
    """Many tasks append at once: every thread is gapless, and of those racing for one ordinal one wins."""
    async with opened(make) as store:
        await store.create(thread("shared"), [])

        async def fill(name: str) -> None:
            await store.create(thread(name), [])
            for at in range(10):
                await store.append(name, [new(b"%s %d" % (name.encode(), at))], expected=at)

        names = [f"t{number}" for number in range(32)]
        race = [store.append("shared", [new(b"%d" % number), new(b"+")], expected=0) for number in range(16)]
        _, outcomes = await asyncio.gather(asyncio.gather(*map(fill, names)), asyncio.gather(*race, return_exceptions=True))
        for name in names:
            bodies = [record.body for record in await store.read(whole(name))]
            expect(bodies, [b"%s %d" % (name.encode(), at) for at in range(10)], "no append is lost or misplaced")
        lost = [outcome for outcome in outcomes if isinstance(outcome, OrdinalConflict)]
        expect((outcomes.count(2), len(lost)), (1, 15), "one of the racers wins, the others are told")
        expect(len(await store.read(whole("shared"))), 2, "the losers leave nothing")


async def a_closed_store_says_so(make: ThreadStoreMaker) -> None:
    """`close` finishes what was accepted; afterwards every call raises `StoreClosed`, and closing again does nothing."""
    store = await make()
    await store.create(thread("t"), [])
    accepted = [asyncio.ensure_future(store.append("t", [new(b"%d" % at)], expected=at)) for at in range(50)]
    await asyncio.sleep(0)
    await store.close()
    expect(await asyncio.gather(*accepted), list(range(1, 51)), "what was accepted is done")
    await store.close()
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.create(thread("u"), []),
        lambda: store.append("t", [new(b"x")], expected=50),
        lambda: store.get("t"),
        lambda: store.threads(),
        lambda: store.read(whole("t")),
        lambda: store.lookup([b"1" * 16]),
    ]
    for call in calls:
        with refuses(StoreClosed, "a closed store does nothing"):
            await call()


THREAD_STORE_CHECKS: tuple[Callable[[ThreadStoreMaker], Awaitable[None]], ...] = (
    bytes_come_back_exactly,
    ordinals_follow_each_other,
    a_fork_continues_its_parents_ordinals,
    a_stale_writer_is_refused,
    another_opener_is_seen,
    create_is_one_unit,
    filters_combine,
    chains_are_found,
    threads_are_listed_newest_first,
    order_is_by_ordinal_whatever_the_clock_says,
    tenants_never_meet,
    concurrent_appends_all_arrive,
    a_closed_store_says_so,
)
