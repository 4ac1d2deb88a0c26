"""What outlives a thread: rules and decisions out of idle threads, merged, ranked by use, readable and editable as a page."""

from __future__ import annotations

from holdfast.memory.consolidating import Bounds, consolidated
from holdfast.memory.edits import edited
from holdfast.memory.extracting import Candidate, extracted, instruction, parsed
from holdfast.memory.finding import cited_in, found
from holdfast.memory.page import page, summary
from holdfast.memory.polluting import is_polluting, patterns_of
from holdfast.memory.records import Cited, Entry, Extracted, Failed, Kept, Snapshot, read_record, written
from holdfast.memory.state import MemoryState, folded

__all__ = [
    "Bounds",
    "Candidate",
    "Cited",
    "Entry",
    "Extracted",
    "Failed",
    "Kept",
    "MemoryState",
    "Snapshot",
    "cited_in",
    "consolidated",
    "edited",
    "extracted",
    "folded",
    "found",
    "instruction",
    "is_polluting",
    "page",
    "parsed",
    "patterns_of",
    "read_record",
    "summary",
    "written",
]
