"""The one place where PostgreSQL's failures become the store's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as failures
from psycopg_pool import PoolClosed

from threadkeep.errors import StoreBusy, StoreClosed, StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreUnreachable

_CORRUPT = (failures.DataCorrupted, failures.IndexCorrupted)
_READ_ONLY = (failures.ReadOnlySqlTransaction, failures.InsufficientPrivilege)
_BUSY = (failures.LockNotAvailable, failures.DeadlockDetected, failures.SerializationFailure, failures.QueryCanceled)
# The server went away, has not come yet, takes no more, or would not wait for us any longer: another connection, a little later,
# may be served.
_AWAY = ("08", "57P01", "57P02", "57P03", "57P05", "53300", "25P03", "25P04")
# Who connects is not known there, or may not: waiting helps nobody.
_REFUSED = ("28", "53")


def from_postgres(error: psycopg.Error, *, location: str) -> StoreError:
    """Return the store's name for an error of the server or the driver, its cause kept; no text of a query goes with it."""
    named = _named(error, location)
    named.__cause__ = error
    return named


def _named(error: psycopg.Error, location: str) -> StoreError:
    code = error.sqlstate or type(error).__name__
    match error:
        case PoolClosed():
            return StoreClosed(location)
        case failures.DiskFull():
            return StoreFull(location)
        case _ if isinstance(error, _CORRUPT):
            return StoreCorrupt(location, code)
        case _ if isinstance(error, _READ_ONLY):
            return StoreReadOnly(location)
        case _ if isinstance(error, _BUSY):
            return StoreBusy(location)
        case psycopg.OperationalError() if error.sqlstate is None or error.sqlstate.startswith((*_AWAY, *_REFUSED)):
            return StoreUnreachable(location, code)
        case _:
            return StoreError(location, f"PostgreSQL could not do it ({code}); nothing was written")


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone, and with it whatever its transaction had not committed."""
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        # The driver's own: the socket closed. The pool has waited long enough already when it says that nobody answers.
        return type(error) is psycopg.OperationalError
    return error.sqlstate is not None and error.sqlstate.startswith(_AWAY)


@contextmanager
def store_errors(location: str) -> Iterator[None]:
    """Let only threadkeep's own errors out."""
    try:
        yield
    except psycopg.Error as error:
        raise from_postgres(error, location=location) from error
