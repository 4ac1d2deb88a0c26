"""`threadkeep demo`: a long session, played through the real gateway on loopback; every figure it prints is measured in the run."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
from aiohttp import ClientSession
from rich.console import Console

from threadkeep.client import Config, Threadkeep
from threadkeep.compaction import AuditReport
from threadkeep.demo.client import DemoClient, DemoStopped
from threadkeep.demo.proof import Compaction, Played, prove
from threadkeep.demo.provider import DemoProvider, script_of
from threadkeep.demo.report import examine, print_opening, print_report, print_stop
from threadkeep.demo.screen import Moment, Screen, screen_on
from threadkeep.demo.session import Session
from threadkeep.demo.story import long_session
from threadkeep.errors import ThreadkeepError
from threadkeep.gateway.serve import running_gateway
from threadkeep.store import RecordKind, Span
from threadkeep.threads import Checkpoint, decode_body

COMMAND = "/compact keep the current ticket in view"
LONGEST_SECONDS = 600
# The user types the command in the second half of the session, when the context is this full.
COMMAND_FROM_SHARE = 0.6


async def play_demo(*, turns: int, seed: int, console: Console, window_tokens: int | None = None) -> int:
    """Play the session of `seed`, print what was kept and what it cost; return 0 only if every promise shown held, else 1.

    The store stays in a temporary folder that the report names.

    Raises:
        ValueError: Fewer turns than the shortest session has.
    """
    session = long_session(seed=seed, turns=turns)
    return await play_session(session, console=console, window_tokens=window_tokens or window_for(turns))


def demo_config(store: str, *, window_tokens: int) -> Config:
    """Return the settings of a demo: its provider plays a script and drafts nothing."""
    return Config(store=store, model_context_window=window_tokens, gateway_asks_model="no")


async def play_session(session: Session, *, console: Console, window_tokens: int) -> int:
    """Play a session for a model whose window holds `window_tokens`; see `play_demo`."""
    store = str(Path(tempfile.mkdtemp(prefix="threadkeep-demo-")) / "demo.db")
    print_opening(console, session, window_tokens=window_tokens)
    try:
        async with asyncio.timeout(LONGEST_SECONDS), Threadkeep(demo_config(store, window_tokens=window_tokens)) as tk:
            with screen_on(console) as screen:
                played = await _Play(tk, session, window_tokens=window_tokens, store=store, screen=screen).through()
            proof = await prove(tk, played)
    except (DemoStopped, TimeoutError, ThreadkeepError) as error:
        print_stop(console, error, store=store)
        return 1
    findings = examine(played, proof)
    print_report(console, findings)
    return 0 if findings.hold else 1


def window_for(turns: int) -> int:
    """Return a model's window that a session of 120 turns overflows about twenty times, and that the user's words of any session fit in."""
    return 14_000 + 50 * turns


class _Play:
    """One run: the provider, the gateway and the client, and what was seen of them on the way."""

    def __init__(self, tk: Threadkeep, session: Session, *, window_tokens: int, store: str, screen: Screen) -> None:
        self._tk = tk
        self._session = session
        self._window_tokens = window_tokens
        self._store = store
        self._screen = screen
        self._provider = DemoProvider(script_of(session), window_tokens=window_tokens)
        self._compactions: list[Compaction] = []
        self._thread = ""
        self._command_answer: str | None = None
        self._command_ms = 0.0
        self._sent_in_all = 0
        self._received_in_all = 0
        self._sizes: list[int] = []

    async def through(self) -> Played:
        """Play all turns and return what happened.

        Raises:
            DemoStopped: A request was refused or not answered, or nothing had to be compacted.
        """
        started = time.perf_counter()
        async with AsyncExitStack() as stack:
            upstream = await stack.enter_async_context(self._provider.serving())
            gateway = await stack.enter_async_context(running_gateway(self._tk, upstream=upstream, auto_compact=True))
            http = await stack.enter_async_context(ClientSession())
            client = DemoClient(self._session, base_url=f"{gateway}/v1", http=http)
            for number, turn in enumerate(self._session.turns):
                async for _ in client.play(turn, number=number):
                    await self._note(client)
                    self._show(client, turn=number)
                await self._maybe_command(client, after=number)
            self._show(client, turn=len(self._session.turns))
        if not self._compactions:
            raise DemoStopped(f"the whole session fits into {self._window_tokens:,} tokens; nothing had to be compacted")
        return Played(
            session=self._session,
            client=client,
            provider=self._provider,
            compactions=tuple(self._compactions),
            command_answer=self._command_answer,
            window_tokens=self._window_tokens,
            store=self._store,
            thread=self._thread,
            seconds=time.perf_counter() - started,
        )

    async def _maybe_command(self, client: DemoClient, *, after: int) -> None:
        late = after >= len(self._session.turns) // 2 and after < len(self._session.turns) - 1
        full = self._sizes[-1] >= self._window_tokens * COMMAND_FROM_SHARE
        if self._command_answer is None and late and full:
            started = time.perf_counter()
            self._command_answer = await client.command(COMMAND)
            self._command_ms = (time.perf_counter() - started) * 1_000

    async def _note(self, client: DemoClient) -> None:
        """Take down the request that was just answered and, if what the provider receives has changed, the compaction behind it."""
        received = self._provider.received[-1]
        self._sizes.append(received.tokens)
        self._sent_in_all += client.sent[-1].tokens
        self._received_in_all += received.tokens
        store = self._tk.backend.store
        if not self._thread:
            self._thread = (await store.threads(limit=1))[0].id
        if received.grew:
            return
        seen = self._compactions[-1].ordinal if self._compactions else -1
        row = await store.get(self._thread)
        span = Span(thread_id=row.id, start=seen + 1, stop=row.next)
        for record in await store.read(span, kinds={RecordKind.CHECKPOINT}):
            checkpoint = decode_body(record.body, Checkpoint)
            self._compactions.append(self._compaction(checkpoint, client, ordinal=record.ordinal))
            self._screen.compacted(self._compactions[-1], number=len(self._compactions), turns=len(self._session.turns))

    def _compaction(self, checkpoint: Checkpoint, client: DemoClient, *, ordinal: int) -> Compaction:
        audit = msgspec.json.decode(bytes(checkpoint.audit), type=AuditReport)
        sent, received = client.sent[-1], self._provider.received[-1]
        by_command = checkpoint.focus is not None
        return Compaction(
            ordinal=ordinal,
            turn=sent.turn,
            request=len(self._provider.received) - 1,
            items=min(client.aside) + 1 if by_command else sent.items,
            by_command=by_command,
            tokens_before=checkpoint.figures["tokens_before"],
            tokens_after=checkpoint.figures["tokens_after"],
            model_calls=checkpoint.figures["model_calls"],
            required=audit.required,
            repaired=len(audit.repaired),
            wait_ms=self._command_ms if by_command else (received.at - sent.at) * 1_000,
        )

    def _show(self, client: DemoClient, *, turn: int) -> None:
        self._screen.show(
            Moment(
                turn=turn,
                turns=len(self._session.turns),
                sizes=self._sizes,
                compactions=self._compactions,
                window_tokens=self._window_tokens,
                sent_tokens=client.sent[-1].tokens,
                sent_in_all=self._sent_in_all,
                received_in_all=self._received_in_all,
            )
        )
