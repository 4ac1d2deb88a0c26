"""Every failure of PostgreSQL, its driver and its pool has a name of ours.

Of one backend alone: the classes are the driver's; test_sqlite_errors.py has SQLite's.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import psycopg
import psycopg_pool
import pytest
from psycopg import errors as failures

from threadkeep.errors import (
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from threadkeep.store.postgres.errors import is_lost, name_postgres_error, translate_errors

# By the code, or the class of codes, that an error has; any other is a plain store error.
NAMED = {
    "08": StoreUnreachable,
    "25006": StoreReadOnly,
    "28": StoreUnreachable,
    "40001": StoreBusy,
    "40P01": StoreBusy,
    "42501": StoreReadOnly,
    "53": StoreUnreachable,
    "53100": StoreFull,
    "55P03": StoreBusy,
    "57014": StoreBusy,
    "57P01": StoreUnreachable,
    "57P02": StoreUnreachable,
    "57P03": StoreUnreachable,
    "57P05": StoreUnreachable,
    "XX001": StoreCorrupt,
    "XX002": StoreCorrupt,
}
LOST = ("08", "57P01", "57P02", "57P03", "57P05", "53300", "25P03", "25P04")


def every_error() -> Iterator[type[psycopg.Error]]:
    """Yield each error class of the driver, with those of the server's codes, and of the pool."""
    for module in (psycopg, failures, psycopg_pool):
        for _, found in inspect.getmembers(module, inspect.isclass):
            if issubclass(found, psycopg.Error):
                yield found


EVERY = sorted(set(every_error()), key=lambda kind: (kind.sqlstate or "", kind.__name__))


def wanted(kind: type[psycopg.Error]) -> type[StoreError]:
    if kind is psycopg_pool.PoolClosed:
        return StoreClosed
    if kind.sqlstate is None:
        return StoreUnreachable if issubclass(kind, psycopg.OperationalError) else StoreError
    return NAMED.get(kind.sqlstate, NAMED.get(kind.sqlstate[:2], StoreError))


def test_each_class_of_the_driver_has_one_name() -> None:
    """An error of any class the driver can raise becomes exactly one of ours, its cause kept and none of its words repeated."""
    raised = [kind("what PostgreSQL said: SELECT secret") for kind in EVERY]
    named = [name_postgres_error(error, location="postgresql://local/db") for error in raised]
    assert [(type(each), each.__cause__) for each in named] == [(wanted(type(error)), error) for error in raised]
    assert {each.location for each in named} == {"postgresql://local/db"}
    assert [str(each) for each in named if "secret" in str(each)] == []


def test_the_codes_are_many() -> None:
    """The list above is what the driver really has, not a few of it."""
    assert len(EVERY) > 240


def test_only_a_lost_connection_is_tried_again() -> None:
    """Work is begun again where the server went away, and nowhere else."""
    gone = [kind for kind in EVERY if kind is psycopg.OperationalError or (kind.sqlstate or "").startswith(LOST)]
    assert [kind for kind in EVERY if is_lost(kind(""))] == gone


def test_nothing_foreign_leaves_the_boundary() -> None:
    """Inside the boundary anything of the driver's may be raised; outside only ours is seen."""
    raised = failures.DiskFull("no space")
    with pytest.raises(StoreFull) as outside, translate_errors("postgresql://local/db"):
        raise raised
    assert outside.value.__cause__ is raised
