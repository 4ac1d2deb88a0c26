"""What every store must do, as checks that need no test framework.

A backend proves itself with `await run_checks(THREAD_STORE_CHECKS, make)` (`threadkeep.testing.expectations`), or runs each check
as a test of its own. A check raises `AssertionError` with the fact that does not hold. The checks of the optional ports are in
`threadkeep.testing.optional_store_checks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from typing import Any, Protocol, TypeVar

from threadkeep.dialects import CHAT
from threadkeep.errors import OrdinalConflict, StoreClosed, StoreError, ThreadExists, ThreadNotFound
from threadkeep.items import digest_body
from threadkeep.store.base import Found, NewRecord, NewThread, Record, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.testing.expectations import expect, expect_error

EVERYTHING = 2**62

S = TypeVar("S", bound=ThreadStore)
S_co = TypeVar("S_co", bound=ThreadStore, covariant=True)


class StoreMaker(Protocol[S_co]):
    """How a backend hands its stores to the checks.

    If it can search, it must index the body of an item, decoded as UTF-8.
    """

    async def __call__(self, *, tenant: str = "local", beside: ThreadStore | None = None) -> S_co:
        """Return the tenant's store in a fresh, empty place; with `beside`, in that store's place, as another process would."""
        ...


@asynccontextmanager
async def open_store(make: StoreMaker[S]) -> AsyncIterator[S]:
    store = await make()
    try:
        yield store
    finally:
        await store.close()


def new_record(body: bytes, *, kind: RecordKind = RecordKind.ITEM, turn: int = 0, at_ms: int = 0, **fields: Any) -> NewRecord:
    return NewRecord(kind=kind, at_ms=at_ms, turn=turn, tokens=len(body), body=body, **fields)


def new_thread(name: str, *, start: int = 0, parent: str | None = None) -> NewThread:
    return NewThread(id=name, dialect=CHAT.name, created_at_ms=5, start=start, parent=parent)


def expected_record(name: str, ordinal: int, record: NewRecord, *, bodies: bool = True) -> Record:
    """Return the stored record that appending `record` must produce."""
    same = {field.name: getattr(record, field.name) for field in fields(record) if bodies or field.name != "body"}
    return Record(**{"body": b"", **same}, thread_id=name, ordinal=ordinal, digest=digest_body(record.body))


def whole_span(name: str) -> Span:
    return Span(thread_id=name, start=0, stop=EVERYTHING)


async def read_bodies(store: ThreadStore, name: str) -> list[bytes]:
    return [record.body for record in await store.read(whole_span(name))]


async def read_erased(store: ThreadStore, name: str) -> list[bool]:
    """Return for each record of a thread whether its body was erased."""
    return [record.erased for record in await store.read(whole_span(name))]


ThreadStoreMaker = StoreMaker[ThreadStore]


async def check_bytes_survive(make: ThreadStoreMaker) -> None:
    """Whatever the bytes, they are read back as they were, with every other field of their record."""
    bodies = [b"{}", b"", b"\0nul\0\xff\xfe", "端口 🪸".encode(), b"x" * 1_000_000, b"{}", b" {} "]
    records = [new_record(body, turn=turn, at_ms=turn * 7) for turn, body in enumerate(bodies)]
    records.append(replace(new_record(b"mark", kind=RecordKind.CHECKPOINT, chain=b"c" * 16, depth=2), target=3))
    records += [new_record(kind.encode(), kind=kind) for kind in RecordKind]
    records.append(new_record(b"key [redacted]", chain=b"d" * 16, depth=3, redacted=True))
    async with open_store(make) as store:
        await store.create(new_thread("t"), records)
        found = await store.read(whole_span("t"))
        expect(found, [expected_record("t", at, record) for at, record in enumerate(records)], "a record is what was appended")
        expect({type(record.kind) for record in found}, {RecordKind}, "kinds are read as kinds")


async def check_ordinals_are_consecutive(make: ThreadStoreMaker) -> None:
    """Ordinals start at `start`, have no gap, and `next` says what comes."""
    async with open_store(make) as store:
        await store.create(new_thread("t"), [])
        expect(
            await store.get("t"),
            ThreadRow(id="t", dialect=CHAT.name, created_at_ms=5, updated_at_ms=5, start=0, parent=None, next=0),
            "an empty thread is at its start, and was updated when it was created",
        )
        expect(await store.append("t", [new_record(b"a"), new_record(b"b")], expected=0), 2, "append returns the next ordinal")
        expect(await store.append("t", [], expected=2), 2, "appending nothing moves nothing")
        expect(await store.append("t", [new_record(b"c", at_ms=9)], expected=2), 3, "append returns the next ordinal")
        expect(
            await store.get("t"),
            ThreadRow(id="t", dialect=CHAT.name, created_at_ms=5, updated_at_ms=9, start=0, parent=None, next=3),
            "the newest record says when the thread was updated",
        )
        expect([record.ordinal for record in await store.read(whole_span("t"))], [0, 1, 2], "ordinals have no gap")


async def check_forks_continue_ordinals(make: ThreadStoreMaker) -> None:
    """A fork begins at an ordinal of its parent, holds only its own records, and leaves the parent alone."""
    async with open_store(make) as store:
        await store.create(new_thread("t"), [new_record(b"a"), new_record(b"b"), new_record(b"c")])
        await store.create(new_thread("fork", start=2, parent="t"), [])
        expect((await store.get("fork")).next, 2, "an empty fork is at its start")
        expect(await store.append("fork", [new_record(b"d"), new_record(b"e")], expected=2), 4, "a fork counts on from its start")
        row = await store.get("fork")
        expect((row.start, row.parent, row.next), (2, "t", 4), "a fork knows where it came from")
        expect(
            [(r.ordinal, r.body) for r in await store.read(whole_span("fork"))], [(2, b"d"), (3, b"e")], "a fork copies nothing"
        )
        expect(await store.append("t", [new_record(b"f")], expected=3), 4, "the parent goes on beside its fork")
        with expect_error(ThreadNotFound, "a fork needs its parent"):
            await store.create(new_thread("orphan", start=1, parent="nobody"), [])


async def check_stale_writers_are_refused(make: ThreadStoreMaker) -> None:
    """An append that expects another ordinal writes nothing and says where the thread is."""
    async with open_store(make) as store:
        await store.create(new_thread("t"), [new_record(b"a")])
        for expected in (0, 2):
            try:
                await store.append("t", [new_record(b"stale"), new_record(b"staler")], expected=expected)
            except OrdinalConflict as conflict:
                found = (conflict.thread_id, conflict.expected, conflict.actual)
                expect(found, ("t", expected, 1), "a conflict names both ordinals")
            else:
                raise AssertionError("a stale append was taken")
        expect(await read_bodies(store, "t"), [b"a"], "a conflict leaves nothing")
        expect(await store.append("t", [new_record(b"b")], expected=1), 2, "after a conflict the thread goes on")


async def check_openers_share_threads(make: ThreadStoreMaker) -> None:
    """What one opener of a place acknowledged, the next one reads and conflicts with."""
    async with open_store(make) as first:
        second = await make(beside=first)
        try:
            expect(second.tenant, first.tenant, "a tenant has one key")
            await first.create(new_thread("t"), [new_record(b"a")])
            expect(await read_bodies(second, "t"), [b"a"], "an acknowledged record is seen by all")
            expect(await second.append("t", [new_record(b"b")], expected=1), 2, "any opener may append")
            with expect_error(OrdinalConflict, "the first opener is stale now"):
                await first.append("t", [new_record(b"c")], expected=1)
            with expect_error(ThreadExists, "an id is taken for every opener"):
                await second.create(new_thread("t"), [])
        finally:
            await second.close()


async def check_create_is_atomic(make: ThreadStoreMaker) -> None:
    """A second thread of the same id is refused and adds nothing; an unknown thread is not found."""
    async with open_store(make) as store:
        await store.create(new_thread("t"), [new_record(b"a")])
        with expect_error(ThreadExists, "an id is taken once"):
            await store.create(new_thread("t"), [new_record(b"b")])
        expect(await read_bodies(store, "t"), [b"a"], "a refused create leaves nothing")
        with expect_error(ThreadNotFound, "an unknown thread cannot be appended to"):
            await store.append("nobody", [new_record(b"b")], expected=0)
        with expect_error(ThreadNotFound, "an unknown thread has no row"):
            await store.get("nobody")
        expect(await store.read(whole_span("nobody")), [], "an unknown thread has no records")


async def check_read_filters(make: ThreadStoreMaker) -> None:
    """Every filter of `read`, alone and together, keeps what it names, in the order asked for."""
    kinds = [RecordKind.TURN, RecordKind.ITEM, RecordKind.ITEM, RecordKind.NOTE, RecordKind.CHECKPOINT]
    records = [new_record(b"%d" % at, kind=kinds[at % 5], turn=at // 5) for at in range(20)]
    turn, item, _, _, checkpoint = kinds
    async with open_store(make) as store:
        await store.create(new_thread("t"), records)
        await store.create(new_thread("u"), records)

        async def ordinals(start: int = 0, stop: int = EVERYTHING, **filters: object) -> list[int]:
            found = await store.read(Span(thread_id="t", start=start, stop=stop), **filters)  # type: ignore[arg-type]  # filters by name, each of its own type
            wanted = [
                expected_record("t", r.ordinal, records[r.ordinal], bodies=bool(filters.get("bodies", True))) for r in found
            ]
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


async def check_lookup(make: ThreadStoreMaker) -> None:
    """`lookup` returns every record of the digests asked for, the newest first, and nothing for the unknown."""
    one, two, nobody = b"1" * 16, b"2" * 16, b"9" * 16
    async with open_store(make) as store:
        await store.create(
            new_thread("t"), [new_record(b"a", chain=one, depth=1), new_record(b"b", chain=two, depth=2), new_record(b"c")]
        )
        await store.create(new_thread("u"), [new_record(b"a", chain=one, depth=1)])
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


async def check_thread_listing(make: ThreadStoreMaker) -> None:
    """The thread written to last stands first; a prefix is letters, whatever letters they are."""
    async with open_store(make) as store:
        for name in ("a_b", "a%b", "axb", "A_b", "b"):
            await store.create(new_thread(name), [new_record(b"x")])
        await store.append("axb", [new_record(b"y")], expected=1)

        async def names(prefix: str = "", limit: int = 100) -> list[str]:
            return [row.id for row in await store.threads(prefix=prefix, limit=limit)]

        expect(await names(), ["axb", "b", "A_b", "a%b", "a_b"], "the most recently written first")
        expect(await names(limit=2), ["axb", "b"], "a limit keeps the newest")
        expect(await names("a_"), ["a_b"], "an underscore is a letter")
        expect(await names("a%"), ["a%b"], "a percent sign is a letter")
        expect(await names("a"), ["axb", "a%b", "a_b"], "letters keep their case")
        expect(await names("c"), [], "no thread, no row")
        expect(await store.threads(prefix="b"), [await store.get("b")], "a listed row is the thread's row")


async def check_order_ignores_clock(make: ThreadStoreMaker) -> None:
    """A clock that goes backwards costs nothing: records are taken, read and listed in the order they came."""
    async with open_store(make) as store:
        await store.create(new_thread("early"), [new_record(b"a", at_ms=9_000)])
        await store.create(new_thread("late"), [new_record(b"b", at_ms=5_000), new_record(b"c", at_ms=4_000)])
        expect(await store.append("late", [new_record(b"d", at_ms=-1)], expected=2), 3, "an earlier time is taken")
        expect(
            [(r.ordinal, r.at_ms) for r in await store.read(whole_span("late"))],
            [(0, 5_000), (1, 4_000), (2, -1)],
            "ordinals order",
        )
        newest = await store.read(whole_span("late"), newest_first=True, limit=1)
        expect([r.body for r in newest], [b"d"], "the newest record is the last one appended")
        expect([row.id for row in await store.threads()], ["late", "early"], "the thread written last stands first")
        expect((await store.get("late")).updated_at_ms, -1, "a thread was updated when its last record says")


async def check_tenants_are_separate(make: ThreadStoreMaker) -> None:
    """Two tenants in one place share neither ids nor chains, even for equal bytes."""
    async with open_store(make) as ours:
        theirs = await make(tenant="theirs", beside=ours)
        try:
            expect(len({ours.tenant.key, theirs.tenant.key}), 2, "tenants have keys of their own")
            await ours.create(new_thread("t"), [new_record(b"secret word", chain=b"1" * 16, depth=1)])
            expect(await theirs.threads(), [], "threads are not listed to others")
            expect(await theirs.read(whole_span("t")), [], "records are not read by others")
            expect(await theirs.lookup([b"1" * 16]), [], "chains are not found by others")
            with expect_error(ThreadNotFound, "others' threads are not there"):
                await theirs.append("t", [new_record(b"x")], expected=1)
            with expect_error(ThreadNotFound, "others' threads are no parents"):
                await theirs.create(new_thread("fork", start=1, parent="t"), [])
            await theirs.create(new_thread("t"), [new_record(b"secret word"), new_record(b"own")])
            expect(await read_bodies(ours, "t"), [b"secret word"], "an id means one thread a tenant")
        finally:
            await theirs.close()


async def check_concurrent_appends(make: ThreadStoreMaker) -> None:
    """Many tasks append at once: every thread is gapless, and of those racing for one ordinal one wins."""
    async with open_store(make) as store:
        await store.create(new_thread("shared"), [])

        async def fill(name: str) -> None:
            await store.create(new_thread(name), [])
            for at in range(10):
                await store.append(name, [new_record(b"%s %d" % (name.encode(), at))], expected=at)

        names = [f"t{number}" for number in range(32)]
        race = [store.append("shared", [new_record(b"%d" % number), new_record(b"+")], expected=0) for number in range(16)]
        _, outcomes = await asyncio.gather(asyncio.gather(*map(fill, names)), asyncio.gather(*race, return_exceptions=True))
        for name in names:
            bodies = await read_bodies(store, name)
            expect(bodies, [b"%s %d" % (name.encode(), at) for at in range(10)], "no append is lost or misplaced")
        lost = [outcome for outcome in outcomes if isinstance(outcome, OrdinalConflict)]
        expect((outcomes.count(2), len(lost)), (1, 15), "one of the racers wins, the others are told")
        expect(len(await store.read(whole_span("shared"))), 2, "the losers leave nothing")


async def check_openers_race(make: ThreadStoreMaker) -> None:
    """Two openers race for the ordinals of one thread: it has every record of both, each one's in its own order."""
    async with open_store(make) as left:
        right = await make(beside=left)
        try:
            await left.create(new_thread("shared"), [])

            async def race(store: ThreadStore, name: str) -> None:
                done = ordinal = 0
                while done < 20:
                    try:
                        ordinal = await store.append("shared", [new_record(b"%s %d" % (name.encode(), done))], expected=ordinal)
                        done += 1
                    except OrdinalConflict as conflict:
                        ordinal = conflict.actual

            await asyncio.gather(race(left, "left"), race(right, "right"))
            bodies = await read_bodies(left, "shared")
            expect(len(bodies), 40, "every record is there once")
            for name in (b"left", b"right"):
                own = [body for body in bodies if body.startswith(name)]
                expect(own, [b"%s %d" % (name, number) for number in range(20)], "each one's records are in its order")
        finally:
            await right.close()


