"""`python -m benchmarks report`: every measure in one run, and the design's whole table with what was found beside each bound."""
