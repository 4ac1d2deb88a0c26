"""Reads and writes Codex rollouts.

Reading takes legacy and paginated rollouts, whole or damaged. What Codex would send again is an item;
compactions and rollbacks become steps; every other line is kept as a note with its exact bytes. Writing makes a legacy rollout
that the real CLI resumes, with the notes of an imported thread as they were. A compaction is written where its cut is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from threadkeep.dialects import RESPONSES
from threadkeep.dialects.raw_json import encode_value, join_list, join_object, read_value, split_list
from threadkeep.items import Item, ItemKind, Role, View
from threadkeep.transfer.json_rows import (
    Row,
    drop_fields,
    get_number,
    get_text,
    get_time_ms,
    has_more,
    join_lines,
    make_short_digest,
    make_thread_name,
    parse_row,
)
from threadkeep.transfer.transcript_form import Base, Compacted, Lane, Note, PutItem, Step, TakeBack, Trouble

ISSUER = "codex"
DIALECT = RESPONSES.name
ENVELOPE = frozenset({"timestamp", "ordinal", "type", "payload"})
# Items that Codex does not send: snapshots of the working tree, compaction marks, tool lists.
NOT_HISTORY = frozenset({"ghost_snapshot", "compaction_trigger", "additional_tools", "other"})
KNOWN = frozenset(
    {
        "session_meta",
        "inter_agent_communication_metadata",
        "turn_context",
        "world_state",
        "security_risk_score",
        "event_msg",
        "token_usage_record",
    }
)
MOST_TURNS = 1_000_000
NO_SUMMARY = "(no summary available)"


class CodexReader:
    """Reads one rollout; see `LineReader`."""

    def __init__(self) -> None:
        self._begun = False

    def feed(self, line: bytes) -> list[Step]:
        if not line.strip():
            return []
        row = parse_row(line)
        begun, self._begun = self._begun, True
        if begun:
            return _read_line(line, row)
        # The first line names the thread.
        meta = parse_row(row.get("payload", b"null")) if row is not None and get_text(row, "type") == "session_meta" else None
        if row is not None and meta is not None and get_text(meta, "id"):
            return [_make_lane(line, meta, at=get_time_ms(row))]
        lane = Lane(thread_id=make_thread_name("", prefix="codex", content=line), dialect=DIALECT)
        return [lane, Trouble(text="it does not begin with a session_meta that names its thread"), *_read_line(line, row)]

    def finish(self) -> list[Step]:
        return []


def _read_line(line: bytes, row: Row | None) -> list[Step]:
    if row is None:
        return [Trouble(text="not a JSON object"), Note(body=line)]
    if "payload" not in row:
        return [Trouble(text="no line of a rollout"), Note(body=line, at_ms=get_time_ms(row))]
    return _read_envelope(line, row)


def _make_lane(line: bytes, meta: Row, *, at: int | None) -> Lane:
    name = make_thread_name(get_text(meta, "id"), prefix="codex", content=line)
    base = parse_row(meta.get("history_base", b"null"))
    begins: Base | None = None
    if base is not None and get_text(base, "thread_id") and (end := get_number(base, "end_ordinal_exclusive")) is not None:
        begins = Base(rollout_id=get_text(base, "thread_id"), end_ordinal=end)
        if begins.rollout_id == name:
            # A reverted thread keeps its id in a new rollout; here it becomes a second thread.
            name = f"{name}-{make_short_digest(line)}"
    copied = get_text(meta, "forked_from_id") if begins is None else ""
    source = make_thread_name(copied, prefix="codex", content=line) if copied else None
    if source == name:
        # Nothing is a fork of itself.
        source = None
    note = Note(body=line, at_ms=at)
    session = get_text(meta, "id")
    return Lane(thread_id=name, dialect=DIALECT, session=session, copied_from=source, base=begins, opening=(note,))


def _read_envelope(line: bytes, row: Row) -> list[Step]:
    kind, at = get_text(row, "type"), get_time_ms(row)
    payload = parse_row(row["payload"])
    whole = Note(body=line, at_ms=at)
    if payload is None:
        return [Trouble(text=f"a {kind or 'line'} without a readable payload"), whole]
    match kind:
        case "response_item":
            return _read_response_item(row, payload, whole)
        case "compacted":
            return _read_compacted(row, payload, whole)
        case "event_msg" if get_text(payload, "type") == "thread_rolled_back":
            turns = get_number(payload, "num_turns")
            if turns is None or not 1 <= turns <= MOST_TURNS:
                return [Trouble(text="a rollback that does not say how far"), whole]
            return [whole, TakeBack(turns=turns, at_ms=at)]
        case "inter_agent_communication":
            return _read_agent_message(payload, whole)
        case _ if kind in KNOWN:
            return [whole]
        case _:
            return [Trouble(text=f"a line of an unknown type: {kind[:40]!r}"), whole]


def _read_response_item(row: Row, payload: Row, whole: Note) -> list[Step]:
    kind = get_text(payload, "type")
    if not kind and not get_text(payload, "role"):
        return [Trouble(text="a response_item without a type"), whole]
    if kind in NOT_HISTORY or get_text(payload, "role") == "system":
        return [whole]
    steps: list[Step] = [_make_item_step(row["payload"], payload, at=whole.at_ms)]
    if has_more(row, ENVELOPE):
        steps.append(Note(body=drop_fields(row, "payload"), at_ms=whole.at_ms))
    return steps


def _make_item_step(raw: bytes, fields: Row, *, at: int | None) -> PutItem:
    # For Codex, mail of another agent opens a turn.
    return PutItem(item=Item(raw), at_ms=at, opens_turn=True if get_text(fields, "type") == "agent_message" else None)


def _read_compacted(row: Row, payload: Row, whole: Note) -> list[Step]:
    spans = split_list(payload.get("replacement_history", b"null"))
    if spans is None:
        # Older rollouts do not repeat what Codex keeps beside the summary.
        summary = RESPONSES.make_user_message(get_text(payload, "message") or NO_SUMMARY)
        return [whole, Compacted(layout=(summary,), issuer=ISSUER, after_said=True, at_ms=whole.at_ms)]
    steps: list[Step] = []
    layout: list[Item | str] = []
    for span in spans:
        fields = parse_row(span)
        if fields is None:
            steps.append(Trouble(text="a compaction holds something that is no item"))
        elif get_text(fields, "type") not in NOT_HISTORY:
            layout.append(Item(span))
    rest = join_object({**row, "payload": drop_fields(payload, "replacement_history")})
    # Keep the whole line if something of it could not be placed.
    steps.append(whole if steps else Note(body=rest, at_ms=whole.at_ms))
    steps.append(Compacted(layout=tuple(layout), issuer=ISSUER, at_ms=whole.at_ms))
    return steps


def _read_agent_message(payload: Row, whole: Note) -> list[Step]:
    """Return the steps of legacy agent mail, which Codex sends as an item."""
    author, recipient, content = (payload.get(name, b"null") for name in ("author", "recipient", "content"))
    if not isinstance(read_value(author), str) or not isinstance(read_value(recipient), str):
        return [Trouble(text="an inter-agent line without author or recipient"), whole]
    if isinstance(read_value(content), str):
        content = b'[{"type":"input_text","text":' + content + b"}]"
    elif split_list(content) is None:
        content = encode_value([])
    fields = {"type": b'"agent_message"', "author": author, "recipient": recipient, "content": content}
    return [PutItem(item=Item(join_object(fields)), at_ms=whole.at_ms, opens_turn=True), whole]


CLI_VERSION = "0.150.1"
# Fields that tie a session to its files, parents and windows; an exported session has none of them.
OWN = frozenset(
    {
        "id",
        "session_id",
        "timestamp",
        "forked_from_id",
        "forked_from_ordinal_exclusive",
        "parent_thread_id",
        "history_base",
        "history_mode",
        "subagent_history_start_ordinal",
        "context_window",
        "agent_nickname",
        "agent_role",
        "agent_type",
        "agent_path",
        "thread_source",
    }
)
NOT_SAID_AGAIN = frozenset({"session_meta", "compacted"})
_cwd = re.compile(r"<cwd>([^<]{1,1000})</cwd>")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSession:
    """The content of a rollout's first line."""

    id: str
    at_ms: int
    meta: Row | None = None
    cwd: str = "/"
    instructions: str | None = None


