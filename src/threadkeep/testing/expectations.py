"""How a check states a fact, and how a list of checks is run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from threadkeep.errors import ThreadkeepError

M = TypeVar("M")


async def run_checks(checks: Iterable[Callable[[M], Awaitable[None]]], about: M) -> None:
    """Run checks on what they are about; the first fact that does not hold is raised."""
    for check in checks:
        await check(about)


def expect(found: object, wanted: object, fact: str) -> None:
    """Raise unless the two are equal. Not `assert`: a check must hold under `python -O` too."""
    if found != wanted:
        raise AssertionError(f"{fact}: wanted {wanted!r:.500}, found {found!r:.500}")


def expect_that(holds: object, fact: str) -> None:
    """Raise unless something holds."""
    if not holds:
        raise AssertionError(fact)


@contextmanager
def expect_error(error: type[ThreadkeepError], fact: str) -> Iterator[None]:
    try:
        yield
    except error:
        return
    raise AssertionError(f"{fact}: wanted {error.__name__}, nothing was raised")
