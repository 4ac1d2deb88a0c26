"""A viewer on loopback before a store with a long piece of work in it, and someone who looks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar
from tests.conftest import ManualClock
from tests.histories import answered, said
from tests.viewer.stories import WINDOW, billing, corresponded

from threadkeep import Config, Thread, Threadkeep
from threadkeep.gateway.http.server import run_server
from threadkeep.store import RecordKind
from threadkeep.threads.reader import load_live_path
from threadkeep.viewer.app import StandaloneViewer

PASS = "the-pass-of-this-run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What came back for a request, redirects not followed."""

    status: int
    text: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looker:
    """Someone with a browser of few words: it keeps cookies and says where its forms come from."""

    url: str
    session: ClientSession

    async def get(self, path: str, **headers: str) -> Seen:
        async with self.session.get(f"{self.url}{path}", allow_redirects=False, headers=headers) as answer:
            return Seen(
                status=answer.status,
                text=await answer.text(),
                headers={name.lower(): value for name, value in answer.headers.items()},
            )

    async def post(self, path: str, form: dict[str, str], *, origin: str | None = None) -> Seen:
        headers = {"origin": self.url if origin is None else origin}
        async with self.session.post(f"{self.url}{path}", data=form, headers=headers, allow_redirects=False) as answer:
            return Seen(
                status=answer.status,
                text=await answer.text(),
                headers={name.lower(): value for name, value in answer.headers.items()},
            )

    async def enter(self, credential: str = PASS) -> Seen:
        return await self.post("/ui/enter", {"pass": credential})


@asynccontextmanager
async def looking(url: str) -> AsyncIterator[Looker]:
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
        yield Looker(url=url, session=session)


@pytest.fixture
async def work(store_file: Path, clock: ManualClock) -> AsyncIterator[Threadkeep]:
    """A store with `billing`, compacted three times, and a fork of it with a sub-agent's name."""
    async with Threadkeep(Config(store=str(store_file), model_context_window=WINDOW), clock=clock) as tk:
        thread = await billing(tk, clock)
        fork = await thread.fork(before_turn=8, new_id="billing-with-replica")
        await fork.record([said("Try the replica after all."), answered("It is faster by half.")])
        await corresponded(tk, thread, child=fork.id)
        yield tk


Serve = Callable[..., AbstractAsyncContextManager[str]]


@pytest.fixture
def served(work: Threadkeep, clock: ManualClock) -> Serve:
    """Serves the store inside a block."""

    @asynccontextmanager
    async def serve(*, allow_changes: bool = False) -> AsyncIterator[str]:
        app = StandaloneViewer(work, passes=(PASS,), allow_changes=allow_changes, now=lambda: clock.ms / 1000 + 240)
        async with run_server(app, on_stop=app.stop) as url:
            yield url

    return serve


Opened = Callable[..., AbstractAsyncContextManager[Looker]]


@pytest.fixture
def opened(served: Serve) -> Opened:
    """Gives someone who has entered already."""

    @asynccontextmanager
    async def open_it(*, allow_changes: bool = False) -> AsyncIterator[Looker]:
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(served(allow_changes=allow_changes))
            looker = await stack.enter_async_context(looking(url))
            assert (await looker.enter()).status == 303
            yield looker

    return open_it


async def compaction_ordinals(tk: Threadkeep, thread: Thread) -> list[int]:
    """Return where the compactions of a thread stand, oldest first."""
    path = await load_live_path(tk.backend.store, thread.id, whole=True)
    found = [
        record.ordinal
        for span in path.spans
        for record in await tk.backend.store.read(span, kinds={RecordKind.CHECKPOINT}, bodies=False)
    ]
    return sorted(found)
