"""`python -m benchmarks store`: the store beside SQLite itself and beside the stores of others."""
