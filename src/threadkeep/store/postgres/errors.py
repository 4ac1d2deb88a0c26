"""The one place where PostgreSQL's failures become the store's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors as failures
from psycopg_pool import PoolClosed

from threadkeep.errors import StoreBusy, StoreClosed, StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreUnreachable

# The server went away, has not started yet, is full, or timed us out: another connection may work a little later.
_AWAY = ("08", "57P01", "57P02", "57P03", "57P05", "53300", "25P03", "25P04")
# The login is unknown or not allowed: waiting does not help.
_REFUSED = ("28", "53")


UNSTORABLE = "PostgreSQL cannot hold a text in it, with a NUL or half a surrogate; nothing was written"


def name_postgres_error(error: psycopg.Error, *, location: str) -> StoreError:
    """Return the store's error for one of the server or the driver, its cause kept; it quotes no text of a query."""
    named = _name_error(error, location)
    named.__cause__ = error
    return named


def _name_error(error: psycopg.Error, location: str) -> StoreError:
    code = error.sqlstate or type(error).__name__
    match error:
        case PoolClosed():
            return StoreClosed(location)
        case failures.DiskFull():
            return StoreFull(location)
        case failures.DataCorrupted() | failures.IndexCorrupted():
            return StoreCorrupt(location, code)
        case failures.ReadOnlySqlTransaction() | failures.InsufficientPrivilege():
            return StoreReadOnly(location)
        case (
            failures.LockNotAvailable() | failures.DeadlockDetected() | failures.SerializationFailure() | failures.QueryCanceled()
        ):
            return StoreBusy(location)
        case psycopg.OperationalError() if error.sqlstate is None or error.sqlstate.startswith((*_AWAY, *_REFUSED)):
            return StoreUnreachable(location, code)
        case _:
            return StoreError(location, f"PostgreSQL failed ({code}); nothing was written")


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone, and with it whatever its transaction had not committed."""
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        # The driver's own: the socket closed. A subclass means that the pool has waited for a connection long enough.
        return type(error) is psycopg.OperationalError
    return error.sqlstate is not None and error.sqlstate.startswith(_AWAY)


@contextmanager
def translate_errors(location: str) -> Iterator[None]:
    """Turn every error of the driver raised in the block into a `StoreError`."""
    try:
        yield
    except psycopg.Error as error:
        raise name_postgres_error(error, location=location) from error
    except UnicodeEncodeError as error:
        raise StoreError(location, UNSTORABLE) from error
