"""One module a host: its own compactor, and threadkeep in its place.

The script in `benchmarks.compactors.driver` loads them by their files, also where threadkeep is not installed: nothing here
imports threadkeep, or another module here, before a session asks for it.
"""
