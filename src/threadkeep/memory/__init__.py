"""What outlives a thread: rules and decisions out of idle threads, merged, ranked by use, readable and editable as a page."""

from __future__ import annotations

from threadkeep.memory.consolidation import Bounds, consolidated
from threadkeep.memory.extraction import Candidate, extracted, instruction, is_polluting, parsed, patterns_of
from threadkeep.memory.page import edited, page, summary
from threadkeep.memory.records import Cited, Entry, Extracted, Failed, Kept, Snapshot, read_record, written
from threadkeep.memory.state import MemoryState, cited_in, folded, found

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
