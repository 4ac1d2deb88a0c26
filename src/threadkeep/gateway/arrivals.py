"""A conversation request taken apart, with what is known about it before anything is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from threadkeep.dialects import Request
from threadkeep.gateway.exchange import Incoming
from threadkeep.gateway.glances import Seen
from threadkeep.gateway.hints import Hints
from threadkeep.gateway.recall_tool.exchanges import Exchange
from threadkeep.memory.memory import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What a client sent: the request as it came, its parts, its hints, and a look at each item of its history.

    `memory` is what its model is shown of the memory beside what the client says; nothing, unless that was decided.
    `recalled` is what was recalled for it so far; None where its model is not given the tool.
    """

    incoming: Incoming
    request: Request
    hints: Hints
    seen: Seen
    memory: Shown = field(default=Shown(), repr=False)
    recalled: tuple[Exchange, ...] | None = field(default=None, repr=False)

    @property
    def headers(self) -> Mapping[str, str]:
        return self.incoming.headers
