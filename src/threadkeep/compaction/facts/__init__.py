"""Facts about the work, computed from the records: never from a model."""
