"""Threads: append-only records, the live path through them, and the window they amount to. Pure."""

from __future__ import annotations

from holdfast.thread.path import Ask, LivePath, PathWalk
from holdfast.thread.persistence import Persistence, keep
from holdfast.thread.pointer import Pointer, checked_thread_id, parse_pointer
from holdfast.thread.records import (
    Attempt,
    Checkpoint,
    ContextBody,
    KeepEntry,
    LayoutEntry,
    LiteralEntry,
    MetaBody,
    ReplyBody,
    RollbackBody,
    StateEntry,
    StubEntry,
    TurnBody,
    UndoBody,
    decode_body,
    encode_body,
)
from holdfast.thread.turns import Arrival, Tip, lay_down
from holdfast.thread.window import EntryKind, History, WindowEntry, assemble

__all__ = [
    "Arrival",
    "Ask",
    "Attempt",
    "Checkpoint",
    "ContextBody",
    "EntryKind",
    "History",
    "KeepEntry",
    "LayoutEntry",
    "LiteralEntry",
    "LivePath",
    "MetaBody",
    "PathWalk",
    "Persistence",
    "Pointer",
    "ReplyBody",
    "RollbackBody",
    "StateEntry",
    "StubEntry",
    "Tip",
    "TurnBody",
    "UndoBody",
    "WindowEntry",
    "assemble",
    "checked_thread_id",
    "decode_body",
    "encode_body",
    "keep",
    "lay_down",
    "parse_pointer",
]
