"""Pins and notes on the session state, each as one small record beside the history."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches

from threadkeep.compaction import Ledger, LedgerEntry, read_ledger
from threadkeep.compaction.backend import Backend
from threadkeep.compaction.remarks import get_words
from threadkeep.errors import EntryNotFound, InvalidArgument
from threadkeep.store import RecordKind
from threadkeep.threads import LivePath, PinBody, RemarkBody, SaidBody, UnpinBody, encode_body
from threadkeep.threads.reader import load_history, load_live_path
from threadkeep.threads.writer import append_beside
from threadkeep.tokens import estimate_text

NOTE_CHARS = 4_000
NEARBY = 5
LONGEST_NUMBER = 10

_control = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarked:
    """What became of a remark: the record it made, None where it changed nothing, and the entries as they now stand."""

    thread: str
    record: int | None
    entries: tuple[LedgerEntry, ...]


async def pin_entry(backend: Backend, thread_id: str, entry_id: str) -> Remarked:
    """Keep an entry of the session state whatever comes; see `Thread.pin`."""
    return await _set_pinned(backend, thread_id, entry_id, pinned=True)


async def unpin_entry(backend: Backend, thread_id: str, entry_id: str) -> Remarked:
    """Take a pin away again; see `Thread.unpin`."""
    return await _set_pinned(backend, thread_id, entry_id, pinned=False)


async def take_note(backend: Backend, thread_id: str, text: str, *, pinned: bool = False, by_agent: bool = False) -> Remarked:
    """Write a person's statement down, or the agent's own; see `Thread.note` and `Thread.note_by_agent`."""
    words = check_note(text)
    said = SaidBody(text=words, pinned=pinned, by_agent=by_agent)
    path = await load_live_path(backend.store, thread_id)
    ordinal = await _append_remark(backend, thread_id, path, said, tokens=estimate_text(words))
    ledger = await _load_ledger(backend, await load_live_path(backend.store, thread_id))
    made = tuple(entry for entry in ledger.entries if any(source.ordinal == ordinal for source in entry.sources))
    return Remarked(thread=thread_id, record=ordinal, entries=made)


def check_note(text: str) -> str:
    """Return what is written down of a note.

    Raises:
        InvalidArgument: It is empty, too long, or no text.
    """
    words = _control.sub(" ", text).strip()
    if not words:
        raise InvalidArgument("text", "a note needs words; say what is to be remembered")
    if len(words) > NOTE_CHARS:
        text = f"a note has at most {NOTE_CHARS:,} characters, this one has {len(words):,}; say it in several"
        raise InvalidArgument("text", text)
    try:
        words.encode("utf-8")
    except UnicodeEncodeError as error:
        text = f"a note is text, and character {error.start + 1} of this one is half of one; write it anew"
        raise InvalidArgument("text", text) from None
    return words


async def _set_pinned(backend: Backend, thread_id: str, entry_id: str, *, pinned: bool) -> Remarked:
    wanted = entry_id.strip().removeprefix("[").removesuffix("]")
    path = await load_live_path(backend.store, thread_id)
    ledger = await _load_ledger(backend, path)
    entry = ledger.find(wanted)
    if entry is None:
        raise EntryNotFound(thread_id, wanted, near=_suggest_ids(ledger, wanted))
    if entry.pinned is pinned:
        return Remarked(thread=thread_id, record=None, entries=(entry,))
    body = (PinBody if pinned else UnpinBody)(entry=wanted, words=get_words(entry))
    ordinal = await _append_remark(backend, thread_id, path, body)
    return Remarked(thread=thread_id, record=ordinal, entries=(replace(entry, pinned=pinned),))


def _suggest_ids(ledger: Ledger, wanted: str) -> tuple[str, ...]:
    """Return similar ids for an error: near numbers, else similar names, else the newest ids."""
    ids = [entry.id for entry in ledger.entries]
    numbers = [each for each in ids if each.isdecimal()]
    if wanted.isascii() and wanted.isdecimal() and len(wanted) < LONGEST_NUMBER and numbers:
        return tuple(sorted(sorted(numbers, key=lambda each: abs(int(each) - int(wanted)))[:NEARBY], key=int))
    return tuple(get_close_matches(wanted, ids, n=NEARBY)) or tuple(ids[-NEARBY:])


async def _load_ledger(backend: Backend, path: LivePath) -> Ledger:
    return read_ledger(await load_history(backend.store, path))


async def _append_remark(backend: Backend, thread_id: str, path: LivePath, body: RemarkBody, *, tokens: int = 0) -> int:
    """Append a remark on the state of a path and return its ordinal. Durable when it returns."""
    raw = backend.redact(encode_body(body)) if backend.redact and isinstance(body, SaidBody) else encode_body(body)
    target = path.checkpoint.ordinal if path.checkpoint else 0
    return await append_beside(backend, thread_id, RecordKind.NOTE, raw, tokens=tokens, target=target)
