"""Work that the event loop hands to a thread, and its outcome on the way back."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from threadkeep.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An operation on a connection, and who awaits its result."""

    operation: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """The outcome of a job that raised; any other value is the result of one that did not."""

    error: Exception


def started(work: Callable[..., None], *arguments: object, name: str, location: str) -> threading.Thread:
    """Return a thread that does `work`, once it runs.

    A daemon: a host that never closes its store must still be able to exit; what was acknowledged is durable.

    Raises:
        StoreError: The system gives this process no thread; nothing of the work was begun.
    """
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        what_next = "nothing was written; let the process end some, or raise its limit, and try again"
        raise StoreError(location, f"the system gives this process no more threads ({error}); {what_next}") from error
    return thread


def deliver(jobs: Sequence[Job], outcomes: Sequence[object]) -> None:
    """Tell everyone who still waits. Belongs on the event loop."""
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.future.done():
            continue
        if isinstance(outcome, Failed):
            job.future.set_exception(outcome.error)
        else:
            job.future.set_result(outcome)
