"""The attempts at a compaction and their cost, in tables and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from threadkeep.errors import Attempt
from threadkeep.threads import AttemptCost, sum_attempts
from threadkeep.viewer.formats import format_count

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen

# A figure that the provider did not report is unknown, not zero.
UNKNOWN = "–"
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
    tokens = [UNKNOWN if count is None else f"{count:,}" for count in (bill.input_tokens, bill.cached_tokens, bill.output_tokens)]
    cells = [f"{bill.calls:,}", *tokens, _format_cost(bill)] if bill.calls else [""] * 5
    return [*cells, (_format_duration(bill), "dim")]


def describe_bill(bill: AttemptCost) -> str:
    """Return the cost of some attempts in words."""
    if not bill.calls:
        return f"no model asked, {_format_duration(bill)}"
    cost = "cost unknown" if bill.cost_micro_usd is None else _format_cost(bill)
    tokens = {"tokens in": bill.input_tokens, "of them from the cache": bill.cached_tokens, "out": bill.output_tokens}
    counted = [f"{number:,} {what}" for what, number in tokens.items() if number is not None] or ["tokens unknown"]
    return ", ".join([format_count(bill.calls, "call"), cost, *counted, _format_duration(bill)])


def _format_cost(bill: AttemptCost) -> str:
    return UNKNOWN if bill.cost_micro_usd is None else f"${bill.cost_micro_usd / 1_000_000:,.4f}"


def _format_duration(bill: AttemptCost) -> str:
    return f"{bill.took_ms:,} ms" if bill.took_ms < 10_000 else f"{bill.took_ms / 1_000:,.1f} s"
