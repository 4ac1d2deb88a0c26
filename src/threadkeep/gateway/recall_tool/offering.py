"""Which requests are given the tool, and how it stands in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from threadkeep.dialects import Request
from threadkeep.dialects.raw_json import encode_value, join_list, read_object, read_value, split_list
from threadkeep.gateway.glances import Seen
from threadkeep.gateway.hints import Hints
from threadkeep.gateway.provider_rules import BINDING
from threadkeep.gateway.recall_tool.chat import ChatForm
from threadkeep.gateway.recall_tool.form import NAME, Form
from threadkeep.gateway.recall_tool.messages import MessagesForm
from threadkeep.gateway.recall_tool.responses import ResponsesForm
from threadkeep.gateway.rules import Rules

FORMS: Final[Mapping[str, Form]] = {"responses": ResponsesForm(), "chat": ChatForm(), "messages": MessagesForm()}
# Answers of another shape: several at once, or one that is fetched later.
SHAPES: Final = {"n": 1, "background": False}


def is_offered(request: Request, seen: Seen, hints: Hints, *, dialect: str, rules: Rules) -> bool:
    """Whether a conversation's model is given the tool.

    Not where its answers cannot be blended, or a tool of the client's own has the name. Where a provider binds thinking to what
    stands before it, only with `drop_block`: a client that changes what it echoes would otherwise have its next request refused.
    """
    if not rules.offers_recall(client=hints.client, model=hints.model):
        return False
    if any(read_value(request.fields.get(name, b"null")) not in (None, usual) for name, usual in SHAPES.items()):
        return False
    if dialect == BINDING and rules.thinking != "drop_block" and _is_bound(request, seen):
        return False
    tools = [read_object(tool) or {} for tool in split_list(request.fields.get("tools", b"[]")) or ()]
    return not any(FORMS[dialect].is_named(tool, NAME) for tool in tools)


def with_tool(request: Request, *, dialect: str) -> Request:
    """Return a request with the tool behind the client's own: what a provider has cached of those stays."""
    own = split_list(request.fields.get("tools", b"[]")) or []
    tools = join_list([*own, encode_value(FORMS[dialect].definition())])
    return replace(request, fields={**request.fields, "tools": tools})


def _is_bound(request: Request, seen: Seen) -> bool:
    thinking = read_object(request.fields.get("thinking", b"null")) or {}
    asked = thinking.get("type") not in (None, "disabled")
    return asked or any(glance.is_sealed for glance in seen.glances)
