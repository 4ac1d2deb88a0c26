"""Items and records as one line: who speaks, what is said, and how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.items import Item, ItemKind, View
from threadkeep.store import Record, RecordKind
from threadkeep.threads import (
    Checkpoint,
    ContextBody,
    MetaBody,
    PinBody,
    RemarkBody,
    ReplyBody,
    RollbackBody,
    SaidBody,
    TurnBody,
    UnpinBody,
    decode_body,
    read_failed_attempts,
    read_remark,
    sum_attempts,
)
from threadkeep.threads.records import MailBody, SpawnBody, TakenBody, TurnEndBody, read_mail_record
from threadkeep.viewer.renderer import counted, dollars, took
from threadkeep.viewer.untrusted_text import one_line

LINE_CHARS = 280


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A record or item as one line. `tone` is one of the few looks the style sheet knows."""

    who: str
    text: str
    tone: str


class NoteBody(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody, or the gateway, noted beside the history."""

    event: str = ""
    text: str = ""
    reason: str = ""


def told_item(view: View, *, raw: bytes) -> Told:
    """Return an item as one line."""
    text = one_line(view.text or raw_text(raw), limit=LINE_CHARS)
    match view.kind:
        case ItemKind.CALL:
            return Told(who=f"call {view.tool or ''}".strip(), text=text, tone="call")
        case ItemKind.OUTPUT:
            return Told(who="output", text=text, tone="output")
        case ItemKind.REASONING | ItemKind.OPAQUE:
            return Told(who=view.kind.value, text=text, tone="aside")
        case ItemKind.MESSAGE:
            return Told(who="person" if view.by_person else view.role.value, text=text, tone=_tone(view))
        case _:
            assert_never(view.kind)


def _tone(view: View) -> str:
    if view.by_person:
        return "person"
    return "model" if view.role.value == "assistant" else "aside"


def told(record: Record, dialect: Dialect) -> Told:
    """Return a record as one line; a body that was erased says so, one that cannot be read is shown as it is."""
    if record.erased:
        return Told(who=record.kind.value, text="erased: the record stays, its bytes are gone for good", tone="aside")
    try:
        return _told(record, dialect)
    except msgspec.MsgspecError:
        return Told(who=record.kind.value, text=one_line(raw_text(record.body), limit=LINE_CHARS), tone="aside")


def _told(record: Record, dialect: Dialect) -> Told:
    match record.kind:
        case RecordKind.ITEM:
            return told_item(dialect.view(Item(record.body)), raw=record.body)
        case RecordKind.NOTE if record.chain is not None:
            return told_item(dialect.view(Item(record.body)), raw=record.body)
        case RecordKind.NOTE:
            remark = read_remark(record)
            return _told_remark(remark.body) if remark else _told_note(record.body)
        case RecordKind.TURN:
            return Told(who=f"turn {record.turn}", text=decode_body(record.body, TurnBody).preview, tone="turn")
        case RecordKind.CHECKPOINT:
            made = decode_body(record.body, Checkpoint)
            before, after = (made.figures.get(name, 0) for name in ("tokens_before", "tokens_after"))
            text = f"{before:,} → {after:,} tokens, {made.strategy}; replaces what stood before #{made.cut}"
            return Told(who="compaction", text=text, tone="checkpoint")
        case RecordKind.ROLLBACK:
            turns = decode_body(record.body, RollbackBody).turns
            text = f"{counted(turns, 'turn')} taken back; the path goes on from before #{record.target}"
            if not turns:
                text = f"rollback #{record.target} no longer counts"
            return Told(who="rollback", text=text, tone="change")
        case RecordKind.UNDO:
            return Told(who="undo", text=f"compaction #{record.target} no longer counts", tone="change")
        case RecordKind.META:
            return _told_meta(decode_body(record.body, MetaBody))
        case RecordKind.REPLY if (tried := read_failed_attempts(record)) is not None:
            return _told_in_vain(tried)
        case RecordKind.REPLY:
            reply = decode_body(record.body, ReplyBody)
            cached = f", {reply.cached_tokens:,} of them from the cache" if reply.cached_tokens else ""
            text = f"{reply.outcome}: {reply.input_tokens or 0:,} tokens in{cached}, {reply.output_tokens or 0:,} out"
            return Told(who="reply", text=text, tone="aside")
        case RecordKind.CONTEXT:
            fields = ", ".join(decode_body(record.body, ContextBody).fields)
            return Told(who="context", text=f"what goes out beside the history: {fields}", tone="aside")
        case RecordKind.MAIL:
            return Told(who="mail", text=one_line(told_in_mail(record, dialect), limit=LINE_CHARS), tone="change")
        case _:
            assert_never(record.kind)


def _told_in_vain(tried: ReplyBody) -> Told:
    """Return a compaction that came to nothing: why, what it cost, and what was tried."""
    bill = sum_attempts(tried.attempts)
    told = ((bill.input_tokens, "tokens in"), (bill.cached_tokens, "of them from the cache"), (bill.output_tokens, "out"))
    tokens = [f"{tokens:,} {what}" for tokens, what in told if tokens is not None] or ["tokens not told"]
    cost = "cost not told" if bill.cost_micro_usd is None else dollars(bill.cost_micro_usd)
    figures = ", ".join((counted(bill.calls, "call"), cost, *tokens, took(bill.took_ms)))
    down = ", then ".join(f"{each.strategy} ({each.outcome})" for each in tried.attempts)
    return Told(who="not compacted", text=one_line(f"{tried.outcome}: {figures}; tried {down}", limit=LINE_CHARS), tone="change")


def said_in(record: Record) -> str:
    """Return what a person's note says, whole; empty for any other record."""
    remark = read_remark(record)
    return remark.body.text if remark and isinstance(remark.body, SaidBody) else ""


def _told_remark(remark: RemarkBody) -> Told:
    match remark:
        case SaidBody():
            text = one_line(remark.text, limit=LINE_CHARS)
            who = "agent's note" if remark.by_agent else "note, pinned" if remark.pinned else "note"
            return Told(who=who, text=text, tone="note")
        case PinBody():
            return Told(who="pin", text=f"a person pinned entry {remark.entry} of the session state", tone="note")
        case UnpinBody():
            return Told(who="unpin", text=f"a person let go of entry {remark.entry} of the session state", tone="note")
        case _:
            assert_never(remark)


def _told_note(body: bytes) -> Told:
    note = decode_body(body, NoteBody)
    if note.event == "note":
        return Told(who="note", text=one_line(note.text, limit=LINE_CHARS), tone="note")
    said = f"{note.event.replace('_', ' ')}: {note.reason}" if note.event else raw_text(body)
    return Told(who="note", text=one_line(said, limit=LINE_CHARS), tone="aside")


def _told_meta(meta: MetaBody) -> Told:
    parts = [f"a {meta.dialect} thread"]
    if meta.parent:
        parts.append(f"forked from {meta.parent}")
    if meta.continues:
        parts.append(f"goes on where {meta.continues} was rewritten by its client")
    if meta.title:
        parts.append(f"called {meta.title}")
    if meta.archived:
        parts.append("put away")
    return Told(who="meta", text=one_line(", ".join(parts), limit=LINE_CHARS), tone="aside")


def raw_text(body: bytes) -> str:
    """Return the beginning of a body as text."""
    return body[: 4 * LINE_CHARS].decode("utf-8", "replace")


def told_in_mail(record: Record, dialect: Dialect) -> str:
    """Return what a `mail` record says, in a line."""
    body = read_mail_record(record)
    match body:
        case None:
            return "cannot be read"
        case MailBody():
            return f"from {body.sender or 'nobody named'} ({body.way}): {mail_text(body, dialect)}"
        case TakenBody():
            return f"every mail before #{body.upto} is in the history"
        case TurnEndBody():
            return f"turn {body.turn} {body.outcome}{f': {body.reason}' if body.reason else ''}"
        case SpawnBody():
            return f"sub-agent {body.name or body.child} is {body.status}"
        case _:
            assert_never(body)


def mail_text(body: MailBody, dialect: Dialect) -> str:
    """Return the words of a piece of mail."""
    return " ".join(dialect.view(Item(bytes(item))).text for item in body.items)
