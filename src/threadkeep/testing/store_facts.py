"""What the checks of a store share: how they get one, and short ways to write what it holds and must answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import fields
from typing import Protocol, TypeVar

from threadkeep.errors import ThreadkeepError
from threadkeep.items import body_digest
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


def expect(found: object, wanted: object, fact: str) -> None:
    """Raise unless the two are equal. Not `assert`: a check must hold under `python -O` too."""
    if found != wanted:
        raise AssertionError(f"{fact}: wanted {wanted!r:.500}, found {found!r:.500}")


@contextmanager
def refuses(error: type[ThreadkeepError], fact: str) -> Iterator[None]:
    try:
        yield
    except error:
        return
    raise AssertionError(f"{fact}: wanted {error.__name__}, nothing was raised")


@asynccontextmanager
async def opened(make: StoreMaker[S]) -> AsyncIterator[S]:
    store = await make()
    try:
        yield store
    finally:
        await store.close()


def new(
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


def thread(name: str, *, start: int = 0, parent: str | None = None) -> NewThread:
    return NewThread(id=name, dialect="chat", created_at_ms=5, start=start, parent=parent)


def stored(name: str, ordinal: int, record: NewRecord, *, bodies: bool = True) -> Record:
    """Return the record that appending `record` must lead to."""
    same = {field.name: getattr(record, field.name) for field in fields(record) if bodies or field.name != "body"}
    return Record(**{"body": b"", **same}, thread_id=name, ordinal=ordinal, digest=body_digest(record.body))


def whole(name: str) -> Span:
    return Span(thread_id=name, start=0, stop=EVERYTHING)
