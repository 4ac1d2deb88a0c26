"""`python -m benchmarks cases`: blind cases with provenance, asked of a reader model after every compaction of a session."""
