"""Plays the recorded session through the real gateway on loopback, and prints what was kept, what it cost and what was checked.

Every figure of the report is measured in the run.
"""

from __future__ import annotations

import asyncio
import shlex
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from aiohttp import ClientSession
from rich.console import Console
from rich.table import Table
from rich.text import Text

from threadkeep.client import Config, Threadkeep
from threadkeep.demo.checks import BEFORE_COMPACTION, Compaction, Findings, Judged, Played, check_run
from threadkeep.demo.client import DemoClient, DemoStopped
from threadkeep.demo.provider import DemoProvider, Received
from threadkeep.demo.session import Session
from threadkeep.errors import ThreadkeepError
from threadkeep.gateway.serve import running_gateway
from threadkeep.store import RecordKind, Span
from threadkeep.threads import Checkpoint, decode_body
from threadkeep.viewer.size_history import draw_bars

SHOWN_DEMANDS = 12
WIDEST = 110
PLOT_ROWS = 5
COMMAND = "/compact keep the current ticket in view"
LONGEST_SECONDS = 600
# The user types the command in the second half of the session, when the context is this full.
COMMAND_FROM_SHARE = 0.6


async def play_session(session: Session, *, console: Console) -> int:
    """Play a session, print what was kept and what it cost; return 0 only if every check held, else 1.

    The store stays in a temporary folder that the report names.
    """
    store = str(Path(tempfile.mkdtemp(prefix="threadkeep-demo-")) / "demo.db")
    # The provider plays a record and writes no summaries.
    config = Config(store=store, model_context_window=session.window_tokens, gateway_asks_model="no")
    print_opening(console, session)
    try:
        async with asyncio.timeout(LONGEST_SECONDS), Threadkeep(config) as tk:
            played = await _Run(tk, session, store=store, console=console).play()
            findings = await check_run(tk, played)
    except (DemoStopped, TimeoutError, ThreadkeepError) as error:
        print_stop(console, error, store=store)
        return 1
    print_report(console, findings)
    return 0 if all(check.held for check in findings.checks) else 1


class _Run:
    """One run: the provider, the gateway and the client, and the compactions between them."""

    def __init__(self, tk: Threadkeep, session: Session, *, store: str, console: Console) -> None:
        self._tk = tk
        self._session = session
        self._store = store
        self._console = console
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
            print_compaction(self._console, compaction, number=len(self._compactions), turns=len(self._session.turns))

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


def print_compaction(console: Console, compaction: Compaction, *, number: int, turns: int) -> None:
    """Print a line for a compaction."""
    cause = "typed: /compact" if compaction.by_command else "automatic"
    turn = f"  turn {compaction.turn + 1:>3} of {turns}  compaction {number:>2}"
    before, after = compaction.figures["tokens_before"], compaction.figures["tokens_after"]
    console.print(Text(f"{turn}  {before:>6,} -> {after:>6,} tokens  ({cause})"), soft_wrap=True)


def print_opening(console: Console, session: Session) -> None:
    """Explain what is about to be played."""
    console.print(Text("\nthreadkeep demo", style="bold"))
    requests = sum(len(turn.steps) for turn in session.turns)
    _print_paragraph(
        console,
        f"A recorded coding session of {len(session.turns)} turns and {requests} requests is played for a model "
        f"whose context window holds {session.window_tokens:,}. Early on the user makes {len(session.demands)} demands; some are "
        f"corrected later. The agent resends its whole history with every request. threadkeep stands between it and the model: "
        f"when the window fills up, it replaces the old part of the history with a short record of what still holds. The user "
        f"and the model are a recording; everything between them is real, and all of it runs on this machine.\n",
    )


def print_stop(console: Console, error: Exception, *, store: str) -> None:
    """Explain why the session could not be played to its end."""
    console.print(Text(f"The demo did not reach its end: {str(error) or type(error).__name__}", style="bold red"), soft_wrap=True)
    console.print(Text(f"The recorded part is in {store}"), soft_wrap=True)


