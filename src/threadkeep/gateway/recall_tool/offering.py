"""Which requests are given the tool."""

from __future__ import annotations

from threadkeep.dialects import Dialect, Request
from threadkeep.gateway.glances import Seen
from threadkeep.gateway.hints import Hints
from threadkeep.gateway.recall_tool.form import TOOL
from threadkeep.gateway.rules import Rules


def is_offered(request: Request, seen: Seen, hints: Hints, *, dialect: Dialect, rules: Rules) -> bool:
    """Whether a conversation's model is given the tool.

    Not where its answers cannot be blended, or a tool of the client's own has the name. Where a provider binds thinking to what
    stands before it, only with `drop_block`: a client that changes what it echoes would otherwise have its next request refused.
    """
    if not rules.offers_recall(client=hints.client, model=hints.model):
        return False
    thinking = dialect.api.thinking
    has_thinking = thinking is not None and (thinking.is_requested(request) or any(glance.is_sealed for glance in seen.glances))
    if has_thinking and rules.thinking != "drop_block":
        return False
    return dialect.api.make_hidden_tool(TOOL).can_join(request)
