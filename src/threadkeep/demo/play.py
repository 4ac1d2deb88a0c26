"""Plays the recorded session through the real gateway on loopback; every figure of the report is measured in the run."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from aiohttp import ClientSession
from rich.console import Console

from threadkeep.client import Config, Threadkeep
from threadkeep.demo.checks import Compaction, Played, check_run
from threadkeep.demo.client import DemoClient, DemoStopped
from threadkeep.demo.provider import DemoProvider
from threadkeep.demo.report import Progress, print_opening, print_report, print_stop
from threadkeep.demo.session import Session, load_session
from threadkeep.errors import ThreadkeepError
from threadkeep.gateway.serve import running_gateway
from threadkeep.store import RecordKind, Span
from threadkeep.threads import Checkpoint, decode_body

COMMAND = "/compact keep the current ticket in view"
LONGEST_SECONDS = 600
# The user types the command in the second half of the session, when the context is this full.
COMMAND_FROM_SHARE = 0.6


async def play_demo(*, console: Console) -> int:
    """Play the recorded session, print what was kept and what it cost; return 0 only if every check held, else 1.

    The store stays in a temporary folder that the report names.
    """
    return await play_session(load_session(), console=console)


async def play_session(session: Session, *, console: Console) -> int:
    """Play a session; see `play_demo`."""
    store = str(Path(tempfile.mkdtemp(prefix="threadkeep-demo-")) / "demo.db")
    # The provider plays a record and writes no summaries.
    config = Config(store=store, model_context_window=session.window_tokens, gateway_asks_model="no")
    print_opening(console, session)
    try:
        async with asyncio.timeout(LONGEST_SECONDS), Threadkeep(config) as tk:
            with Progress(console, session) as progress:
                played = await _Run(tk, session, store=store, progress=progress).play()
            findings = await check_run(tk, played)
    except (DemoStopped, TimeoutError, ThreadkeepError) as error:
        print_stop(console, error, store=store)
        return 1
    print_report(console, findings)
    return 0 if all(check.held for check in findings.checks) else 1


class _Run:
    """One run: the provider, the gateway and the client, and the compactions between them."""

    def __init__(self, tk: Threadkeep, session: Session, *, store: str, progress: Progress) -> None:
        self._tk = tk
        self._session = session
        self._store = store
        self._progress = progress
        self._provider = DemoProvider(session)
        self._compactions: list[Compaction] = []
        self._thread = ""
        self._command_answer: str | None = None
        self._command_ms = 0.0

    async def play(self) -> Played:
        """Play all turns and return what happened.

        Raises:
            DemoStopped: A request was refused or not answered, or nothing had to be compacted.
        """
        started = time.perf_counter()
        async with AsyncExitStack() as stack:
            upstream = await stack.enter_async_context(self._provider.serve())
            gateway = await stack.enter_async_context(running_gateway(self._tk, upstream=upstream, auto_compact=True))
            http = await stack.enter_async_context(ClientSession())
            client = DemoClient(self._session, base_url=f"{gateway}/v1", http=http)
            for number in range(len(self._session.turns)):
                async for _ in client.play_turn(number):
                    await self._note_compactions(client)
                    self._progress.show(client.sent[-1], self._provider.received[-1])
                await self._maybe_send_command(client, after=number)
        if not self._compactions:
            raise DemoStopped(f"the whole session fits into {self._session.window_tokens:,} tokens; nothing had to be compacted")
        return Played(
            session=self._session,
            client=client,
            provider=self._provider,
            compactions=tuple(self._compactions),
            command_answer=self._command_answer,
            store=self._store,
            thread=self._thread,
            seconds=time.perf_counter() - started,
        )

    async def _maybe_send_command(self, client: DemoClient, *, after: int) -> None:
        turns = len(self._session.turns)
        full = self._provider.received[-1].tokens >= self._session.window_tokens * COMMAND_FROM_SHARE
        if self._command_answer is None and turns // 2 <= after < turns - 1 and full:
            started = time.perf_counter()
            self._command_answer = await client.send_command(COMMAND)
            self._command_ms = (time.perf_counter() - started) * 1_000

    async def _note_compactions(self, client: DemoClient) -> None:
        """If the prompt of the newest request moved, read the checkpoints behind it."""
        store = self._tk.backend.store
        if not self._thread:
            self._thread = (await store.threads(limit=1))[0].id
        if self._provider.received[-1].grew:
            return
        seen = self._compactions[-1].ordinal if self._compactions else -1
        row = await store.get(self._thread)
        span = Span(thread_id=row.id, start=seen + 1, stop=row.next)
        for record in await store.read(span, kinds={RecordKind.CHECKPOINT}):
            compaction = self._describe(decode_body(record.body, Checkpoint), client, ordinal=record.ordinal)
            self._compactions.append(compaction)
            self._progress.add_compaction(compaction, number=len(self._compactions))

    def _describe(self, checkpoint: Checkpoint, client: DemoClient, *, ordinal: int) -> Compaction:
        sent, received = client.sent[-1], self._provider.received[-1]
        by_command = checkpoint.focus is not None
        return Compaction(
            ordinal=ordinal,
            turn=sent.turn,
            request=len(self._provider.received) - 1,
            items=min(client.aside) + 1 if by_command else sent.items,
            by_command=by_command,
            figures=checkpoint.figures,
            wait_ms=self._command_ms if by_command else (received.at - sent.at) * 1_000,
        )
