"""Codex rollouts out: the lines of a legacy-mode rollout that the real CLI resumes.

What a rollout said when it was imported is said again, but for what names where it came from. A compaction stands where its
cut is: Codex shows a model the replacement history of the newest one, and every item after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from threadkeep.dialects.raw_json import encode_value, join_list, join_object, read_value
from threadkeep.items import Item, ItemKind, Role, View
from threadkeep.transfer.codex import KNOWN
from threadkeep.transfer.rows import Row, on_one_line, row_of, text_in

CLI_VERSION = "0.150.1"
# What ties a session to its own files, its parents and its windows; the exported one has none of them.
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
WINDOW_IDS = ("window_id", "first_window_id", "previous_window_id")
NOT_SAID_AGAIN = frozenset({"session_meta", "compacted"})
_cwd = re.compile(r"<cwd>([^<]{1,1000})</cwd>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What the first line of a rollout says: who, when, and what is known about where."""

    id: str
    at_ms: int
    meta: Row | None = None
    cwd: str = "/"
    instructions: str | None = None


def session_id(seed: bytes, *, at_ms: int) -> str:
    """Return an id of the form Codex gives its threads (a version 7 UUID), the same for the same seed."""
    digest = blake2b(seed, digest_size=10).digest()
    raw = (max(0, at_ms) & ((1 << 48) - 1)).to_bytes(6, "big") + digest
    value = int.from_bytes(raw, "big")
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def file_name(session: Session) -> str:
    """Return what Codex would call the file."""
    return f"rollout-{_moment(session.at_ms):%Y-%m-%dT%H-%M-%S}-{session.id}.jsonl"


def meta_line(session: Session) -> bytes:
    kept = {name: span for name, span in (session.meta or {}).items() if name not in OWN}
    source = kept.get("source", b'"cli"')
    payload: dict[str, bytes] = {
        "id": encode_value(session.id),
        "session_id": encode_value(session.id),
        "timestamp": encode_value(stamp(session.at_ms)),
        "cwd": encode_value(session.cwd),
        "originator": b'"codex_cli_rs"',
        "cli_version": encode_value(CLI_VERSION),
        **({"base_instructions": encode_value({"text": session.instructions})} if session.instructions else {}),
        **kept,
        "source": source if isinstance(read_value(source), str) else b'"cli"',
        "history_mode": b'"legacy"',
    }
    return line("session_meta", join_object(payload), at_ms=session.at_ms)


def item_line(item: Item, *, at_ms: int, envelope: Row | None = None) -> bytes:
    """Return an item as a line; `envelope` is what its line said beside it when it was imported."""
    more = {name: span for name, span in (envelope or {}).items() if name not in ("timestamp", "ordinal", "type")}
    return line("response_item", item.raw, at_ms=at_ms, more=more)


def compacted_line(layout: Iterable[Item], *, text: str, at_ms: int, said: Row | None = None) -> bytes:
    """Return a compaction as a line; `said` is the payload its line had when it was imported."""
    kept = {name: span for name, span in (said or {}).items() if name not in WINDOW_IDS}
    payload = {"message": encode_value(text), **kept, "replacement_history": join_list(item.raw for item in layout)}
    # As many as there are items, or Codex refuses the line; they are about the originals, not about what stands there now.
    payload.pop("replacement_history_metadata", None)
    return line("compacted", join_object(payload), at_ms=at_ms)


def note_line(note: bytes) -> bytes | None:
    """Return a note as the line it was; None where it was no line of a rollout, or one that does not hold any more."""
    row = row_of(note)
    payload = row_of(row.get("payload", b"null")) if row is not None else None
    if row is None or payload is None:
        return None
    kind = text_in(row, "type")
    if kind not in KNOWN or kind in NOT_SAID_AGAIN or text_in(payload, "type") == "thread_rolled_back":
        return None
    return join_object({name: span for name, span in row.items() if name != "ordinal"})


def event_line(view: View, *, at_ms: int) -> bytes | None:
    """Return what Codex shows people for a message; None where it shows nothing."""
    if view.kind is not ItemKind.MESSAGE:
        return None
    shown: dict[str, Any] | None = None
    if view.by_person:
        shown = {"type": "user_message", "message": view.said, "images": [], "local_images": [], "text_elements": []}
    elif view.role is Role.ASSISTANT and view.text:
        shown = {"type": "agent_message", "message": view.text}
    return line("event_msg", encode_value(shown), at_ms=at_ms) if shown else None


def line(kind: str, payload: bytes, *, at_ms: int, more: Row | None = None) -> bytes:
    fields = {"timestamp": encode_value(stamp(at_ms)), "type": encode_value(kind), "payload": payload, **(more or {})}
    return on_one_line(join_object(fields))


def working_folder(texts: Sequence[str]) -> str | None:
    """Return the folder a host named last in what it said about its world."""
    found = [match[1].strip() for text in texts for match in _cwd.finditer(text)]
    return found[-1] if found else None


def stamp(at_ms: int) -> str:
    return f"{_moment(at_ms):%Y-%m-%dT%H:%M:%S}.{max(0, at_ms) % 1000:03d}Z"


def _moment(at_ms: int) -> datetime:
    # Clocks in transcripts say anything; a rollout needs a year that its reader can write.
    return datetime.fromtimestamp(min(max(0, at_ms), 253_402_300_799_000) // 1000, UTC)
