"""A second family of long sessions, other in everything from the first: domains, phrasing, tools, languages, shapes of values.

Frozen. It was written without reading how compaction picks anything up, before anything was measured on it, and nothing of
compaction or recall may be tuned to it: it answers what the first family, which the library grew up with, cannot. A test holds
the digest of what it generates; whoever changes it says why, and that figures from before and after cannot be compared.
"""

from __future__ import annotations

from benchmarks.frozen.generator import frozen_session

__all__ = ["frozen_session"]
