"""Settings of the memory: when threads are read, by which model, and how much is kept and shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadkeep.llm import Model

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
# Tools that bring in text from outside, which the memory must not take for truth.
POLLUTING_TOOLS = "web_search* web_fetch* web_extract* websearch* webfetch* browser_*"
NO_TOOL = "none"


def parse_tool_patterns(setting: str) -> tuple[str, ...]:
    """Return the tool names in a setting, in lower case; `*` matches anything, and `none` names no tool."""
    return tuple(name.casefold() for name in setting.split() if name != NO_TOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """How memory is made and shown.

    Attributes:
        idle_ms: A thread is read once nothing was added to it for this long.
        model: The model that chooses what to remember, or its name; None uses code alone.
        attempts: How often the model is tried on a thread before code chooses instead.
        threads: How many threads one pass looks at, the most recently written first.
        memories: How many memories are kept.
        unused_ms: A memory that nobody said or cited for this long is dropped.
        summary_tokens: The most tokens the summary may have.
        polluting_tools: Threads that called one of these tools are not read.
    """

    idle_ms: int = 6 * HOUR_MS
    model: Model | str | None = None
    attempts: int = 3
    retry_ms: int = HOUR_MS
    threads: int = 5_000
    memories: int = 256
    unused_ms: int = 30 * DAY_MS
    summary_tokens: int = 2_500
    polluting_tools: tuple[str, ...] = parse_tool_patterns(POLLUTING_TOOLS)
