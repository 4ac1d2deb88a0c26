"""Generates the frozen family of long sessions: other domains, phrasing, tools, languages and values than the story family.

It was written without reading how compaction works and before anything was measured on it. Do not tune compaction or recall to
it: threadkeep was developed on the story family, so only this one is blind. A test holds the digest of the generated sessions. If
you must change them, say why; figures from before and after cannot be compared.
"""

from __future__ import annotations

from benchmarks.frozen.generator import frozen_session

__all__ = ["frozen_session"]
