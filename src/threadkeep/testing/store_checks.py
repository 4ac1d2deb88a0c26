"""What a backend of the store must do, as checks that need no test framework.

A backend proves itself with `await check_thread_store(make)`, and with one call more for each optional port it has; or it
runs each of `THREAD_STORE_CHECKS`, `SEARCH_CHECKS`, `LEASE_CHECKS`, `ERASURE_CHECKS` and `NOTIFY_CHECKS` (of `CHECKS`, if it has
every port) as a test of its own. A check raises `AssertionError` with the fact that does not hold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from threadkeep.store.base import Erasure, Leases, Notify, Search, ThreadStore
from threadkeep.testing.erasure_checks import ERASURE_CHECKS, ErasureMaker
from threadkeep.testing.lease_checks import LEASE_CHECKS, LeaseMaker
from threadkeep.testing.notify_checks import NOTIFY_CHECKS, NotifyMaker
from threadkeep.testing.search_checks import SEARCH_CHECKS, SearchMaker
from threadkeep.testing.store_facts import StoreMaker
from threadkeep.testing.thread_store_checks import THREAD_STORE_CHECKS, ThreadStoreMaker


class WholeStore(ThreadStore, Search, Leases, Erasure, Notify, Protocol):
    """A store with every optional port."""


Check = Callable[[StoreMaker[WholeStore]], Awaitable[None]]

CHECKS: tuple[Check, ...] = (*THREAD_STORE_CHECKS, *SEARCH_CHECKS, *LEASE_CHECKS, *ERASURE_CHECKS, *NOTIFY_CHECKS)


async def check_thread_store(make: ThreadStoreMaker) -> None:
    """Run every check of the port all backends have; the first fact that does not hold is raised."""
    for check in THREAD_STORE_CHECKS:
        await check(make)


async def check_search(make: SearchMaker) -> None:
    """Run every check of `Search`."""
    for check in SEARCH_CHECKS:
        await check(make)


async def check_leases(make: LeaseMaker) -> None:
    """Run every check of `Leases`."""
    for check in LEASE_CHECKS:
        await check(make)


async def check_erasure(make: ErasureMaker) -> None:
    """Run every check of `Erasure`; the store must search too, because its index must not remember."""
    for check in ERASURE_CHECKS:
        await check(make)


async def check_notify(make: NotifyMaker) -> None:
    """Run every check of `Notify`."""
    for check in NOTIFY_CHECKS:
        await check(make)
