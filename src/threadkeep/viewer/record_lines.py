"""Records and items as one line: who speaks, what it says, and how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.errors import Attempt
from threadkeep.items import Item, ItemKind, View
from threadkeep.store import Record, RecordKind
from threadkeep.threads import (
    BY_CLIENT,
    AttemptCost,
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
from threadkeep.threads.path import is_rewrite_mark
from threadkeep.threads.records import MailBody, SpawnBody, TakenBody, TurnEndBody, read_mail_record
from threadkeep.viewer.number_format import format_count, format_dollars, format_duration

LINE_CHARS = 280


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A record or item as one line; `tone` is one of the looks of the style sheet."""

    who: str
    text: str
    tone: str

    @classmethod
    def make(cls, who: str, text: str, tone: str) -> Line:
        return cls(who=who, text=shorten(text, limit=LINE_CHARS), tone=tone)


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note that a person or the gateway wrote."""

    event: str = ""
    text: str = ""
    reason: str = ""


def describe_item(view: View, *, raw: bytes) -> Line:
    """Return an item as one line."""
    text = view.text or decode_start(raw)
    match view.kind:
        case ItemKind.CALL:
            return Line.make(f"call {view.tool or ''}".strip(), text, "call")
        case ItemKind.OUTPUT:
            return Line.make("output", text, "output")
        case ItemKind.REASONING | ItemKind.OPAQUE:
            return Line.make(view.kind.value, text, "aside")
        case ItemKind.MESSAGE if view.by_person:
            return Line.make("person", text, "person")
        case ItemKind.MESSAGE:
            return Line.make(view.role.value, text, "model" if view.role.value == "assistant" else "aside")
        case _:
            assert_never(view.kind)


def describe_record(record: Record, dialect: Dialect) -> Line:
    """Return a record as one line; an erased body is named so, an unreadable one is shown as it is."""
    if record.erased:
        return Line.make(record.kind.value, "erased: the record stays, its bytes are gone for good", "aside")
    try:
        return _describe_body(record, dialect)
    except msgspec.MsgspecError:
        return Line.make(record.kind.value, decode_start(record.body), "aside")


def _describe_body(record: Record, dialect: Dialect) -> Line:
    match record.kind:
        case RecordKind.ITEM:
            return describe_item(dialect.view(Item(record.body)), raw=record.body)
        case RecordKind.NOTE if record.chain is not None:
            return describe_item(dialect.view(Item(record.body)), raw=record.body)
        case RecordKind.NOTE:
            remark = read_remark(record)
            return _describe_remark(remark.body) if remark else _describe_note(record.body)
        case RecordKind.TURN:
            return Line.make(f"turn {record.turn}", decode_body(record.body, TurnBody).preview, "turn")
        case RecordKind.CHECKPOINT:
            made = decode_body(record.body, Checkpoint)
            before, after = (made.figures.get(name, 0) for name in ("tokens_before", "tokens_after"))
            text = f"{before:,} → {after:,} tokens, {made.strategy}; replaces everything before #{made.cut}"
            return Line.make("compaction", text, "checkpoint")
        case RecordKind.ROLLBACK:
            turns = decode_body(record.body, RollbackBody).turns
            text = f"{format_count(turns, 'turn')} taken back; the path continues before #{record.target}"
            return Line.make("rollback", text if turns else f"rollback #{record.target} was undone", "change")
        case RecordKind.UNDO:
            return Line.make("undo", f"compaction #{record.target} was undone", "change")
        case RecordKind.META:
            if is_rewrite_mark(record):
                return Line.make("rewritten", "the client replaced its history by the one that follows", "change")
            return _describe_meta(decode_body(record.body, MetaBody))
        case RecordKind.REPLY:
            return _describe_reply(record)
        case RecordKind.CONTEXT:
            fields = ", ".join(decode_body(record.body, ContextBody).fields)
            return Line.make("context", f"sent beside the history: {fields}", "aside")
        case RecordKind.MAIL:
            return Line.make("mail", _describe_mail(record, dialect), "change")
        case _:
            assert_never(record.kind)


def _describe_reply(record: Record) -> Line:
    tried = read_failed_attempts(record)
    if tried is not None:
        return _describe_failed_attempt(tried)
    reply = decode_body(record.body, ReplyBody)
    cached = f", {reply.cached_tokens:,} of them from the cache" if reply.cached_tokens else ""
    text = f"{reply.outcome}: {reply.input_tokens or 0:,} tokens in{cached}, {reply.output_tokens or 0:,} out"
    return Line.make("reply", text, "aside")


def _describe_failed_attempt(tried: ReplyBody) -> Line:
    """Return a compaction without a checkpoint: why there is none, what it cost, and what was tried."""
    if tried.outcome == BY_CLIENT:
        return Line.make("client compacted", describe_bill(sum_attempts(tried.attempts)), "change")
    ladder = ", then ".join(f"{each.strategy} ({each.outcome})" for each in tried.attempts)
    bill = describe_bill(sum_attempts(tried.attempts))
    return Line.make("not compacted", f"{tried.outcome}: {bill}; tried {ladder or 'nothing'}", "change")


def describe_bill(bill: AttemptCost) -> str:
    """Return the cost of some attempts in words."""
    if not bill.calls:
        return f"no model asked, {format_duration(bill.took_ms)}"
    figures = {"tokens in": bill.input_tokens, "of them from the cache": bill.cached_tokens, "out": bill.output_tokens}
    tokens = [f"{number:,} {noun}" for noun, number in figures.items() if number is not None] or ["tokens unknown"]
    cost = "cost unknown" if bill.cost_micro_usd is None else format_dollars(bill.cost_micro_usd)
    return ", ".join((format_count(bill.calls, "call"), cost, *tokens, format_duration(bill.took_ms)))


def describe_attempt(attempt: Attempt) -> str:
    """Return one strategy that was tried as a sentence."""
    model = f" with {attempt.model}" if attempt.model else ""
    return f"{attempt.strategy}{model}: {describe_outcome(attempt)}; {describe_bill(sum_attempts([attempt]))}"


def describe_outcome(attempt: Attempt) -> str:
    """Return how an attempt ended, and how many operations of its draft named no entry."""
    ignored = f", {format_count(attempt.ignored, 'unknown entry', 'unknown entries')} ignored" if attempt.ignored else ""
    return f"{attempt.outcome}{ignored}"


def read_note(record: Record) -> str:
    """Return the whole text of a person's note; empty for any other record."""
    remark = read_remark(record)
    return remark.body.text if remark and isinstance(remark.body, SaidBody) else ""


