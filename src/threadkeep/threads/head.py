"""What goes out with every request of a thread beside its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from threadkeep.dialects import Dialect, Request
from threadkeep.errors import BadInput
from threadkeep.tokens import estimate_bytes, estimate_text

# What a thread, or the model that is asked, says by itself in every request.
SAID_BY_OTHERS: Final = frozenset({"model", "stream", "input", "messages", "system", "instructions", "tools", "prompt_cache_key"})


@dataclass(frozen=True, slots=True)
class Head:
    """What goes out with every request beside the history; it counts against the window and is never compacted.

    Attributes:
        fields: What else the provider is to be told, in its own words: `reasoning`, `temperature`, `context_management`.
    """

    system: str | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if taken := sorted(SAID_BY_OTHERS & self.fields.keys()):
            reason = "the history, system, tools and model have their own place"
            raise BadInput(f"a head's fields cannot hold {', '.join(taken)}: {reason}")

    @property
    def tokens(self) -> int:
        """What it weighs in a window."""
        tools = estimate_bytes(len(msgspec.json.encode(list(self.tools)))) if self.tools else 0
        return tools + (estimate_text(self.system) if self.system else 0)

    def request(self, dialect: Dialect, *, cache_key: str) -> Request:
        """Return a thread's request without its history."""
        said = dialect.compose(system=self.system, tools=self.tools, cache_key=cache_key)
        more = {name: msgspec.json.encode(value) for name, value in self.fields.items()}
        return replace(said, fields={**said.fields, **more})
