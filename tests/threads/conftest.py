"""One scenario, four wire languages; one mailbox, three stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.parity.vocabulary import SPEECHES, Speech

from threadkeep import Config, Threadkeep

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.conftest import ManualClock

Opens = Callable[[], "AbstractAsyncContextManager[Threadkeep]"]


@pytest.fixture(params=SPEECHES, ids=[speech.dialect for speech in SPEECHES])
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.param
    return found


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def opens(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Opens]:
    """Opens the same store any number of times, as several processes would; in memory there is one process, and one store."""
    if request.param == "memory":
        async with Threadkeep(Config(store="memory:"), clock=clock) as only:

            @asynccontextmanager
            async def again() -> AsyncIterator[Threadkeep]:
                yield only

            yield again
        return
    new_store: Callable[[], Awaitable[str]] | None = (
        request.getfixturevalue("postgres_server").new_store if request.param == "postgres" else None
    )
    location = await new_store() if new_store else str(tmp_path / "threads.db")
    yield lambda: Threadkeep(Config(store=location), clock=clock)
