"""A request that is on its way through the stages in which a conversation decides about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from threadkeep.dialects import Request
from threadkeep.gateway.conversation.hints import Hints
from threadkeep.gateway.conversation.item_cache import History
from threadkeep.gateway.conversation.parse_cache import Prefix
from threadkeep.gateway.conversation.proxy_interface import Incoming
from threadkeep.gateway.conversation.recall_tool import Exchange
from threadkeep.gateway.conversation.thread_cache import KnownThread
from threadkeep.memory.memory import Summary

EMPTY = History(items=(), infos=(), aside=())


@dataclass(slots=True, kw_only=True)
class OpenRequest:
    """A request on its way through the stages of `RecordedConversations.open`, which fill in the fields that have a default.

    Attributes:
        prefix: How the request is remembered.
        history: Its items and what is known about each.
        found: The thread that holds the longest known part of the history, and that part's length.
        memory: The memories that the model is shown beside what the client says.
        recalled: What was recalled in the conversation so far; None where the model is not offered the recall tool.
        headers_instead: Headers that replace the client's own on the way to the provider.
        is_compacted: Whether conversations like this one are compacted automatically.
    """

    incoming: Incoming
    request: Request
    hints: Hints
    prefix: Prefix | None = None
    history: History = EMPTY
    found: tuple[KnownThread, int] | None = None
    memory: Summary = field(default=Summary(), repr=False)
    recalled: tuple[Exchange, ...] | None = field(default=None, repr=False)
    headers_instead: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_compacted: bool = False

    @property
    def earlier(self) -> History | None:
        """The beginning of the history that was read with an earlier request."""
        return self.prefix.histories.get(self.hints.agent) if self.prefix else None

    @property
    def known(self) -> KnownThread | None:
        return self.found[0] if self.found else None

    @property
    def headers(self) -> Mapping[str, str]:
        return self.incoming.headers
