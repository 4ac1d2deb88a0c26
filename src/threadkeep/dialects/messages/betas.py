"""The betas of Anthropic's API that threadkeep asks for."""

from __future__ import annotations

from typing import Final

BETA_HEADER: Final = "anthropic-beta"
# The provider compacts a history when asked, and reads the block that it put in place of one.
COMPACTION_BETA: Final = "compact-2026-09-04"
# The provider drops thinking that no longer fits its history, where a request asks for that.
BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"
DROP_MISMATCHED: Final = b'{"prefix_mismatch_behavior":"drop_block"}'