def print_report(console: Console, findings: Findings) -> None:
    """Print everything, in the order a newcomer asks: did it remember, what did it cost, can it be trusted, what now."""
    _print_demands(console, findings)
    _print_cost(console, findings.played)
    _print_checks(console, findings)
    played = findings.played
    _print_heading(console, "Look for yourself")
    commands = (
        f"export THREADKEEP_STORE={shlex.quote(played.store)}",
        f"threadkeep show {played.thread} --state",
        f"threadkeep recall {played.thread} {shlex.quote(played.session.demands[0].needle)}",
        f"threadkeep show {BEFORE_COMPACTION} --window\n",
    )
    console.print(Text("".join(f"\n  {command}" for command in commands), style="cyan"), soft_wrap=True)


def _print_demands(console: Console, findings: Findings) -> None:
    last, total = findings.played.provider.received[-1], len(findings.judged)
    _print_heading(console, "What the user demanded, and what the model still sees at the end")
    _print_paragraph(
        console,
        f"Only the last request counts: {last.tokens:,} tokens, after {len(findings.played.compactions)} compactions. A demand "
        f"is kept if its exact value stands there as something that holds, not as history.\n",
    )
    table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    for name in ("  ", "turn", "kind", "what the user said", "now in"):
        table.add_column(name, justify="right" if name == "turn" else "left", no_wrap=True, overflow="ellipsis")
    room = min(console.width, WIDEST) - 46
    for judged in _select_demands(findings.judged):
        place = judged.place or "nowhere"
        shown = Text("beside outdated" if judged.is_outdated else place, style="" if judged.holds else "bold red")
        kind = judged.demand.kind.replace("_", " ")
        table.add_row(_mark(held=judged.holds), str(judged.demand.turn + 1), kind, _shorten(judged, room=room), shown)
    console.print(table)
    kept = sum(judged.holds for judged in findings.judged)
    console.print(Text(f"\n  kept: {kept} of {total}", style=f"bold {_colour(held=kept == total)}"), end="")
    console.print(Text(f"  ({min(SHOWN_DEMANDS, total)} of them shown)", style="dim"))


def _select_demands(judged: Sequence[Judged]) -> list[Judged]:
    """Return a dozen demands: those that were lost, then the first of each kind, then the second; in the order they were made."""
    seen: Counter[str] = Counter()
    ranks = []
    for index, each in enumerate(judged):
        ranks.append((each.holds, seen[each.demand.kind], index))
        seen[each.demand.kind] += 1
    return [judged[index] for index in sorted(index for *_, index in sorted(ranks)[:SHOWN_DEMANDS])]


def _shorten(judged: Judged, *, room: int) -> Text:
    """Return the sentence, shortened to `room` so that its value can be seen."""
    said, needle = " ".join(judged.demand.said.split()), judged.demand.needle
    start = said.find(needle)
    cut = max(0, min(start + len(needle) + 1 - room, start - 2))
    shown = f"…{said[cut + 1 :]}" if cut else said
    text = Text(shown if len(shown) <= room else f"{shown[: room - 1]}…")
    text.highlight_words([needle], "bold cyan")
    return text


