"""Work that the event loop hands to a thread, and its outcome on the way back."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An operation on a connection, and who awaits its result."""

    operation: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """The outcome of a job that raised; any other value is the result of one that did not."""

    error: Exception


def deliver(jobs: Sequence[Job], outcomes: Sequence[object]) -> None:
    """Tell everyone who still waits. Belongs on the event loop."""
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.future.done():
            continue
        if isinstance(outcome, Failed):
            job.future.set_exception(outcome.error)
        else:
            job.future.set_result(outcome)
