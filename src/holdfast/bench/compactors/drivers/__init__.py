"""One module a host: its own compactor, and holdfast in its place.

The script in `holdfast.bench.compactors.driver` loads them by their files, also where holdfast is not installed: nothing here
imports holdfast, or another module here, before a session asks for it.
"""
