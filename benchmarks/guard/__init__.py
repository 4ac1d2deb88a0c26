"""`python -m benchmarks guard`: counts that depend on no machine, held against those that were committed."""
