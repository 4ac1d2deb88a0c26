"""Record bodies, one struct for each kind of record, and pointers to records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar, assert_never

import msgspec

from threadkeep.errors import Attempt, InvalidPointer, InvalidThreadId
from threadkeep.store import NewRecord, Record, RecordKind

_THREAD_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_thread_id = re.compile(_THREAD_ID)
_pointer = re.compile(rf"({_THREAD_ID})?#(\d{{1,15}})")


@dataclass(frozen=True, slots=True, order=True)
class Pointer:
    """A record of a thread, written `THREAD#ORDINAL`."""

    thread_id: str
    ordinal: int

    def __str__(self) -> str:
        return f"{self.thread_id}#{self.ordinal}"


def check_thread_id(text: str) -> str:
    """Return `text` if it is a valid thread id.

    Raises:
        InvalidThreadId: It is not: an id must fit into pointers and command lines.
    """
    if not _thread_id.fullmatch(text):
        raise InvalidThreadId(text)
    return text


def parse_pointer(text: str, *, within: str | None = None) -> Pointer:
    """Parse a pointer; `#12` alone means a record of the thread `within`.

    Raises:
        InvalidPointer: `text` is not a pointer.
    """
    match = _pointer.fullmatch(text.strip())
    thread_id = (match[1] or within) if match else None
    if match is None or thread_id is None:
        raise InvalidPointer(text)
    return Pointer(thread_id, int(match[2]))


VERSION = 1


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a record, with the version of its form."""

    v: int = VERSION


class MetaBody(Body, frozen=True, kw_only=True):
    """Metadata of a thread: its first record, and a new one at each change; the newest counts.

    Attributes:
        agent: The client's sub-agent whose chain the thread holds; a fork has its root's.
        spawned_by: The thread that spawned this one for a sub-agent.
        memory: A pin of the memory summary that the model is shown, without its text.
    """

    dialect: str
    parent: str | None = None
    agent: str = ""
    spawned_by: str | None = None
    title: str | None = None
    archived: bool = False
    memory: str = ""


class TurnBody(Body, frozen=True, kw_only=True):
    """A turn begins here.

    Attributes:
        preview: The first line of the request.
        issuer: A digest of the account that answers, if known; never a credential.
        opened_by: Empty if a person opened the turn, else `mail`.
    """

    preview: str = ""
    model: str | None = None
    issuer: str | None = None
    opened_by: str = ""


class ContextBody(Body, frozen=True, kw_only=True):
    """What a client sent beside its history: request fields and leading items.

    Attributes:
        session: A digest of the client's name for the conversation; empty if it has none.
        issuer: A digest of the account that answers from here on; never a credential.
        issued_from: The length of the chain when that account took over; items before it are sealed for another account.
        checkpoint: The checkpoint whose window is sent from here on.
        bound_from: The length of the chain when that window was first sent; thinking from before is bound to an older window.
        memory: A pin of the memory summary that the model is shown, without its text.
        started: The checkpoint for which SessionStart hooks last ran.
        start: The items those hooks added to every request of that window.
    """

    fields: dict[str, msgspec.Raw]
    head: list[msgspec.Raw] = msgspec.field(default_factory=list)
    session: str = ""
    issuer: str = ""
    issued_from: int = 0
    checkpoint: int | None = None
    bound_from: int = 0
    memory: str = ""
    started: int | None = None
    start: list[msgspec.Raw] = msgspec.field(default_factory=list)


class AskedBody(Body, frozen=True, kw_only=True):
    """The model and account that answer from here on, if they differ from the turn's; the body of a `context` record."""

    model: str | None = None
    issuer: str | None = None


class StartBody(Body, frozen=True, kw_only=True):
    """What SessionStart hooks added to the window of a checkpoint; a subset of `ContextBody`."""

    started: int | None = None
    start: list[msgspec.Raw] = msgspec.field(default_factory=list)


