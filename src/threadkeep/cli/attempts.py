"""The attempts at a compaction and their cost, in tables and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from threadkeep.errors import Attempt
from threadkeep.threads import AttemptCost, sum_attempts
from threadkeep.viewer.formats import format_count, format_dollars, format_duration, format_number
from threadkeep.viewer.record_lines import describe_bill

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen

BILL_COLUMNS = (">calls", ">in", ">cached", ">out", ">cost", ">took")


def print_attempts(screen: Screen, attempts: Sequence[Attempt]) -> None:
    """Print every strategy that was tried, in order, with its outcome and the cost of its model calls."""
    rows: list[list[Part]] = [
        [
            each.strategy,
            (_describe_outcome(each), "green" if each.outcome == "taken" else "yellow"),
            each.model or "",
            *format_bill(sum_attempts([each])),
        ]
        for each in attempts
    ]
    screen.write_table(["tried", "outcome", "model", *BILL_COLUMNS], rows, indent=2)


def describe_attempt(attempt: Attempt) -> str:
    """Return one strategy that was tried as a sentence."""
    model = f" with {attempt.model}" if attempt.model else ""
    return f"{attempt.strategy}{model}: {_describe_outcome(attempt)}; {describe_bill(sum_attempts([attempt]))}"


def _describe_outcome(attempt: Attempt) -> str:
    """Return how an attempt ended, and how many operations of its draft named no entry."""
    ignored = f", {format_count(attempt.ignored, 'unknown entry', 'unknown entries')} ignored" if attempt.ignored else ""
    return f"{attempt.outcome}{ignored}"


def format_bill(bill: AttemptCost) -> list[Part]:
    """Return the cells under `BILL_COLUMNS`; empty where no model was asked."""
    tokens = map(format_number, (bill.input_tokens, bill.cached_tokens, bill.output_tokens))
    cells = [f"{bill.calls:,}", *tokens, format_dollars(bill.cost_micro_usd)] if bill.calls else [""] * 5
    return [*cells, (format_duration(bill.took_ms), "dim")]
