"""The body of each kind of record, and which records are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar, assert_never

import msgspec

from threadkeep.errors import DraftAttempt, InvalidPointer, InvalidThreadId
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
    """Return `text` if it can name a thread.

    Raises:
        InvalidThreadId: It cannot: pointers and command lines must be able to hold it.
    """
    if not _thread_id.fullmatch(text):
        raise InvalidThreadId(text)
    return text


def parse_pointer(text: str, *, within: str | None = None) -> Pointer:
    """Return the pointer `text` writes; `#12` alone is a record of the thread `within`.

    Raises:
        InvalidPointer: It is not one.
    """
    match = _pointer.fullmatch(text.strip())
    thread_id = (match[1] or within) if match else None
    if match is None or thread_id is None:
        raise InvalidPointer(text)
    return Pointer(thread_id, int(match[2]))


VERSION = 1


class MetaBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a thread is: its first record, and another each time that changes; the newest counts.

    `agent` is the sub-agent whose chain it holds; a fork has its root's. `continues` is the thread whose history the client
    rewrote to begin this one. `spawned_by` is the thread whose agent made this one for a sub-agent. `memory` pins what its model
    is shown of the memory; it holds nothing of what that says.
    """

    dialect: str
    parent: str | None = None
    agent: str = ""
    continues: str | None = None
    spawned_by: str | None = None
    title: str | None = None
    archived: bool = False
    memory: str = ""
    v: int = VERSION


class TurnBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request begins here; `preview` is its first line. `opened_by` is who made it: a person, if empty, else `mail`.

    `issuer` is whose account at which provider answers, where that is known; never a credential.
    """

    preview: str = ""
    model: str | None = None
    issuer: str | None = None
    opened_by: str = ""
    v: int = VERSION


class ContextBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the model was told outside its history: every field that is not history, and the leading items.

    Attributes:
        session: A digest of what the client calls the conversation; empty where it gives it no name.
        issuer: A digest of whose account at which provider answers from here on; never a credential.
        issued_from: How many links of the chain were there when that account took over: what is sealed in them is not its own.
        checkpoint: The checkpoint whose window is sent from here on.
        bound_from: How many links of the chain were there when that window was first sent: what a provider bound to the
            history before it is not bound to this window.
        memory: Pins what the model is shown of the memory; it holds nothing of what that says.
        started: The checkpoint with whose window SessionStart hooks were last run.
        start: What they want said with every request of that window.
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
    v: int = VERSION


class AskedBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who answers from here on, where that is not who the turn was opened for; see `TurnBody`.

    It is the body of a `context` record. A gateway's, a `ContextBody`, says whose account it is too.
    """

    model: str | None = None
    issuer: str | None = None
    v: int = VERSION


class StartBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What SessionStart hooks want said with the window of a checkpoint; a gateway's `ContextBody` says it among the rest."""

    started: int | None = None
    start: list[msgspec.Raw] = msgspec.field(default_factory=list)
    v: int = VERSION


class ReplyBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a provider answered, beside the history until the client echoes it.

    `attempts` are those of a compaction that came to no checkpoint (`threadkeep.threads.records`): `outcome` is then the error's
    code, and there is nothing else in it.
    """

    items: list[msgspec.Raw]
    outcome: str
    estimated_tokens: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    response_id: str | None = None
    attempts: list[Attempt] = msgspec.field(default_factory=list)
    v: int = VERSION


class RollbackBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The path goes on from `target` (a column of the record); everything between is left behind.

    Where `turns` is 0 the record at `target` is a rollback, and this one takes it back.
    """

    turns: int
    v: int = VERSION


class UndoBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The checkpoint at `target` (a column of the record) no longer counts."""

    v: int = VERSION


class MailBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag="mail"):
    """Something was delivered to the thread; `items` are what it becomes in the history once it is taken.

    `id` is the sender's name for it: the same id is delivered once. `way` is how it asks to be heard: `queue`, `trigger` or
    `steer`. `answers` names the task it is the result of, if it is one.
    """

    id: str
    items: list[msgspec.Raw]
    sender: str = ""
    way: str = "queue"
    answers: str = ""
    v: int = VERSION


class TakenBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag="taken"):
    """Every mail below ordinal `upto` is in the history: it went there in the append that wrote this."""

    upto: int
    v: int = VERSION


class TurnEndBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag="ended"):
    """A turn is over: `closed`, or `aborted` and why. Mail below `mail_from` is in the history by now.

    `asleep` says that the agent waits for anything at all: any mail then starts a turn.
    """

    turn: int
    outcome: str
    mail_from: int
    reason: str = ""
    asleep: bool = False
    v: int = VERSION


class SpawnBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag="spawn"):
    """The edge from this thread to a sub-agent's; of several about one child the newest counts: `open` or `closed`."""

    child: str
    status: str
    name: str = ""
    v: int = VERSION


