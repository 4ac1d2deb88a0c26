"""Threads: append-only records, the live path through them, and the window they amount to. Pure."""

from __future__ import annotations

from threadkeep.thread.attempts import Bill, bill_of, is_in_vain, tried_in_vain
from threadkeep.thread.path import Ask, LivePath, PathWalk
from threadkeep.thread.persistence import Persistence, keep
from threadkeep.thread.pointer import Pointer, checked_thread_id, parse_pointer
from threadkeep.thread.records import (
    AskedBody,
    Attempt,
    Checkpoint,
    ContextBody,
    KeepEntry,
    LayoutEntry,
    LiteralEntry,
    MetaBody,
    PinBody,
    RemarkBody,
    ReplyBody,
    RollbackBody,
    SaidBody,
    StartBody,
    StateEntry,
    StubEntry,
    TurnBody,
    UndoBody,
    UnpinBody,
    decode_body,
    encode_body,
)
from threadkeep.thread.remarks import Remark, is_remark, remark_of
from threadkeep.thread.turns import Arrival, Tip, lay_down
from threadkeep.thread.window import EntryKind, History, WindowEntry, assemble

__all__ = [
    "Arrival",
    "Ask",
    "AskedBody",
    "Attempt",
    "Bill",
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
    "PinBody",
    "Pointer",
    "Remark",
    "RemarkBody",
    "ReplyBody",
    "RollbackBody",
    "SaidBody",
    "StartBody",
    "StateEntry",
    "StubEntry",
    "Tip",
    "TurnBody",
    "UndoBody",
    "UnpinBody",
    "WindowEntry",
    "assemble",
    "bill_of",
    "checked_thread_id",
    "decode_body",
    "encode_body",
    "is_in_vain",
    "is_remark",
    "keep",
    "lay_down",
    "parse_pointer",
    "remark_of",
    "tried_in_vain",
]
