"""How memory is made and shown: one value, made from the configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from threadkeep.llm import Model
from threadkeep.memory import Bounds, patterns_of

HOUR_MS = 3_600_000
# Tools that bring in text from outside, which a memory must not take for truth.
POLLUTING_TOOLS = "web_search* web_fetch* web_extract* websearch* webfetch* browser_*"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """How memory is made.

    Attributes:
        idle_ms: A thread is read once nothing was added to it for so long.
        model: Who chooses what is worth remembering, or that model's name; nobody, and code does, if None.
        attempts: How often a thread is tried with the model before code does it.
        threads: How many threads one pass looks at, the most recently written first.
        summary_tokens: What a model is shown never costs more than this.
        polluting_tools: A thread that called one of these is not read; names in lower case, `*` standing for anything.
    """

    idle_ms: int = 6 * HOUR_MS
    model: Model | str | None = None
    attempts: int = 3
    retry_ms: int = HOUR_MS
    threads: int = 5_000
    summary_tokens: int = 2_500
    polluting_tools: tuple[str, ...] = patterns_of(POLLUTING_TOOLS)
    bounds: Bounds = field(default_factory=Bounds)
