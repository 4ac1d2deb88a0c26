"""What a model writes back, read leniently and turned into operations that code weighs."""

from __future__ import annotations

from holdfast.compaction.reply.operations import operations_from
from holdfast.compaction.reply.parsing import ParsedState, parse_state

__all__ = ["ParsedState", "operations_from", "parse_state"]