BY_CLIENT = "made_by_client"


class FailedCompaction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A compaction that began and made no checkpoint: `failed`, `interrupted`, or `stopped` by a hook.

    `error` quotes no transcript. The window stayed as large as it was.
    """

    status: str
    error: str
    trigger: str
    phase: str
    reason: str
    strategy: str
    tokens_before: int
    tokens_after: int
    duration_ms: int
    model: str | None = None


class ReplyBody(Body, frozen=True, kw_only=True):
    """A provider's reply. It is not history until the client echoes it.

    `window` is the context window of the model that answered, if its provider or client told it. For a compaction that failed,
    `attempts` lists its attempts, `outcome` is the error code, `compaction` says how it ended, and all else is empty;
    for one that the client made itself, `outcome` is `BY_CLIENT`.
    """

    items: list[msgspec.Raw]
    outcome: str
    estimated_tokens: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    response_id: str | None = None
    window: int | None = None
    attempts: list[Attempt] = msgspec.field(default_factory=list)
    compaction: FailedCompaction | None = None


class RollbackBody(Body, frozen=True, kw_only=True):
    """Continues the path from ordinal `target` (a column of the record); the records between leave the path but stay stored.

    If `turns` is 0, this record undoes an earlier rollback, the record at `target`.
    """

    turns: int


class UndoBody(Body, frozen=True, kw_only=True):
    """Cancels the checkpoint at `target` (a column of the record)."""


class MailBody(Body, frozen=True, kw_only=True, tag_field="is", tag="mail"):
    """Mail delivered to the thread.

    Attributes:
        id: The sender's name for it; the same id is delivered once.
        items: What it becomes in the history once it is taken.
        way: `queue`, `trigger` or `steer`; see `Way`.
        answers: The task it is the result of, if any.
    """

    id: str
    items: list[msgspec.Raw]
    sender: str = ""
    way: str = "queue"
    answers: str = ""


class TakenBody(Body, frozen=True, kw_only=True, tag_field="is", tag="taken"):
    """All mail below ordinal `upto` is in the history; written in the same append that put it there."""

    upto: int


class TurnEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of a turn: a window `asked` for, or items `recorded`; with its size in tokens and, for a window, its checkpoint."""

    what: str
    at_ms: int
    tokens: int
    checkpoint: int | None = None


class TurnEndBody(Body, frozen=True, kw_only=True, tag_field="is", tag="ended"):
    """A turn ended: `closed`, or `aborted` with a reason. Mail below `mail_from` is in the history.

    With `asleep`, any mail starts the next turn. `events` are its steps, in order; only extended persistence keeps them.
    """

    turn: int
    outcome: str
    mail_from: int
    reason: str = ""
    asleep: bool = False
    events: list[TurnEvent] = msgspec.field(default_factory=list)


class SpawnBody(Body, frozen=True, kw_only=True, tag_field="is", tag="spawn"):
    """The edge from this thread to a sub-agent's thread, `open` or `closed`; the newest about a child counts."""

    child: str
    status: str
    name: str = ""


# What a `mail` record holds. Turn ends, taken mail and spawned agents share the kind because their order decides which turn a
# mail belongs to.
MailRecordBody = MailBody | TakenBody | TurnEndBody | SpawnBody


class SaidBody(Body, frozen=True, kw_only=True, tag_field="note", tag="said"):
    """A note about the work, made outside the conversation; `pinned` keeps it in every state.

    With `by_agent` the agent wrote it, not a person; such a note binds nobody.
    """

    text: str
    pinned: bool = False
    by_agent: bool = False


class PinBody(Body, frozen=True, kw_only=True, tag_field="note", tag="pin"):
    """A person pinned `entry` of the session state; `words` is a digest of its text."""

    entry: str
    words: str


class UnpinBody(Body, frozen=True, kw_only=True, tag_field="note", tag="unpin"):
    """A person unpinned `entry`."""

    entry: str
    words: str


