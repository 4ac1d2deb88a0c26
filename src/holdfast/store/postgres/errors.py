"""The one place where PostgreSQL's failures become the store's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as failures
from psycopg_pool import PoolClosed, PoolTimeout

from holdfast.errors import StoreBusy, StoreClosed, StoreError, StoreFull, StoreReadOnly

_FULL = (failures.DiskFull, failures.OutOfMemory)
_READ_ONLY = (failures.ReadOnlySqlTransaction, failures.InsufficientPrivilege)
_BUSY = (failures.LockNotAvailable, failures.DeadlockDetected, failures.SerializationFailure, failures.QueryCanceled)


def from_postgres(error: psycopg.Error, *, location: str) -> StoreError:
    """Return the store's name for an error of the server or the driver, its cause kept; no text of a query goes with it."""
    named: StoreError
    if isinstance(error, PoolClosed):
        named = StoreClosed(location)
    elif isinstance(error, (PoolTimeout, *_BUSY)):
        named = StoreBusy(location)
    elif isinstance(error, _FULL):
        named = StoreFull(location)
    elif isinstance(error, _READ_ONLY):
        named = StoreReadOnly(location)
    else:
        code = error.sqlstate or type(error).__name__
        named = StoreError(location, f"PostgreSQL could not do it ({code}); nothing was written")
    named.__cause__ = error
    return named


@contextmanager
def store_errors(location: str) -> Iterator[None]:
    """Let only holdfast's own errors out."""
    try:
        yield
    except psycopg.Error as error:
        raise from_postgres(error, location=location) from error
