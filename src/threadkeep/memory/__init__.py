"""What outlives a thread: rules and decisions out of idle threads, merged, ranked by use, readable and editable as a page."""

from __future__ import annotations

from threadkeep.memory.consolidating import Bounds, consolidated
from threadkeep.memory.edits import edited
from threadkeep.memory.extracting import Candidate, extracted, instruction, parsed
from threadkeep.memory.finding import cited_in, found
from threadkeep.memory.page import page, summary
from threadkeep.memory.polluting import is_polluting, patterns_of
from threadkeep.memory.records import Cited, Entry, Extracted, Failed, Kept, Snapshot, read_record, written
from threadkeep.memory.state import MemoryState, folded

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