# What a `mail` record holds. A turn's end, what was taken and whom the thread spawned stand among its mail, in one order, because
# that order decides who may still be heard. No other kind is read by anybody who looks for mail, and no turn is counted twice.
MailRecordBody = MailBody | TakenBody | TurnEndBody | SpawnBody


class SaidBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="note", tag="said"):
    """A person's own statement about the work, made beside the conversation; `pinned` keeps it whatever comes.

    `by_agent` says that it is the agent's own instead: it then stands for nobody but a model, and binds no one.
    """

    text: str
    pinned: bool = False
    by_agent: bool = False
    v: int = VERSION


class PinBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="note", tag="pin"):
    """A person wants `entry` of the session state kept; `words` is the digest of what it said, so that nothing is quoted here."""

    entry: str
    words: str
    v: int = VERSION


class UnpinBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="note", tag="unpin"):
    """A person no longer insists on `entry`."""

    entry: str
    words: str
    v: int = VERSION


# What a person says about the session state. It is told from every other note by its columns (`remarks.is_remark`), never by
# its body: bodies of notes come from transcripts too.
RemarkBody = SaidBody | PinBody | UnpinBody


class KeepEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="keep"):
    """A position of a checkpoint's replacement: a record as it is."""

    thread: str
    ordinal: int
    depth: int | None = None


class StubEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="stub"):
    """A position of a checkpoint's replacement: a record whose payload gave way to the one line in `item`."""

    thread: str
    ordinal: int
    item: msgspec.Raw
    depth: int | None = None


class StateEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="state"):
    """A position of a checkpoint's replacement: the session state, which no record holds."""

    item: msgspec.Raw


class LiteralEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="literal"):
    """A position of a checkpoint's replacement: an item that no record holds, because a compaction elsewhere wrote it.

    `issuer` names who wrote it (a provider's account, a client); if it is `sealed`, only the issuer can read it. `thread` and
    `ordinal` name the record whose words it repeats, where there is one.
    """

    item: msgspec.Raw
    issuer: str | None = None
    sealed: bool = False
    thread: str | None = None
    ordinal: int | None = None


