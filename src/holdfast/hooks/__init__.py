"""What hosts run around a compaction."""
