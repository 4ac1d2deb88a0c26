"""What a model writes back, read leniently and turned into operations that code weighs."""

from __future__ import annotations

from threadkeep.compaction.reply.entry import cleaned
from threadkeep.compaction.reply.operations import operations_from
from threadkeep.compaction.reply.parsing import ParsedState, after_thinking, is_refusal, parse_state

__all__ = ["ParsedState", "after_thinking", "cleaned", "is_refusal", "operations_from", "parse_state"]
