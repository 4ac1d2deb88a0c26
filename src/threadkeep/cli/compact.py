"""`threadkeep compact`: compact now, and say what became of everything."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from threadkeep.cli.attempts import tell_attempts
from threadkeep.cli.changes import changes_json, tell_changes
from threadkeep.cli.figures import count, share
from threadkeep.cli.opening import existing_store
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.state import tell_left_out
from threadkeep.client import CompactionReport
from threadkeep.compaction import AuditReport, Finding, ledger_of
from threadkeep.compaction.comparison import PlanPart, Range
from threadkeep.threads import EntryKind, History

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen

FINDINGS_SHOWN = 8
RANGES_SHOWN = 5


def run(args: Namespace) -> int:
    """Compact a thread, or with `--dry-run` only compute it, and report."""
    return asyncio.run(_compact(args))


async def _compact(args: Namespace) -> int:
    async with existing_store(args) as tk:
        thread = await tk.find(args.thread)
        report = await thread.compact(
            strategy=args.strategy, model=args.model, target=args.target, focus=args.focus, dry_run=args.dry_run
        )
        history = await thread.history()
    if args.json:
        print_json(_as_json(report, dry_run=args.dry_run))
    else:
        _tell(open_screen(), report, None if args.dry_run else history, target=args.target)
    return 0


def _as_json(report: CompactionReport, *, dry_run: bool) -> dict[str, object]:
    return {
        "thread": report.thread,
        "checkpoint": report.checkpoint,
        "strategy": report.strategy,
        "fell_back_from": report.fell_back_from,
        "tokens_before": report.tokens_before,
        "tokens_after": report.tokens_after,
        "model_calls": report.model_calls,
        "sheds": report.worth.sheds,
        "rebills": report.worth.rebills,
        "attempts": [msgspec.to_builtins(attempt) for attempt in report.attempts],
        "audit": report.audit.counts(),
        "over_target": report.over_target,
        "dry_run": dry_run,
        "findings": findings_json(report.audit),
        "plan": {**msgspec.to_builtins(report.plan), "changes": changes_json(report.changes)},
    }


def findings_json(audit: AuditReport) -> dict[str, object]:
    """Return everything an audit repaired or doubted."""
    return {
        "repaired": [msgspec.to_builtins(finding) for finding in audit.repaired],
        "invented": [msgspec.to_builtins(finding) for finding in audit.invented],
    }


def _tell(screen: Screen, report: CompactionReport, history: History | None, *, target: str | None) -> None:
    """Print the report; `history` is the window as it is now, None where nothing was written."""
    done = f"checkpoint #{report.checkpoint}" if history is not None else "nothing written: a dry run"
    fell = f", fallen back from {report.fell_back_from}" if report.fell_back_from else ""
    calls = f", {count(report.model_calls, 'model call')}" if report.model_calls else ", no model asked"
    screen.line((report.thread, "bold"), f"  {done}", (f"  {report.strategy}{fell}{calls}", "dim"))
    screen.gap()
    before, after = report.tokens_before, report.tokens_after
    screen.bar("before  ", before, of=before, caption=f"{before:>9,} tokens", style="yellow")
    screen.bar("after   ", after, of=before, caption=f"{after:>9,} tokens  -{share(before - after, before)}", style="green")
    worth = report.worth
    screen.line((f"every later request is {worth.sheds:,} tokens shorter; the next one re-bills {worth.rebills:,}", "dim"))
    screen.gap()
    if report.model_calls or report.fell_back_from:
        tell_attempts(screen, report.attempts)
        screen.gap()
    if history is not None:
        _tell_window(screen, history)
    else:
        _tell_plan(screen, report)
    tell_audit(screen, report.audit)
    if report.over_target:
        _tell_miss(screen, report, history, target=target)
    if history is not None:
        screen.line((f"`threadkeep diff {report.thread}` says what changed", "dim"))
        screen.line((f"`threadkeep undo {report.thread}` takes it back", "dim"))


def _tell_plan(screen: Screen, report: CompactionReport) -> None:
    """Print what would become of each part of the window, and what the state would say that it does not say today."""
    plan = report.plan
    rows = [
        _part_row(what, part, style)
        for what, part, style in (
            ("replaced by the state", plan.replaced, "yellow"),
            ("what users said, kept", plan.quoted, ""),
            ("outputs cut to a line", plan.stubbed, "yellow"),
            ("host context, kept", plan.context, ""),
            ("the request, kept", plan.request, ""),
            ("the newest, kept", plan.frontier, ""),
            ("session state", plan.state, "magenta"),
        )
        if part.items
    ]
    screen.line(("Plan", "bold"))
    screen.table(["", ">items", ">before", ">after", ">turns", "records"], rows, indent=2)
    screen.heading("Session state", "what it would say that it does not say today")
    tell_changes(screen, report.changes)
    screen.gap()


def _part_row(what: str, part: PlanPart, style: str) -> list[Part]:
    return [
        (what, style),
        f"{part.items:,}",
        f"{part.tokens_before:,}",
        f"{part.tokens_after:,}",
        _ranges(part.turns, sign=""),
        (_ranges(part.records, sign="#"), "dim"),
    ]


def _ranges(ranges: Sequence[Range], *, sign: str) -> str:
    shown = [f"{sign}{first}" if first == last else f"{sign}{first}–{sign}{last}" for first, last in ranges[:RANGES_SHOWN]]
    more = len(ranges) - RANGES_SHOWN
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def _tell_window(screen: Screen, history: History) -> None:
    parts: list[str] = []
    for kind, one, many in (
        (EntryKind.STATE, "session state", "session states"),
        (EntryKind.KEEP, "item as it was", "items as they were"),
        (EntryKind.START, "text of a hook", "texts of hooks"),
        (EntryKind.STUB, "item told in short", "items told in short"),
        (EntryKind.LITERAL, "item of another's compaction", "items of another's compaction"),
    ):
        entries = [entry for entry in history.entries if entry.kind is kind]
        if entries:
            parts.append(f"{count(len(entries), one, many)} ({sum(entry.tokens for entry in entries):,} tokens)")
    screen.line("window: " + ", ".join(parts))
    if told := tell_left_out(ledger_of(history)):
        screen.line("state: ", (told, "yellow"))


def tell_audit(screen: Screen, audit: AuditReport) -> None:
    """Print what had to be kept, whether the draft kept it, and what it claimed."""
    if not audit.required:
        screen.line("audit: nothing was required of it")
    elif audit.kept == audit.required:
        screen.line("audit: ", (f"all {count(audit.required, 'required thing')} kept", "green"))
    else:
        screen.line(f"audit: {audit.kept:,} of {count(audit.required, 'required thing')} kept; recall finds the rest")
    _tell_findings(screen, "repaired", audit.repaired)
    _tell_findings(screen, "claimed by the draft, shown by no source", audit.invented)


def _tell_findings(screen: Screen, what: str, findings: Sequence[Finding]) -> None:
    if not findings:
        return
    screen.line((f"{what}: {len(findings):,}", "yellow"))
    rows: list[tuple[Part, list[Part]]] = [
        ((finding.kind, "cyan"), [finding.text, (f"  {finding.pointer}" if finding.pointer else "", "dim")])
        for finding in findings[:FINDINGS_SHOWN]
    ]
    screen.entries(rows)
    if len(findings) > FINDINGS_SHOWN:
        screen.line((f"and {len(findings) - FINDINGS_SHOWN:,} more; --json lists them all", "dim"), indent=2)


def _tell_miss(screen: Screen, report: CompactionReport, history: History | None, *, target: str | None) -> None:
    """Say that the target was missed, and what stands in its way."""
    held = [entry for entry in history.entries if entry.kind is EntryKind.STATE] if history else []
    state = f" ({sum(entry.tokens for entry in held):,} tokens)" if held else ""
    screen.line(
        (f"the target of {target} was missed: {report.tokens_after:,} tokens remain. ", "yellow"),
        f"What people demanded never gives way: the session state{state}, the current request and the calls still open stay.",
    )