async def check_failures_are_told_apart(make: ThreadStoreMaker) -> None:
    """Of calls made at once each one that fails tells its own caller why; all others are durable."""
    async with open_store(make) as store:
        await store.create(new_thread("t"), [new_record(b"zero")])
        impossible = new_record(b"impossible", at_ms=2**70)
        outcomes = await asyncio.gather(
            store.append("t", [new_record(b"one")], expected=1),
            store.append("t", [new_record(b"stale")], expected=1),
            store.append("nobody", [new_record(b"lost")], expected=0),
            store.append("t", [new_record(b"half"), impossible], expected=2),
            store.append("\ud83d", [new_record(b"half a letter")], expected=0),
            store.append("t", [new_record(b"two")], expected=2),
            store.create(new_thread("t"), [new_record(b"never")]),
            store.create(new_thread("wanted"), [new_record(b"first")]),
            store.create(new_thread("wanted"), [new_record(b"second")]),
            store.create(new_thread("orphan", parent="nobody"), [new_record(b"never")]),
            store.create(new_thread("\ud83d"), []),
            store.create(new_thread("fork", parent="t", start=1), [new_record(b"of it")]),
            store.create(new_thread("empty"), []),
            return_exceptions=True,
        )
        told = [type(each) if isinstance(each, BaseException) else each for each in outcomes]
        appended = [2, OrdinalConflict, ThreadNotFound, StoreError, StoreError, 3]
        created = [ThreadExists, None, ThreadExists, ThreadNotFound, StoreError, None, None]
        expect(told, [*appended, *created], "each caller is told what became of its own")
        ends = {row.id: row.next for row in await store.threads()}
        expect(ends, {"t": 3, "wanted": 1, "fork": 2, "empty": 0}, "the others are there")
        expect(await read_bodies(store, "t"), [b"zero", b"one", b"two"], "a failure leaves nothing")
        with expect_error(StoreError, "what no store can hold is a named error when it is read, too"):
            await store.get("\ud83d")
        with expect_error(StoreError, "an impossible value alone is a named error"):
            await store.append("t", [new_record(b"half"), impossible], expected=3)
        expect(await store.append("t", [new_record(b"three")], expected=3), 4, "the store goes on")