# Notes and pins of a person. `is_remark` recognises them by their columns, never by the body, which may come from a transcript.
RemarkBody = SaidBody | PinBody | UnpinBody


class KeepEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="keep"):
    """A position of a layout: a record as it is."""

    thread: str
    ordinal: int
    depth: int | None = None


class StubEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="stub"):
    """A position of a layout: `item` is the stub that replaces a record's long output."""

    thread: str
    ordinal: int
    item: msgspec.Raw
    depth: int | None = None


class StateEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="state"):
    """A position of a layout: the session state, which is in no record."""

    item: msgspec.Raw


class LiteralEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="literal"):
    """A position of a layout: an item of another program's compaction, which is in no record.

    `issuer` is the account or client that wrote it; if it is `sealed`, only the issuer can read it. `thread` and `ordinal` name
    the record whose text it repeats, if there is one.
    """

    item: msgspec.Raw
    issuer: str | None = None
    sealed: bool = False
    thread: str | None = None
    ordinal: int | None = None


LayoutEntry = KeepEntry | StubEntry | StateEntry | LiteralEntry


class Checkpoint(Body, frozen=True, kw_only=True):
    """The durable result of one compaction.

    Attributes:
        base: The checkpoint it was computed on, if any.
        cut: The first ordinal of the path that it does not replace (also the record's `target`).
        covers: The number of chain links before the cut.
        layout: What replaces everything before the cut, in order.
        state: The session state, in the form of `threadkeep.compaction`.
        audit: What had to survive, and whether it did.
        figures: Tokens, calls, milliseconds.
        trigger: `manual` or `auto`.
        attempts: Every attempt, in order; the last one made this checkpoint.
        remarks_to: Notes and pins before this ordinal are in `state`.
        start_due: Whether SessionStart hooks must run before this window is first sent.
    """

    strategy: str
    cut: int
    covers: int
    layout: list[LayoutEntry]
    state: msgspec.Raw
    audit: msgspec.Raw
    figures: dict[str, int]
    base: int | None = None
    focus: str | None = None
    fell_back_from: str | None = None
    trigger: str = "manual"
    phase: str = "standalone_turn"
    reason: str = "user_requested"
    model: str | None = None
    attempts: list[Attempt] = msgspec.field(default_factory=list)
    remarks_to: int | None = None
    start_due: bool = False


B = TypeVar("B", bound=msgspec.Struct)
_MAIL_RECORD: msgspec.json.Decoder[MailRecordBody] = msgspec.json.Decoder(MailRecordBody)
_REMARK: msgspec.json.Decoder[RemarkBody] = msgspec.json.Decoder(RemarkBody)


def encode_body(body: msgspec.Struct) -> bytes:
    """Encode a record body."""
    return msgspec.json.encode(body)


def decode_body(raw: bytes, form: type[B]) -> B:
    """Decode a record body as `form`."""
    return msgspec.json.decode(raw, type=form)


def read_mail_record(record: Record) -> MailRecordBody | None:
    """Return the body of a `mail` record; None if it was erased or cannot be read."""
    if record.kind is not RecordKind.MAIL or record.erased:
        return None
    try:
        return _MAIL_RECORD.decode(record.body)
    except msgspec.MsgspecError:
        return None


