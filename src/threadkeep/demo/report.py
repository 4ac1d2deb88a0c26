"""What a played session comes to, and how it is told."""

from __future__ import annotations

import shlex
import textwrap
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from threadkeep.demo.proof import BEFORE_COMPACTION, Check, Played
from threadkeep.demo.retention import Judged, Older, judge, newest_only, outputs_cleared, user_messages_only
from threadkeep.demo.screen import Moment, context_plot
from threadkeep.demo.session import DemandKind, Session, approximate_tokens

SHOWN_DEMANDS = 12
WIDEST = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """How many demands would stand in the last request had the last compaction cut the whole history to the same size in
    another way; computed, not played.
    """

    name: str
    kept: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything the report tells. `checks` are the claims it makes; the demo succeeds if all of them held."""

    played: Played
    judged: tuple[Judged, ...]
    baselines: tuple[Baseline, ...]
    baseline_tokens: int
    checks: tuple[Check, ...]

    @property
    def hold(self) -> bool:
        return all(check.held for check in self.checks)


def examine(played: Played, proof: list[Check]) -> Findings:
    """Judge a played session: its demands by the last request alone, other ways of shortening it by the same rule."""
    judged = judge(played.session.demands, played.provider.received[-1].items)
    last = played.compactions[-1]
    history, since = played.client.spoken(stop=last.items), played.client.spoken(last.items, played.client.sent[-1].items)
    room = played.provider.received[last.request].tokens
    ways = {
        "keep the newest": newest_only,
        "clear old tool output, then keep the newest": outputs_cleared,
        "keep the user's messages alone, the newest first": user_messages_only,
    }
    baselines = tuple(
        Baseline(name=name, kept=_kept(played, [*way(history, budget_tokens=room), *since])) for name, way in ways.items()
    )
    checks = (*_demand_checks(judged), *_wire_checks(played), *proof)
    return Findings(played=played, judged=tuple(judged), baselines=baselines, baseline_tokens=room, checks=checks)


def print_opening(console: Console, session: Session, *, window_tokens: int) -> None:
    """Say what is about to be played."""
    text = (
        f"A coding session of {len(session.turns)} turns and about {approximate_tokens(session):,} tokens is played for a model "
        f"whose context window holds {window_tokens:,}. Early on the user makes {len(session.demands)} demands; some are corrected "
        f"later. The agent resends its whole history with every request. threadkeep stands between it and the model: when the "
        f"window fills up it compacts, which means that a short record of what still holds takes the place of the old part. "
        f"A script plays the user and the model; everything between them is real, and all of it runs on this machine."
    )
    console.print(Text("\nthreadkeep demo", style="bold"))
    _paragraph(console, text)
    console.print()


def print_stop(console: Console, error: Exception, *, store: str) -> None:
    """Say that the session could not be played to its end."""
    said = str(error) or type(error).__name__
    console.print(Text(f"The demo did not reach its end: {said}", style="bold red"), soft_wrap=True)
    console.print(Text(f"What was recorded is in {store}"), soft_wrap=True)


def print_report(console: Console, findings: Findings) -> None:
    """Tell everything, in the order a newcomer asks: did it remember, what did it cost, can it be trusted, what now."""
    _print_demands(console, findings)
    _print_comparison(console, findings)
    _print_cost(console, findings.played)
    _print_checks(console, findings)
    _print_next(console, findings)


def _kept(played: Played, items: list[bytes]) -> int:
    return sum(judged.holds for judged in judge(played.session.demands, items))


def _demand_checks(judged: list[Judged]) -> list[Check]:
    missing = [entry.demand.needle for entry in judged if entry.where is None]
    changed = [entry for entry in judged if entry.older is not None]
    alone = [str(entry.demand.stale) for entry in changed if entry.older is Older.ALONE]
    kept = f"{len(judged) - len(missing)} of {len(judged)} stand in the last request the model received"
    told = ", ".join(f"{count} {older.value}" for older in Older if (count := sum(entry.older is older for entry in changed)))
    return [
        Check(
            claim="every demand is kept",
            held=not missing,
            detail=f"{kept}; missing: {', '.join(missing)}" if missing else kept,
        ),
        Check(
            claim="no outdated value stands alone",
            held=not alone,
            detail=f"outdated and alone: {', '.join(alone)}" if alone else f"{len(changed)} values were replaced: {told}",
        ),
    ]


def _wire_checks(played: Played) -> list[Check]:
    received, count = played.provider.received, len(played.compactions)
    moves = [place for place, request in enumerate(received) if not request.grew]
    held = count > 0 and moves == [compaction.request for compaction in played.compactions]
    between = "between them it only grew, byte for byte" if held else f"it moved at requests {moves}"
    checks = [
        Check(
            claim="the prompt moves only when it is compacted",
            held=held,
            detail=f"{count} compactions, {len(moves)} moves in {len(received)} requests; {between}",
        ),
    ]
    return checks if played.command_answer is None else [*checks, _command_check(played, played.command_answer)]


def _command_check(played: Played, answer: str) -> Check:
    commanded = [compaction.turn for compaction in played.compactions if compaction.by_command]
    aside = {played.client.history[place] for place in played.client.aside}
    leaked = any(item in aside for request in played.provider.received for item in request.items)
    when = f"typed after turn {commanded[0]}" if commanded else "typed in vain"
    return Check(
        claim="/compact is obeyed and kept from the model",
        held=len(commanded) == 1 and not leaked,
        detail=f"{when}; the gateway's answer: {answer.partition(chr(10))[0]}",
    )


def _print_demands(console: Console, findings: Findings) -> None:
    judged, played = findings.judged, findings.played
    kept = sum(entry.holds for entry in judged)
    last = played.provider.received[-1]
    _heading(console, "What the user demanded, and what the model still sees at the end")
    _paragraph(
        console,
        f"Only the last request counts: {last.tokens:,} tokens, after {len(played.compactions)} compactions. A demand is kept if "
        f"its exact value stands there as something that holds, not as history.",
    )
    table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    for name in ("", "turn", "kind", "what the user said", "now in"):
        table.add_column(name, justify="right" if name == "turn" else "left", no_wrap=True, overflow="ellipsis")
    room = min(console.width, WIDEST) - 44
    for entry in _sample(judged):
        table.add_row(
            _tick(held=entry.holds),
            str(entry.demand.turn + 1),
            entry.demand.kind.value.replace("_", " "),
            _said(entry, room=room),
            Text(_place(entry), style="" if entry.holds else "bold red"),
        )
    console.print(Padding(table, (1, 0, 0, 2), expand=False))
    console.print(Text(f"\n  kept: {kept} of {len(judged)}", style="bold green" if kept == len(judged) else "bold red"), end="")
    console.print(Text(f"  ({min(SHOWN_DEMANDS, len(judged))} of them shown)", style="dim"))


def _sample(judged: tuple[Judged, ...]) -> list[Judged]:
    """Return a dozen demands: those that were lost first, then some of each kind; in the order they were made."""
    lost = [entry for entry in judged if not entry.holds]
    kinds = [[entry for entry in judged if entry.holds and entry.demand.kind is kind] for kind in DemandKind]
    rounds = [kind[place] for place in range(len(judged)) for kind in kinds if place < len(kind)]
    chosen = (lost + rounds)[:SHOWN_DEMANDS]
    return [entry for entry in judged if entry in chosen]


def _said(entry: Judged, *, room: int) -> Text:
    """Return what was said, shortened to `room` so that the value it is about can be seen."""
    said, needle = " ".join(entry.demand.said.split()), entry.demand.needle
    end = said.find(needle) + len(needle)
    cut = max(0, min(end + 1 - room, said.find(needle) - 2))
    shown = f"…{said[cut + 1 :]}" if cut else said
    text = Text(shown if len(shown) <= room else f"{shown[: room - 1]}…")
    text.highlight_words([needle], "bold cyan")
    return text


def _place(entry: Judged) -> str:
    if entry.where is None:
        return "nowhere"
    return "beside outdated" if entry.older is Older.ALONE else entry.where


def _print_comparison(console: Console, findings: Findings) -> None:
    total = len(findings.judged)
    table = Table(box=None, padding=(0, 2), show_header=False, pad_edge=False)
    rows = [
        ("threadkeep", sum(entry.holds for entry in findings.judged), "played"),
        *((baseline.name, baseline.kept, "computed, not played") for baseline in findings.baselines),
    ]
    for name, kept, how in rows:
        style = "green" if kept == total else "red"
        table.add_row(name, Text(f"{kept:>3} of {total}", style=f"bold {style}"), Text(how, style="dim"))
    console.print()
    _paragraph(
        console,
        f"The last compaction left {findings.baseline_tokens:,} tokens. Had it cut the same history to the same size another way:",
    )
    console.print(Padding(table, (0, 0, 0, 4), expand=False))


def _print_cost(console: Console, played: Played) -> None:
    _heading(console, "What it cost")
    sent, received = played.client.sent, played.provider.received
    before, after = sum(request.tokens for request in sent), sum(request.tokens for request in received)
    fresh = sum(request.tokens - request.unchanged_tokens for request in received)
    refused = [request for request in sent if request.tokens > played.window_tokens]
    over = sum(request.tokens > played.window_tokens for request in received)
    table = Table(box=None, padding=(0, 2), pad_edge=False, header_style="dim")
    for name in ("", "the client sent", "the model received"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("requests", f"{len(sent):,}", f"{len(received):,}")
    table.add_row("tokens in all", f"{before:,}", Text(f"{after:,}", style="bold"))
    table.add_row("of these new to a prompt cache", f"{sent[-1].tokens:,}", f"{fresh:,}")
    table.add_row("largest request", f"{max(r.tokens for r in sent):,}", f"{max(r.tokens for r in received):,}")
    table.add_row(f"over the model's {played.window_tokens:,}", f"{len(refused):,} requests", f"{over} requests")
    console.print(Padding(table, (1, 0, 1, 2), expand=False))
    first = f" Without threadkeep the model refuses from turn {refused[0].turn + 1} on." if refused else ""
    _paragraph(
        console,
        f"The model received {after * 100 / before:.1f} % of the tokens the client sent.{first} A compaction rewrites the prompt "
        f"from its start, which a prompt cache then has to read anew.",
    )
    _print_compactions(console, played)


def _print_compactions(console: Console, played: Played) -> None:
    waits = [compaction.wait_ms for compaction in played.compactions]
    moved = {compaction.request for compaction in played.compactions}
    pairs = enumerate(zip(played.client.sent, played.provider.received, strict=True))
    others = [(received.at - sent.at) * 1_000 for place, (sent, received) in pairs if place not in moved]
    calls = sum(compaction.model_calls for compaction in played.compactions)
    if waits:
        _paragraph(
            console,
            f"{len(waits)} compactions, {calls} model calls. One held its request up for {median(waits):.0f} ms (median; "
            f"{max(waits):.0f} ms at most); a request without one took {median(others):.0f} ms to reach the model. "
            f"The whole session took {played.seconds:.0f} s.",
        )
    moment = Moment(
        turn=len(played.session.turns),
        turns=len(played.session.turns),
        sizes=[received.tokens for received in played.provider.received],
        compactions=played.compactions,
        window_tokens=played.window_tokens,
        sent_tokens=0,
        sent_in_all=0,
        received_in_all=0,
    )
    console.print(Text("\n  tokens the model received, request by request; ▲ is a compaction\n", style="dim"))
    console.print(context_plot(moment, columns=console.width))


def _print_checks(console: Console, findings: Findings) -> None:
    _heading(console, "What was checked")
    table = Table(box=None, padding=(0, 1), show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(ratio=2)
    table.add_column(ratio=3)
    for check in findings.checks:
        style = "" if check.held else "bold red"
        table.add_row(_tick(held=check.held), Text(check.claim, style=style), Text(check.detail, style=style or "dim"))
    console.print(Padding(table, (1, 0, 0, 2), expand=False), width=min(console.width, WIDEST))
    failed = sum(not check.held for check in findings.checks)
    if failed:
        console.print(Text(f"\n  {failed} of {len(findings.checks)} did not hold.", style="bold red"))
    else:
        console.print(Text(f"\n  All {len(findings.checks)} held.", style="bold green"))


def _print_next(console: Console, findings: Findings) -> None:
    played = findings.played
    demand = played.session.demands[0]
    _heading(console, "Look for yourself")
    console.print(Text(f"\n  export THREADKEEP_STORE={shlex.quote(played.store)}", style="cyan"), soft_wrap=True)
    for command in (
        f"threadkeep show {played.thread} --state",
        f"threadkeep recall {played.thread} {shlex.quote(demand.needle)}",
        f"threadkeep show {BEFORE_COMPACTION} --window",
    ):
        console.print(Text(f"  {command}", style="cyan"), soft_wrap=True)
    console.print()


def _heading(console: Console, title: str) -> None:
    console.print(Text(f"\n{title}", style="bold"))


def _paragraph(console: Console, text: str) -> None:
    wrapped = textwrap.fill(text, width=min(console.width, WIDEST) - 2, initial_indent="  ", subsequent_indent="  ")
    console.print(Text(wrapped))


def _tick(*, held: bool) -> Text:
    return Text("✓", style="green") if held else Text("✗", style="bold red")