def make_session_id(seed: bytes, *, at_ms: int) -> str:
    """Return a session id as Codex makes them (a version 7 UUID), the same for the same seed."""
    digest = blake2b(seed, digest_size=10).digest()
    raw = (max(0, at_ms) & ((1 << 48) - 1)).to_bytes(6, "big") + digest
    value = int.from_bytes(raw, "big")
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def make_file_name(session: RolloutSession) -> str:
    """Return the file name Codex would use."""
    return f"rollout-{_read_time(session.at_ms):%Y-%m-%dT%H-%M-%S}-{session.id}.jsonl"


def write_meta(session: RolloutSession) -> bytes:
    kept = {name: span for name, span in (session.meta or {}).items() if name not in OWN}
    source = kept.get("source", b'"cli"')
    payload: dict[str, bytes] = {
        "id": encode_value(session.id),
        "session_id": encode_value(session.id),
        "timestamp": encode_value(format_time(session.at_ms)),
        "cwd": encode_value(session.cwd),
        "originator": b'"codex_cli_rs"',
        "cli_version": encode_value(CLI_VERSION),
        **({"base_instructions": encode_value({"text": session.instructions})} if session.instructions else {}),
        **kept,
        "source": source if isinstance(read_value(source), str) else b'"cli"',
        "history_mode": b'"legacy"',
    }
    return write_line("session_meta", join_object(payload), at_ms=session.at_ms)