def _describe_remark(remark: RemarkBody) -> Line:
    match remark:
        case SaidBody():
            who = "agent's note" if remark.by_agent else "note, pinned" if remark.pinned else "note"
            return Line.make(who, remark.text, "note")
        case PinBody():
            return Line.make("pin", f"a person pinned entry {remark.entry} of the session state", "note")
        case UnpinBody():
            return Line.make("unpin", f"a person unpinned entry {remark.entry} of the session state", "note")
        case _:
            assert_never(remark)


def _describe_note(body: bytes) -> Line:
    note = decode_body(body, _Note)
    if note.event == "note":
        return Line.make("note", note.text, "note")
    text = f"{note.event.replace('_', ' ')}: {note.reason}" if note.event else decode_start(body)
    return Line.make("note", text, "aside")


def _describe_meta(meta: MetaBody) -> Line:
    parts = [f"a {meta.dialect} thread"]
    if meta.parent:
        parts.append(f"forked from {meta.parent}")
    if meta.title:
        parts.append(f"called {meta.title}")
    if meta.archived:
        parts.append("archived")
    return Line.make("meta", ", ".join(parts), "aside")


def _describe_mail(record: Record, dialect: Dialect) -> str:
    body = read_mail_record(record)
    match body:
        case None:
            return "cannot be read"
        case MailBody():
            return f"from {body.sender or 'an unnamed sender'} ({body.way}): {read_mail_text(body, dialect)}"
        case TakenBody():
            return f"all mail before #{body.upto} is in the history"
        case TurnEndBody():
            return f"turn {body.turn} {body.outcome}{f': {body.reason}' if body.reason else ''}"
        case SpawnBody():
            return f"sub-agent {body.name or body.child} is {body.status}"
        case _:
            assert_never(body)


def read_mail_text(body: MailBody, dialect: Dialect) -> str:
    """Return the words of a piece of mail."""
    return " ".join(dialect.view(Item(bytes(item))).text for item in body.items)


def decode_start(body: bytes) -> str:
    """Return the beginning of a body as text."""
    return body[: 4 * LINE_CHARS].decode("utf-8", "replace")


def shorten(text: str, *, limit: int) -> str:
    """Return the beginning of `text` on one line of at most `limit` characters."""
    # Cut first: there may be a megabyte of it.
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
