"""Items, records and attempts in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

import msgspec

from threadkeep.cli.text import clean_line, format_count
from threadkeep.dialects import Dialect
from threadkeep.errors import DraftAttempt
from threadkeep.items import Item, ItemKind, View
from threadkeep.store import Record, RecordKind
from threadkeep.threads import (
    AttemptCost,
    Checkpoint,
    ContextBody,
    MetaBody,
    ReplyBody,
    RollbackBody,
    TurnBody,
    decode_body,
    is_failed_attempt,
    read_failed_attempts,
    read_remark,
    sum_attempts,
)
from threadkeep.threads.records import (
    MailBody,
    MailRecordBody,
    PinBody,
    RemarkBody,
    SaidBody,
    SpawnBody,
    TakenBody,
    TurnEndBody,
    UnpinBody,
)

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen

LINE_CHARS = 400
# A figure that the provider did not report is unknown, not zero.
UNKNOWN = "–"
BILL_COLUMNS = (">calls", ">in", ">cached", ">out", ">cost", ">took")
_STYLES = {RecordKind.CHECKPOINT: "bold magenta", RecordKind.ROLLBACK: "yellow", RecordKind.UNDO: "yellow"}


def name_author(view: View) -> Part:
    """Return who an item is from: a role, or the tool that is called."""
    match view.kind:
        case ItemKind.CALL:
            return (f"call {view.tool or ''}", "cyan")
        case ItemKind.OUTPUT:
            return ("output", "dim")
        case ItemKind.REASONING | ItemKind.OPAQUE:
            return (view.kind.value, "dim")
        case ItemKind.MESSAGE:
            return (view.role.value, "bold green" if view.by_person else "")


def describe_item(view: View, raw: bytes) -> str:
    """Return the text of an item, or its bytes where it has none, as far as one line needs it."""
    return clean_line(view.text or _decode_start(raw), limit=LINE_CHARS)


def name_record(record: Record, dialect: Dialect) -> Part:
    """Return what a record is: its author for an item, else its kind."""
    if record.kind is RecordKind.ITEM:
        return name_author(dialect.view(Item(record.body)))
    if is_failed_attempt(record):
        return ("not compacted", "yellow")
    return (record.kind.value, _STYLES.get(record.kind, "dim"))


def describe_record(record: Record, dialect: Dialect) -> str:
    """Return what a record says, as far as one line needs it; the bytes of a body that cannot be decoded."""
    try:
        return _describe_body(record, dialect)
    except msgspec.MsgspecError:
        return _decode_start(record.body)


def _describe_body(record: Record, dialect: Dialect) -> str:
    match record.kind:
        case RecordKind.NOTE if (remark := read_remark(record)) is not None:
            return _describe_remark(remark.body)
        case RecordKind.ITEM | RecordKind.NOTE:
            return describe_item(dialect.view(Item(record.body)), record.body)
        case RecordKind.TURN:
            return f"turn {record.turn}: {decode_body(record.body, TurnBody).preview}"
        case RecordKind.CHECKPOINT:
            return _describe_checkpoint(decode_body(record.body, Checkpoint))
        case RecordKind.ROLLBACK:
            turns = decode_body(record.body, RollbackBody).turns
            if not turns:
                return f"rollback #{record.target} was undone"
            return f"{format_count(turns, 'turn')} taken back; the path goes on from before #{record.target}"
        case RecordKind.UNDO:
            return f"checkpoint #{record.target} was undone"
        case RecordKind.META:
            meta = decode_body(record.body, MetaBody)
            return f"a {meta.dialect} thread begins" + (f", forked from {meta.parent}" if meta.parent else "")
        case RecordKind.REPLY if (failed := read_failed_attempts(record)) is not None:
            tried = ", then ".join(f"{each.strategy} ({each.outcome})" for each in failed.attempts)
            return f"{failed.outcome}: {describe_bill(sum_attempts(failed.attempts))}; tried {tried}"
        case RecordKind.REPLY:
            reply = decode_body(record.body, ReplyBody)
            return f"{reply.outcome}: {format_count(len(reply.items), 'item')}, {reply.output_tokens or 0:,} tokens out"
        case RecordKind.CONTEXT:
            fields = ", ".join(decode_body(record.body, ContextBody).fields)
            return f"sent beside the history: {fields}" if fields else "context from the host"
        case RecordKind.MAIL:
            return _describe_mail(record.body)
        case _:
            assert_never(record.kind)


def _describe_checkpoint(checkpoint: Checkpoint) -> str:
    before, after = (checkpoint.figures.get(name, 0) for name in ("tokens_before", "tokens_after"))
    fell_back = f"; fell back from {checkpoint.fell_back_from}" if checkpoint.fell_back_from else ""
    bill = sum_attempts(checkpoint.attempts)
    cost = f"; {describe_bill(bill)}" if bill.calls else ""
    return f"{before:,} → {after:,} tokens, {checkpoint.strategy}; replaces everything before #{checkpoint.cut}{fell_back}{cost}"


def _describe_remark(remark: RemarkBody) -> str:
    match remark:
        case SaidBody():
            author = "the agent" if remark.by_agent else "a person"
            return clean_line(f"{author} noted{' and pinned' if remark.pinned else ''}: {remark.text}", limit=LINE_CHARS)
        case PinBody():
            return f"a person pinned entry {remark.entry} of the session state"
        case UnpinBody():
            return f"a person unpinned entry {remark.entry} of the session state"
        case _:
            assert_never(remark)


def _describe_mail(body: bytes) -> str:
    mail: MailRecordBody = msgspec.json.decode(body, type=MailRecordBody)
    match mail:
        case MailBody():
            return f"{mail.way} mail from {mail.sender or 'unknown'}: {format_count(len(mail.items), 'item')}"
        case TakenBody():
            return f"mail before #{mail.upto} is in the history"
        case TurnEndBody():
            return f"turn {mail.turn} {mail.outcome}" + (f": {mail.reason}" if mail.reason else "")
        case SpawnBody():
            return f"sub-agent {mail.name or mail.child}: {mail.status}"
        case _:
            assert_never(mail)


def _decode_start(body: bytes) -> str:
    return body[: 4 * LINE_CHARS].decode("utf-8", "replace")


def print_attempts(screen: Screen, attempts: Sequence[DraftAttempt]) -> None:
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


def describe_attempt(attempt: DraftAttempt) -> str:
    """Return one strategy that was tried as a sentence."""
    model = f" with {attempt.model}" if attempt.model else ""
    return f"{attempt.strategy}{model}: {_describe_outcome(attempt)}; {describe_bill(sum_attempts([attempt]))}"


def _describe_outcome(attempt: DraftAttempt) -> str:
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
