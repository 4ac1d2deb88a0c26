"""What Codex says about a request in its headers. Hints, read leniently: content decides, these only add."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

HEADER = "x-codex-turn-metadata"
ROOT_AGENT = "/root"


class TurnMetadata(msgspec.Struct, frozen=True):
    """The parts of Codex's turn metadata that matter here."""

    request_kind: str = "turn"
    agent_name: str = ROOT_AGENT

    @property
    def is_side_request(self) -> bool:
        """Whether the client asks on its own behalf (its own compaction, say), not as the next step of the conversation."""
        return self.request_kind != "turn"

    @property
    def agent(self) -> str:
        """Which sub-agent speaks; empty for the main one."""
        return "" if self.agent_name == ROOT_AGENT else self.agent_name


def turn_metadata(headers: Mapping[str, str]) -> TurnMetadata:
    """Return the metadata of a request; the plain defaults where there is none or it cannot be read."""
    try:
        return msgspec.json.decode(headers.get(HEADER, "{}"), type=TurnMetadata)
    except (msgspec.MsgspecError, RecursionError):
        return TurnMetadata()
