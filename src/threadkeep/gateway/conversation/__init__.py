"""Decides what becomes of a conversation request: found by content, recorded, rewritten, compacted."""