async def check_cancelled_append(make: ThreadStoreMaker) -> None:
    """An append whose caller stops waiting is carried out whole or not at all, and holds up nobody."""
    async with open_store(make) as store:
        await store.create(new_thread("t"), [])
        abandoned = [asyncio.ensure_future(store.append("t", [new_record(b"a"), new_record(b"b")], expected=0)) for _ in range(3)]
        await asyncio.sleep(0)
        for call in abandoned:
            call.cancel()
        await asyncio.wait(abandoned)
        await store.create(new_thread("other"), [])
        end = (await store.get("t")).next
        expect(await store.append("t", [new_record(b"c")], expected=end), end + 1, "the thread goes on")
        expect(await read_bodies(store, "t"), [*([b"a", b"b"] if end else []), b"c"], "what was abandoned is whole or not there")


async def check_closed_store_refuses_calls(make: ThreadStoreMaker) -> None:
    """`close` finishes what was accepted; afterwards every call raises `StoreClosed`, and closing again does nothing."""
    store = await make()
    await store.create(new_thread("t"), [])
    accepted = [asyncio.ensure_future(store.append("t", [new_record(b"%d" % at)], expected=at)) for at in range(50)]
    asked = [asyncio.ensure_future(store.get("t")) for _ in range(5)]
    await asyncio.sleep(0)
    await store.close()
    expect(await asyncio.gather(*accepted), list(range(1, 51)), "what was accepted is done")
    # A server's store may refuse a read that still waited for a connection; it never half answers one.
    read = await asyncio.gather(*asked, return_exceptions=True)
    expect([row for row in read if not isinstance(row, StoreClosed | ThreadRow)], [], "a read is answered or refused")
    await store.close()
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.create(new_thread("u"), []),
        lambda: store.append("t", [new_record(b"x")], expected=50),
        lambda: store.get("t"),
        lambda: store.threads(),
        lambda: store.read(whole_span("t")),
        lambda: store.lookup([b"1" * 16]),
    ]
    for call in calls:
        with expect_error(StoreClosed, "a closed store does nothing"):
            await call()


THREAD_STORE_CHECKS: tuple[Callable[[ThreadStoreMaker], Awaitable[None]], ...] = (
    check_bytes_survive,
    check_ordinals_are_consecutive,
    check_forks_continue_ordinals,
    check_stale_writers_are_refused,
    check_openers_share_threads,
    check_create_is_atomic,
    check_read_filters,
    check_lookup,
    check_thread_listing,
    check_order_ignores_clock,
    check_tenants_are_separate,
    check_concurrent_appends,
    check_openers_race,
    check_failures_are_told_apart,
    check_cancelled_append,
    check_closed_store_refuses_calls,
)
