"""What was tried for a compaction, and what it cost, as people read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from threadkeep.cli.figures import count
from threadkeep.errors import DraftAttempt
from threadkeep.threads import AttemptCost, sum_attempts

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen

# What a provider did not tell is not nothing.
UNTOLD = "–"
BILL_COLUMNS = (">calls", ">in", ">cached", ">out", ">cost", ">took")


def tell_attempts(screen: Screen, attempts: Sequence[DraftAttempt]) -> None:
    """Print every strategy that was tried, in order, with its outcome and what asking a model for it cost."""
    rows: list[list[Part]] = [
        [
            each.strategy,
            (_outcome(each), "green" if each.outcome == "taken" else "yellow"),
            each.model or "",
            *bill_cells(sum_attempts([each])),
        ]
        for each in attempts
    ]
    screen.table(["tried", "outcome", "model", *BILL_COLUMNS], rows, indent=2)


def bill_cells(bill: AttemptCost) -> list[Part]:
    """Return the cells under `BILL_COLUMNS`; empty where nobody was asked."""
    told = (bill.input_tokens, bill.cached_tokens, bill.output_tokens)
    asked = [f"{bill.calls:,}", *(UNTOLD if tokens is None else f"{tokens:,}" for tokens in told), _dollars(bill)]
    return [*(asked if bill.calls else [""] * len(asked)), (_took(bill), "dim")]


def attempt_told(attempt: DraftAttempt) -> str:
    """Return one strategy that was tried as a sentence."""
    who = f" with {attempt.model}" if attempt.model else ""
    return f"{attempt.strategy}{who}: {_outcome(attempt)}; {bill_told(sum_attempts([attempt]))}"


def _outcome(attempt: DraftAttempt) -> str:
    """Return what became of a strategy, and how many operations of its draft named no entry."""
    ignored = f", {count(attempt.ignored, 'unknown entry', 'unknown entries')} ignored" if attempt.ignored else ""
    return f"{attempt.outcome}{ignored}"


def bill_told(bill: AttemptCost) -> str:
    """Return what attempts cost together, as words."""
    if not bill.calls:
        return f"no model asked, {_took(bill)}"
    cost = "cost not told" if bill.cost_micro_usd is None else _dollars(bill)
    tokens = {"tokens in": bill.input_tokens, "of them from the cache": bill.cached_tokens, "out": bill.output_tokens}
    counted = [f"{number:,} {what}" for what, number in tokens.items() if number is not None] or ["tokens not told"]
    return ", ".join([count(bill.calls, "call"), cost, *counted, _took(bill)])


def _dollars(bill: AttemptCost) -> str:
    return UNTOLD if bill.cost_micro_usd is None else f"${bill.cost_micro_usd / 1_000_000:,.4f}"


def _took(bill: AttemptCost) -> str:
    return f"{bill.took_ms:,} ms" if bill.took_ms < 10_000 else f"{bill.took_ms / 1_000:,.1f} s"
