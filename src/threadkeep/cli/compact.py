"""`threadkeep compact`: compact now, and report what became of everything."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.state_output import describe_omissions, encode_comparison, print_comparison
from threadkeep.cli.store import open_existing_store
from threadkeep.client import CompactionReport
from threadkeep.client.json_output import encode_compaction
from threadkeep.compaction import AuditReport, Fault, read_ledger
from threadkeep.errors import Attempt
from threadkeep.threads import AttemptCost, EntryKind, History, sum_attempts
from threadkeep.viewer.number_format import format_count, format_dollars, format_duration, format_number
from threadkeep.viewer.record_lines import describe_outcome

if TYPE_CHECKING:
    from threadkeep.cli.terminal import Entry, Part, Row, Screen

FINDINGS_SHOWN = 8
BILL_COLUMNS = (">calls", ">in", ">cached", ">out", ">cost", ">took")


async def run(args: Namespace) -> None:
    """Compact a thread, or with `--dry-run` only compute it, and report."""
    async with open_existing_store(args) as tk:
        thread = await tk.find(args.thread)
        report = await thread.compact(
            strategy=args.strategy, model=args.model, target=args.target, focus=args.focus, dry_run=args.dry_run
        )
        history = None if args.dry_run else await thread.history()
    if args.json:
        print_json(_encode_report(report, dry_run=args.dry_run))
    else:
        _print_report(open_screen(), report, history, target=args.target)


def _encode_report(report: CompactionReport, *, dry_run: bool) -> dict[str, object]:
    return {
        **encode_compaction(report),
        "sheds": report.worth.sheds,
        "rebills": report.worth.rebills,
        "attempts": [msgspec.to_builtins(attempt) for attempt in report.attempts],
        "dry_run": dry_run,
        "findings": encode_findings(report.audit),
        "plan": {**msgspec.to_builtins(report.plan), "changes": encode_comparison(report.changes)},
    }


def encode_findings(audit: AuditReport) -> dict[str, object]:
    """Return everything an audit repaired or doubted."""
    return {
        "repaired": [msgspec.to_builtins(finding) for finding in audit.repaired],
        "invented": [msgspec.to_builtins(finding) for finding in audit.invented],
    }


def _print_report(screen: Screen, report: CompactionReport, history: History | None, *, target: str | None) -> None:
    """Print the report; `history` is the window as it is now, None where nothing was written."""
    result = f"checkpoint #{report.checkpoint}" if history is not None else "nothing written: a dry run"
    fell_back = f", fell back from {report.fell_back_from}" if report.fell_back_from else ""
    calls = format_count(report.model_calls, "model call") if report.model_calls else "no model asked"
    screen.write((report.thread, "bold"), f"  {result}", (f"  {report.strategy}{fell_back}, {calls}", "dim"))
    screen.skip_line()
    screen.draw_shrinkage(report.tokens_before, report.tokens_after)
    worth = report.worth
    screen.write((f"every later request is {worth.sheds:,} tokens shorter; the next one re-bills {worth.rebills:,}", "dim"))
    screen.skip_line()
    if report.model_calls or report.fell_back_from:
        _print_attempts(screen, report.attempts)
        screen.skip_line()
    if history is not None:
        _print_window(screen, history)
    else:
        _print_plan(screen, report)
    print_audit(screen, report.audit)
    if report.over_target:
        _print_miss(screen, report, history, target=target)
    if history is not None:
        screen.write((f"`threadkeep diff {report.thread}` lists the changes", "dim"))
        screen.write((f"`threadkeep undo {report.thread}` takes it back", "dim"))


def _print_attempts(screen: Screen, attempts: Sequence[Attempt]) -> None:
    """Print every strategy that was tried, in order, with its outcome and the cost of its model calls."""
    rows: list[list[Part]] = [
        [
            each.strategy,
            (describe_outcome(each), "green" if each.outcome == "taken" else "yellow"),
            each.model or "",
            *format_bill(sum_attempts([each])),
        ]
        for each in attempts
    ]
    screen.write_table(["tried", "outcome", "model", *BILL_COLUMNS], rows, indent=2)


def format_bill(bill: AttemptCost) -> list[Part]:
    """Return the cells under `BILL_COLUMNS`; empty where no model was asked."""
    tokens = map(format_number, (bill.input_tokens, bill.cached_tokens, bill.output_tokens))
    cells = [f"{bill.calls:,}", *tokens, format_dollars(bill.cost_micro_usd)] if bill.calls else [""] * 5
    return [*cells, (format_duration(bill.took_ms), "dim")]


def _print_plan(screen: Screen, report: CompactionReport) -> None:
    """Print what would become of each part of the window, and how the state would change."""
    plan = report.plan
    parts = {
        ("replaced by the state", "yellow"): plan.replaced,
        ("what users said, kept", ""): plan.quoted,
        ("outputs cut to a line", "yellow"): plan.stubbed,
        ("host context, kept", ""): plan.context,
        ("the request, kept", ""): plan.request,
        ("the newest, kept", ""): plan.frontier,
        ("session state", "magenta"): plan.state,
    }
    screen.write(("Plan", "bold"))
    rows: list[Row] = [
        [name, f"{part.items:,}", f"{part.tokens_before:,}", f"{part.tokens_after:,}"]
        for name, part in parts.items()
        if part.items
    ]
    screen.write_table(["", ">items", ">before", ">after"], rows, indent=2)
    screen.write_heading("Session state", "how it would change")
    print_comparison(screen, report.changes)
    screen.skip_line()


def _print_window(screen: Screen, history: History) -> None:
    parts: list[str] = []
    for kind, one, many in (
        (EntryKind.STATE, "session state", "session states"),
        (EntryKind.KEEP, "item as it was", "items as they were"),
        (EntryKind.START, "text of a hook", "texts of hooks"),
        (EntryKind.STUB, "quoted or shortened item", "quoted or shortened items"),
        (EntryKind.LITERAL, "item of the client's own compaction", "items of the client's own compaction"),
    ):
        entries = [entry for entry in history.entries if entry.kind is kind]
        if entries:
            parts.append(f"{format_count(len(entries), one, many)} ({sum(entry.tokens for entry in entries):,} tokens)")
    screen.write("window: " + ", ".join(parts))
    if omissions := describe_omissions(read_ledger(history)):
        screen.write("state: ", (omissions, "yellow"))


def print_audit(screen: Screen, audit: AuditReport) -> None:
    """Print what had to be kept, whether the draft kept it, and which of its claims no source shows."""
    if not audit.required:
        screen.write("audit: nothing was required")
    elif audit.kept == audit.required:
        screen.write("audit: ", (f"all {format_count(audit.required, 'required thing')} kept", "green"))
    else:
        screen.write(f"audit: {audit.kept:,} of {format_count(audit.required, 'required thing')} kept; recall finds the rest")
    _print_findings(screen, "repaired", audit.repaired)
    _print_findings(screen, "claimed by the draft, but in no source", audit.invented)


def _print_findings(screen: Screen, title: str, findings: Sequence[Fault]) -> None:
    if not findings:
        return
    screen.write((f"{title}: {len(findings):,}", "yellow"))
    entries: list[Entry] = [
        ((finding.kind, "cyan"), [finding.text, (f"  {finding.pointer}" if finding.pointer else "", "dim")])
        for finding in findings[:FINDINGS_SHOWN]
    ]
    screen.write_entries(entries)
    if len(findings) > FINDINGS_SHOWN:
        screen.write((f"and {len(findings) - FINDINGS_SHOWN:,} more; --json lists them all", "dim"), indent=2)


def _print_miss(screen: Screen, report: CompactionReport, history: History | None, *, target: str | None) -> None:
    """Say that the target was missed, and why."""
    states = [entry for entry in history.entries if entry.kind is EntryKind.STATE] if history else []
    size = f" ({sum(entry.tokens for entry in states):,} tokens)" if states else ""
    screen.write(
        (f"the target of {target} was missed: {report.tokens_after:,} tokens remain. ", "yellow"),
        f"The session state{size}, the current request and open calls always stay.",
    )
