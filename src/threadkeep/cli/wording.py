"""Items and records in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import msgspec

from threadkeep.cli.attempts import bill_told
from threadkeep.cli.cleaning import one_line
from threadkeep.cli.figures import count
from threadkeep.dialects import Dialect
from threadkeep.items import Item, ItemKind, View
from threadkeep.store import Record, RecordKind
from threadkeep.threads import (
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
    from threadkeep.cli.screen import Part

LINE_CHARS = 400


def speaker(view: View) -> Part:
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


def named(record: Record, dialect: Dialect) -> Part:
    """Return what a record is: for an item who speaks, else its kind."""
    if record.kind is RecordKind.ITEM:
        return speaker(dialect.view(Item(record.body)))
    if is_failed_attempt(record):
        return ("not compacted", "yellow")
    style = {
        RecordKind.TURN: "dim",
        RecordKind.CHECKPOINT: "bold magenta",
        RecordKind.ROLLBACK: "yellow",
        RecordKind.UNDO: "yellow",
    }
    return (record.kind.value, style.get(record.kind, "dim"))


def described(record: Record, dialect: Dialect) -> str:
    """Return what a record says, as far as a line of a list needs it; a body that cannot be read, as it is."""
    try:
        return _described(record, dialect)
    except msgspec.MsgspecError:
        return raw_text(record.body)


def _described(record: Record, dialect: Dialect) -> str:
    match record.kind:
        case RecordKind.NOTE if (remark := read_remark(record)) is not None:
            return _remarked(remark.body)
        case RecordKind.ITEM | RecordKind.NOTE:
            return one_line(dialect.view(Item(record.body)).text or raw_text(record.body), limit=LINE_CHARS)
        case RecordKind.TURN:
            return f"turn {record.turn}: {decode_body(record.body, TurnBody).preview}"
        case RecordKind.CHECKPOINT:
            made = decode_body(record.body, Checkpoint)
            before, after = (made.figures.get(name, 0) for name in ("tokens_before", "tokens_after"))
            return f"{before:,} → {after:,} tokens, {made.strategy}; replaces what stood before #{made.cut}{_asked_for(made)}"
        case RecordKind.ROLLBACK:
            turns = decode_body(record.body, RollbackBody).turns
            if not turns:
                return f"rollback #{record.target} no longer counts"
            return f"{count(turns, 'turn')} taken back; the path goes on from before #{record.target}"
        case RecordKind.UNDO:
            return f"checkpoint #{record.target} no longer counts"
        case RecordKind.META:
            meta = decode_body(record.body, MetaBody)
            return f"a {meta.dialect} thread begins" + (f", forked from {meta.parent}" if meta.parent else "")
        case RecordKind.REPLY if (tried := read_failed_attempts(record)) is not None:
            down = ", then ".join(f"{each.strategy} ({each.outcome})" for each in tried.attempts)
            return f"{tried.outcome}: {bill_told(sum_attempts(tried.attempts))}; tried {down}"
        case RecordKind.REPLY:
            reply = decode_body(record.body, ReplyBody)
            return f"{reply.outcome}: {count(len(reply.items), 'item')}, {reply.output_tokens or 0:,} tokens out"
        case RecordKind.CONTEXT:
            fields = decode_body(record.body, ContextBody).fields
            return f"what goes out beside the history: {', '.join(fields)}" if fields else "what the host tells of its world"
        case RecordKind.MAIL:
            return _mail_text(record.body)
        case _:
            assert_never(record.kind)


def _asked_for(made: Checkpoint) -> str:
    """Return what a checkpoint was fallen back from, and what asking models for it cost."""
    fell = f"; fallen back from {made.fell_back_from}" if made.fell_back_from else ""
    bill = sum_attempts(made.attempts)
    return f"{fell}; {bill_told(bill)}" if bill.calls else fell


def _remarked(remark: RemarkBody) -> str:
    """Return what somebody remarked about the session state."""
    match remark:
        case SaidBody():
            who = "the agent" if remark.by_agent else "a person"
            return one_line(f"{who} noted{' and pinned' if remark.pinned else ''}: {remark.text}", limit=LINE_CHARS)
        case PinBody():
            return f"a person pinned entry {remark.entry} of the session state"
        case UnpinBody():
            return f"a person let go of entry {remark.entry} of the session state"
        case _:
            assert_never(remark)


def _mail_text(body: bytes) -> str:
    """Return what stands among a thread's mail: a letter, what was taken of them, a turn's end, or a sub-agent."""
    told: MailRecordBody = msgspec.json.decode(body, type=MailRecordBody)
    match told:
        case MailBody():
            return f"{told.way} mail from {told.sender or 'somebody'}: {count(len(told.items), 'item')}"
        case TakenBody():
            return f"mail below #{told.upto} is in the history"
        case TurnEndBody():
            return f"turn {told.turn} {told.outcome}" + (f": {told.reason}" if told.reason else "")
        case SpawnBody():
            return f"sub-agent {told.name or told.child}: {told.status}"
        case _:
            assert_never(told)


def raw_text(body: bytes) -> str:
    """Return the beginning of a body as text."""
    return body[: 4 * LINE_CHARS].decode("utf-8", "replace")
