"""Benchmarks of threadkeep; they are not part of the wheel."""