def write_item(item: Item, *, at_ms: int) -> bytes:
    return write_line("response_item", item.raw, at_ms=at_ms)


def write_compacted(layout: Iterable[Item], *, text: str, at_ms: int) -> bytes:
    """Return a compaction as a line."""
    payload = {"message": encode_value(text), "replacement_history": join_list(item.raw for item in layout)}
    return write_line("compacted", join_object(payload), at_ms=at_ms)


def write_note(note: bytes) -> bytes | None:
    """Return a note as a rollout line; None if it was no such line, or no longer applies."""
    row = parse_row(note)
    payload = parse_row(row.get("payload", b"null")) if row is not None else None
    if row is None or payload is None:
        return None
    kind = get_text(row, "type")
    if kind not in KNOWN or kind in NOT_SAID_AGAIN or get_text(payload, "type") == "thread_rolled_back":
        return None
    return join_object({name: span for name, span in row.items() if name != "ordinal"})


def write_event(view: View, *, at_ms: int) -> bytes | None:
    """Return the event line that Codex shows people for a message; None if it shows none."""
    if view.kind is not ItemKind.MESSAGE:
        return None
    shown: dict[str, object] | None = None
    if view.by_person:
        shown = {"type": "user_message", "message": view.said, "images": [], "local_images": [], "text_elements": []}
    elif view.role is Role.ASSISTANT and view.text:
        shown = {"type": "agent_message", "message": view.text}
    return write_line("event_msg", encode_value(shown), at_ms=at_ms) if shown else None


def write_line(kind: str, payload: bytes, *, at_ms: int) -> bytes:
    fields = {"timestamp": encode_value(format_time(at_ms)), "type": encode_value(kind), "payload": payload}
    return join_lines(join_object(fields))


def find_working_folder(texts: Sequence[str]) -> str | None:
    """Return the working folder that host context named last."""
    found = [match[1].strip() for text in texts for match in _cwd.finditer(text)]
    return found[-1] if found else None


def format_time(at_ms: int) -> str:
    return f"{_read_time(at_ms):%Y-%m-%dT%H:%M:%S}.{max(0, at_ms) % 1000:03d}Z"


def _read_time(at_ms: int) -> datetime:
    # Timestamps of transcripts can be anything; stay within the years that can be formatted.
    return datetime.fromtimestamp(min(max(0, at_ms), 253_402_300_799_000) // 1000, UTC)
