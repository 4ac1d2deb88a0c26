"""`python -m benchmarks guard`: counts that do not depend on the machine, compared with the committed ones."""
