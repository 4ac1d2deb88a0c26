"""What tests of every layer share: one event loop, a clock that tests move, a store in a temporary file."""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from threadkeep import Config, Threadkeep

# Test files import the shared builders as `tests.histories`, whichever way pytest was started.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


# A failure is reported as it was found: shrinking one took longer than the whole suite. The examples are the same in every run,
# so that a change is judged by what it changed; `pytest --hypothesis-profile search` looks for new ones.
for name, is_fixed in (("fixed", True), ("search", False)):
    settings.register_profile(
        name,
        deadline=None,
        derandomize=is_fixed,
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.target),
    )
settings.load_profile("fixed")

from tests.dialect_choice import mark_other_dialects_slow  # noqa: E402  # only importable from here on
from tests.example_counts import limit_examples  # noqa: E402
from tests.on_postgres import Redirected, fit_for_a_server  # noqa: E402
from tests.postgres import PostgresServer, running_postgres  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store", choices=("sqlite", "postgres"), default="sqlite", help="where files that tests name as stores are"
    )
    parser.addoption("--most-examples", type=int, help="try no property with more examples than this")


def keep_files_together(items: list[pytest.Item]) -> None:
    """Under `--dist loadgroup`, run a file's tests in one process, so that what they share is made once; a client's test is
    mostly waiting, and goes wherever there is room.
    """
    for item in items:
        folder = item.nodeid.rpartition("/")[0]
        if not item.nodeid.startswith("tests/clients/"):
            # What this folder shares is made for all its files.
            shares = folder == "tests/benchmarks/retention"
            item.add_marker(pytest.mark.xdist_group(folder if shares else item.nodeid.partition("::")[0]))


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_other_dialects_slow(items)
    keep_files_together(items)
    if (most := config.getoption("--most-examples")) is not None:
        limit_examples(items, most=most)
    if config.getoption("--store") == "postgres":
        items[:], left_out = fit_for_a_server(items)
        config.hook.pytest_deselected(items=left_out)


# Thousands of collected tests are no garbage; a collector that walks through them again and again costs a tenth of a run.
gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


@pytest.fixture
async def tk(store_file: Path, clock: ManualClock) -> AsyncIterator[Threadkeep]:
    """An open store whose window is small, so that a few turns are enough to compact."""
    async with Threadkeep(Config(store=str(store_file), model_context_window=4_000), clock=clock) as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A real PostgreSQL server, started when a test first asks for it."""
    with running_postgres() as server:
        yield server


@pytest.fixture(autouse=True)
def where_stores_are(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With `--store postgres`, put every store that a test opens in this process into a database instead of a file."""
    if request.config.getoption("--store") == "sqlite":
        yield
        return
    redirected = Redirected(request.getfixturevalue("postgres_server"))
    monkeypatch.setattr("threadkeep.client.threadkeep.open_database", redirected.open)
    yield
    redirected.drop()
