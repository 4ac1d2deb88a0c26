"""Every test here runs in each dialect on a real SQLite file, and in one of them in a real PostgreSQL database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.dialects.samples import SAMPLES

from threadkeep import Config, Threadkeep
from threadkeep.testing.dialect_checks import DialectSamples

PLAYS = [(samples, "sqlite") for samples in SAMPLES] + [(SAMPLES[0], "postgres")]


@pytest.fixture(params=PLAYS, ids=[f"{samples.dialect.name}-{place}" for samples, place in PLAYS])
def play(request: pytest.FixtureRequest) -> tuple[DialectSamples, str]:
    """A dialect and where it is stored."""
    found: tuple[DialectSamples, str] = request.param
    return found


@pytest.fixture
def samples(play: tuple[DialectSamples, str]) -> DialectSamples:
    return play[0]


@pytest.fixture
async def store_location(play: tuple[DialectSamples, str], store_file: Path, request: pytest.FixtureRequest) -> str:
    """A file that is not there yet, or an empty database."""
    if play[1] == "sqlite":
        return str(store_file)
    location: str = await request.getfixturevalue("postgres_server").new_store()
    return location


@pytest.fixture
async def tk(store_location: str, clock: ManualClock) -> AsyncIterator[Threadkeep]:
    """An open store whose window is small, so that a few turns are enough to compact."""
    async with Threadkeep(Config(store=store_location, model_context_window=4_000), clock=clock) as opened:
        yield opened
