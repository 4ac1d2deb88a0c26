"""A conversation request taken apart, with what is known about it before anything is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.dialects import Request
from holdfast.gateway.exchange import Incoming
from holdfast.gateway.glances import Seen
from holdfast.gateway.hints import Hints


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What a client sent: the request as it came, its parts, its hints, and a look at each item of its history."""

    incoming: Incoming
    request: Request
    hints: Hints
    seen: Seen

    @property
    def headers(self) -> Mapping[str, str]:
        return self.incoming.headers