def _print_cost(console: Console, played: Played) -> None:
    _print_heading(console, "What it cost")
    sent, received, window = played.client.sent, played.provider.received, played.session.window_tokens
    before, after = sum(request.tokens for request in sent), sum(request.tokens for request in received)
    fresh = sum(request.tokens - request.unchanged_tokens for request in received)
    refused = [request for request in sent if request.tokens > window]
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("", "the client sent", "the model received"):
        table.add_column(name, justify="right" if name else "left")
    table.add_row("requests", f"{len(sent):,}", f"{len(received):,}")
    table.add_row("tokens in all", f"{before:,}", Text(f"{after:,}", style="bold"))
    table.add_row("of these new to a prompt cache", f"{sent[-1].tokens:,}", f"{fresh:,}")
    table.add_row("largest request", f"{max(r.tokens for r in sent):,}", f"{max(r.tokens for r in received):,}")
    over = sum(request.tokens > window for request in received)
    table.add_row(f"over the model's {window:,}", f"{len(refused)} requests", f"{over} requests")
    console.print(table)
    first = f" Without threadkeep the model refuses from turn {refused[0].turn + 1} on." if refused else ""
    waits = [compaction.wait_ms for compaction in played.compactions]
    calls = sum(compaction.figures["model_calls"] for compaction in played.compactions)
    moved = {compaction.request for compaction in played.compactions}
    pairs = enumerate(zip(sent, received, strict=True))
    others = [(receipt.at - request.at) * 1_000 for place, (request, receipt) in pairs if place not in moved]
    _print_paragraph(
        console,
        f"\nThe model received {after * 100 / before:.1f} % of the tokens the client sent.{first} A compaction rewrites the "
        f"prompt from its start, which a prompt cache then has to read again.\n{len(waits)} compactions, {calls} model calls. "
        f"One delayed its request by {median(waits):.0f} ms (median; {max(waits):.0f} ms at most); a request without one took "
        f"{median(others):.0f} ms to reach the model. The whole session took {played.seconds:.0f} s.",
    )
    console.print(_draw_context(received, played.compactions, limit=window, columns=console.width))


def _print_checks(console: Console, findings: Findings) -> None:
    _print_heading(console, "What was checked")
    table = Table(box=None, padding=(0, 1), show_header=False, pad_edge=False, width=min(console.width, WIDEST))
    for ratio in (None, 2, 3):
        table.add_column(ratio=ratio, no_wrap=ratio is None)
    for check in findings.checks:
        style = "" if check.held else "bold red"
        table.add_row(_mark(held=check.held), Text(check.claim, style=style), Text(check.detail, style=style or "dim"))
    console.print(table)
    failed = sum(not check.held for check in findings.checks)
    verdict = f"{failed} of {len(findings.checks)} did not hold." if failed else f"All {len(findings.checks)} held."
    console.print(Text(f"\n  {verdict}", style=f"bold {_colour(held=not failed)}"))


def _draw_context(received: Sequence[Received], compactions: Sequence[Compaction], *, limit: int, columns: int) -> Text:
    """Return a plot of the size of each request, with its scale beside it."""
    width = min(columns, WIDEST) - 12
    places = [at * width // max(width, len(received)) for at in range(len(received))]
    heights = [0] * (max(places, default=-1) + 1)
    for at, request in zip(places, received, strict=True):
        heights[at] = max(heights[at], request.tokens)
    marks = {places[compaction.request] for compaction in compactions}
    text = Text("\n  tokens the model received, request by request; ▲ is a compaction\n\n", style="dim")
    for number, row in enumerate(draw_bars(heights, top=limit, rows=PLOT_ROWS)):
        scale = f"{limit:,}" if number == 0 else "0" if number == PLOT_ROWS - 1 else ""
        text.append(f"  {scale:>7}  ").append(f"{row}\n", style="cyan")
    marked = "".join("▲" if at in marks else " " for at in range(len(heights)))
    return text.append(f"  {'':>7}  ").append(marked, style="yellow")


def _print_heading(console: Console, title: str) -> None:
    console.print(Text(f"\n{title}", style="bold"))


def _print_paragraph(console: Console, text: str) -> None:
    width = min(console.width, WIDEST) - 2
    lines = (textwrap.fill(line, width=width, initial_indent="  ", subsequent_indent="  ") for line in text.split("\n"))
    console.print(Text("\n".join(lines)))


def _mark(*, held: bool) -> Text:
    return Text("  ✓" if held else "  ✗", style=_colour(held=held))


def _colour(*, held: bool) -> str:
    return "green" if held else "red"
