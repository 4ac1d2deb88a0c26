"""Which items say that a thread read untrusted material from outside: calls of tools that bring it in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from threadkeep.dialects.spans import object_in
from threadkeep.items import Item

# Any item of any dialect that calls a tool says one of these.
SIGNS = (b"call", b"tool")
USES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
NOBODY = "none"


def patterns_of(setting: str) -> tuple[str, ...]:
    """Return the names in a setting, `*` standing for anything; `none` names no tool."""
    return tuple(name.casefold() for name in setting.split() if name != NOBODY)


def is_polluting(items: Iterable[Item], patterns: Sequence[str]) -> bool:
    """Whether one of these items calls a tool of these names, whoever runs it: the client, an MCP server or the provider."""
    if not patterns:
        return False
    tools = (name.casefold() for item in items for name in tools_called(item))
    return any(fnmatchcase(name, pattern) for name in tools for pattern in patterns)


def tools_called(item: Item) -> list[str]:
    """Return the tools an item calls, by name; a provider's own by the name of its call's type."""
    if not any(sign in item.raw for sign in SIGNS):
        return []
    fields = object_in(item.raw) or {}
    listed = [call.get("function", call) for call in _objects(fields.get("tool_calls"))]
    used = [block for block in _objects(fields.get("content")) if block.get("type") in USES]
    kind = fields.get("type")
    own = [fields.get("name") or kind.removesuffix("_call")] if isinstance(kind, str) and kind.endswith("_call") else []
    named = [call.get("name") for call in (*listed, *used) if isinstance(call, dict)]
    return [name for name in (*own, *named) if isinstance(name, str) and name]


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
