"""How checks of a store get one, and short ways to build the records they write and expect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Protocol, TypeVar

from threadkeep.items import digest_body
from threadkeep.store.base import NewRecord, NewThread, Record, RecordKind, Span, ThreadStore

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


def new_record(
    body: bytes,
    *,
    kind: RecordKind = RecordKind.ITEM,
    turn: int = 0,
    at_ms: int = 0,
    chain: bytes | None = None,
    depth: int | None = None,
    redacted: bool = False,
) -> NewRecord:
    return NewRecord(kind=kind, at_ms=at_ms, turn=turn, tokens=len(body), body=body, chain=chain, depth=depth, redacted=redacted)


def new_thread(name: str, *, start: int = 0, parent: str | None = None) -> NewThread:
    return NewThread(id=name, dialect="chat", created_at_ms=5, start=start, parent=parent)


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
