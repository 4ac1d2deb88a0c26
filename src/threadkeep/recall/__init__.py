"""Recall: original records, by pointer or by words."""

from __future__ import annotations

from threadkeep.recall.recall import Recalled, make_excerpt, recall_by_pointer, recall_by_words

__all__ = ["Recalled", "make_excerpt", "recall_by_pointer", "recall_by_words"]