def decode_remark(raw: bytes) -> RemarkBody:
    """Decode the body of a note or pin."""
    return _REMARK.decode(raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCost:
    """The cost of several attempts together; a figure is None if no attempt has it."""

    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost_micro_usd: int | None
    took_ms: int


def sum_attempts(attempts: Sequence[Attempt]) -> AttemptCost:
    """Return the cost of several attempts together."""
    return AttemptCost(
        calls=sum(each.calls for each in attempts),
        input_tokens=_sum_known(each.input_tokens for each in attempts),
        output_tokens=_sum_known(each.output_tokens for each in attempts),
        cached_tokens=_sum_known(each.cached_tokens for each in attempts),
        cost_micro_usd=_sum_known(each.cost_micro_usd for each in attempts),
        took_ms=sum(each.took_ms for each in attempts),
    )


def is_failed_attempt(record: Record | NewRecord) -> bool:
    """Whether a record holds the attempts of a compaction that made no checkpoint: it failed, or the client made it itself.

    Only such a reply has a target: the checkpoint that counted at that time, 0 before the first.
    """
    return record.kind is RecordKind.REPLY and record.target is not None


def read_failed_attempts(record: Record) -> ReplyBody | None:
    """Return the attempts of a compaction without a checkpoint; None for any other record, or if it cannot be read."""
    if not is_failed_attempt(record) or record.erased:
        return None
    try:
        return decode_body(record.body, ReplyBody)
    except msgspec.MsgspecError:
        return None


def _sum_known(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A note or pin, its record, and the checkpoint whose state the person saw; None before the first."""

    source: Pointer
    body: RemarkBody
    seen: Checkpoint | None = None


def is_remark(record: Record | NewRecord) -> bool:
    """Whether a record is a person's note or pin.

    Only these have a target: the checkpoint that counted at that time, 0 before the first. Importers and gateways write notes
    without one, so no text of a transcript can pin anything or speak for a person.
    """
    return record.kind is RecordKind.NOTE and record.chain is None and record.target is not None


def read_remark(record: Record, *, seen: Checkpoint | None = None) -> Remark | None:
    """Return the note or pin in a record; None if it holds none, was erased, or cannot be read."""
    if not is_remark(record) or record.erased:
        return None
    try:
        body = decode_remark(record.body)
    except msgspec.MsgspecError:
        return None
    return Remark(source=Pointer(record.thread_id, record.ordinal), body=body, seen=seen)


class Persistence(StrEnum):
    """How much of a thread is recorded."""

    LIMITED = "limited"
    EXTENDED = "extended"


def reduce_records(records: Sequence[NewRecord], mode: Persistence) -> list[NewRecord]:
    """Return the part of `records` that a mode keeps, in the same order.

    Chained records are always kept whole, because later links depend on them. Threads written in one mode can be read, and
    appended to, in the other.
    """
    match mode:
        case Persistence.EXTENDED:
            return list(records)
        case Persistence.LIMITED:
            reduced = (record if record.chain is not None else _reduce_record(record) for record in records)
            return [record for record in reduced if record is not None]
        case _:
            assert_never(mode)


def _reduce_record(record: NewRecord) -> NewRecord | None:
    match record.kind:
        case (
            RecordKind.META
            | RecordKind.TURN
            | RecordKind.CONTEXT
            | RecordKind.ITEM
            | RecordKind.CHECKPOINT
            | RecordKind.UNDO
            | RecordKind.ROLLBACK
        ):
            return record
        case RecordKind.MAIL:
            return _drop_events(record)
        case RecordKind.REPLY:
            return _drop_items(record)
        case RecordKind.NOTE:
            # Of unchained notes only a person's have an effect.
            return record if is_remark(record) else None
        case _:
            assert_never(record.kind)


def _drop_events(record: NewRecord) -> NewRecord:
    """Return the end of a turn without its steps."""
    try:
        body = _MAIL_RECORD.decode(record.body)
    except msgspec.MsgspecError:
        return record
    if not isinstance(body, TurnEndBody) or not body.events:
        return record
    return replace(record, body=encode_body(msgspec.structs.replace(body, events=[])))


def _drop_items(record: NewRecord) -> NewRecord:
    """Return a reply without its items; its figures calibrate later estimates."""
    try:
        reply = decode_body(record.body, ReplyBody)
    except msgspec.MsgspecError:
        # An unknown form: keep it whole.
        return record
    return replace(record, body=encode_body(msgspec.structs.replace(reply, items=[])))