LayoutEntry = KeepEntry | StubEntry | StateEntry | LiteralEntry


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One strategy tried for a compaction: `outcome` is `taken`, or why it was not; what asking a model for it cost.

    Tokens and cost are what the provider told, over all calls; None where it told nothing, which is not nothing. `ignored` counts
    operations of the draft that named no entry there is.
    """

    strategy: str
    outcome: str
    model: str | None = None
    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_micro_usd: int | None = None
    ignored: int = 0
    took_ms: int = 0


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The durable result of one compaction.

    Attributes:
        base: The checkpoint it was computed on, if any.
        cut: First ordinal of the path that it does not replace (also the record's `target`).
        covers: How many links of the client's chain stand before the cut.
        layout: What stands in place of everything before the cut, in order.
        state: The session state, in the form of `threadkeep.compaction`.
        audit: What had to survive, and whether it did.
        figures: Tokens, calls, milliseconds.
        trigger: Who asked for it: `manual` or `auto`; with the phase of the turn it happened in, and why.
        attempts: Every strategy that was tried, in order; the last one is this checkpoint's.
        remarks_to: What people remarked before this ordinal is in `state`; None where nobody could have remarked anything.
        start_due: Whether there was a SessionStart hook when it was made: it is run before this window is first sent.
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
    v: int = VERSION


B = TypeVar("B", bound=msgspec.Struct)
_MAIL_RECORD: msgspec.json.Decoder[MailRecordBody] = msgspec.json.Decoder(MailRecordBody)
_REMARK: msgspec.json.Decoder[RemarkBody] = msgspec.json.Decoder(RemarkBody)


def encode_body(body: msgspec.Struct) -> bytes:
    """Return a record body."""
    return msgspec.json.encode(body)


def decode_body(raw: bytes, form: type[B]) -> B:
    """Return a record body as the form its kind has."""
    return msgspec.json.decode(raw, type=form)


def read_mail_record(record: Record) -> MailRecordBody | None:
    """Return what a `mail` record says; None where it was erased, is damaged, or was written by a newer threadkeep."""
    if record.kind is not RecordKind.MAIL or record.erased:
        return None
    try:
        return _MAIL_RECORD.decode(record.body)
    except msgspec.MsgspecError:
        return None


def decode_remark(raw: bytes) -> RemarkBody:
    """Return the body of a remark."""
    return _REMARK.decode(raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCost:
    """What some attempts cost together. Tokens and cost are what was told of them; None where nobody told anything."""

    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost_micro_usd: int | None
    took_ms: int


def sum_attempts(attempts: Sequence[DraftAttempt]) -> AttemptCost:
    """Return what attempts cost together."""
    return AttemptCost(
        calls=sum(each.calls for each in attempts),
        input_tokens=_sum_known(each.input_tokens for each in attempts),
        output_tokens=_sum_known(each.output_tokens for each in attempts),
        cached_tokens=_sum_known(each.cached_tokens for each in attempts),
        cost_micro_usd=_sum_known(each.cost_micro_usd for each in attempts),
        took_ms=sum(each.took_ms for each in attempts),
    )


def is_failed_attempt(record: Record | NewRecord) -> bool:
    """Whether a record says what a compaction cost that came to nothing.

    A reply with a target is: its `target` is the checkpoint that counted when it was made, 0 before the first. What a provider
    answers to a turn has none, so the two are told apart without their bodies.
    """
    return record.kind is RecordKind.REPLY and record.target is not None


def read_failed_attempts(record: Record) -> ReplyBody | None:
    """Return what was tried for a compaction that came to nothing; None for another record, and where it cannot be read."""
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
    """One remark, where it stands, and the checkpoint whose state the person was looking at; None before the first."""

    source: Pointer
    body: RemarkBody
    seen: Checkpoint | None = None


def is_remark(record: Record | NewRecord) -> bool:
    """Whether a record is a person's remark.

    A note with a target is: its `target` is the checkpoint that counted when it was made, 0 before the first. Importers and
    gateways write notes without one, so nothing that stands in a transcript can pin or speak for a person.
    """
    return record.kind is RecordKind.NOTE and record.chain is None and record.target is not None


def read_remark(record: Record, *, seen: Checkpoint | None = None) -> Remark | None:
    """Return the remark a record holds; None where it holds none, was erased, or cannot be read."""
    if not is_remark(record) or record.erased:
        return None
    try:
        body = decode_remark(record.body)
    except msgspec.MsgspecError:
        return None
    return Remark(source=Pointer(record.thread_id, record.ordinal), body=body, seen=seen)


class Persistence(StrEnum):
    """How much of a thread is kept."""

    LIMITED = "limited"
    EXTENDED = "extended"


def reduce_records(records: Sequence[NewRecord], mode: Persistence) -> list[NewRecord]:
    """Return what is to be appended of `records`, in their order.

    A record is dropped or its body reduced, never moved; what is chained is always kept as it is, because the links after
    it rest on it. What was kept under one mode can be read, and appended to, under the other.
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
            | RecordKind.MAIL
        ):
            return record
        case RecordKind.REPLY:
            return _drop_items(record)
        case RecordKind.NOTE:
            # Unchained, it is said about the thread; only from what a person remarks is anything computed.
            return record if is_remark(record) else None
        case _:
            assert_never(record.kind)


def _drop_items(record: NewRecord) -> NewRecord:
    """Return a reply without the items it carried; the estimates of later requests are calibrated by the rest."""
    try:
        reply = decode_body(record.body, ReplyBody)
    except msgspec.MsgspecError:
        # Not a form this threadkeep knows: nothing can be told apart in it, so nothing is taken away.
        return record
    return replace(record, body=encode_body(msgspec.structs.replace(reply, items=[])))
