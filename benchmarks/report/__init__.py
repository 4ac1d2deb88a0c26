"""`python -m benchmarks report`: every measure in one run, and the design's targets next to the results."""
