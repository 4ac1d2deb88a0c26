"""A tool that the gateway adds to a client's own, runs itself and hides from the client, in any dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from threadkeep.dialects.base import Dialect
from threadkeep.dialects.raw_json import read_object, read_value, split_list
from threadkeep.dialects.values import HiddenCalls, Request, ToolDefinition
from threadkeep.items import Item, ItemKind, ToolCall

# Answers of another shape cannot be blended: several at once, or one that is fetched later.
SHAPES: Final = {"n": 1, "background": False, "candidateCount": 1, "candidate_count": 1}
# The fields of a tool that may hold its definition, or several.
NESTED: Final = ("function", "functionDeclarations", "function_declarations")


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenTool:
    """One such tool, as its dialect writes it."""

    definition: ToolDefinition
    dialect: Dialect

    def can_join(self, request: Request) -> bool:
        """Whether answers to a request can be blended, and no tool of the client's has the name."""
        config = read_object(request.fields.get("generationConfig", b"null")) or {}
        asked = {name: read_value(span) for name, span in request.fields.items() if name in SHAPES} | config
        if any(asked.get(name) not in (None, usual) for name, usual in SHAPES.items()):
            return False
        return not any(self._is_named(read_value(tool)) for tool in split_list(request.fields.get("tools", b"[]")) or ())

    def add_to(self, request: Request) -> Request:
        """Return a request with the tool behind the client's own: the cached prefix of those stays."""
        tool, api = self.definition, self.dialect.api
        made = api.define_tool(name=tool.name, description=tool.description, parameters=tool.parameters)
        return api.offer_tool(request, made)

    def find_calls(self, items: Sequence[Item]) -> HiddenCalls:
        """Return what the items of a reply call."""
        views = [self.dialect.view(item) for item in items]
        calls = [call for view in views for call in view.calls if call.name == self.definition.name]
        ours = {call.id for call in calls}
        has_others = any(opened not in ours for view in views for opened in view.opens)
        return HiddenCalls(calls=tuple((call.id, read_object(call.arguments.encode())) for call in calls), has_others=has_others)

    def make_outputs(self, outputs: Mapping[str, str]) -> list[Item]:
        """Return what the tool returned, by call id, as items that follow the reply."""
        calls = {call_id: ToolCall(id=call_id, name=self.definition.name, arguments="") for call_id in outputs}
        return self.dialect.arrange([self.dialect.api.make_output(calls[name], text) for name, text in outputs.items()])

    def join_outputs(self, item: Item, outputs: Sequence[Item]) -> Item | None:
        """Return the client's item behind a mixed reply with our outputs in it; None where they stand as items before it."""
        joined = self.dialect.arrange([*outputs, item])
        return joined[0] if len(joined) == 1 else None

    def render_echo(self, items: Sequence[Item]) -> str:
        """Return what a client's echo of a reply must say to be one: its words, without space, and the calls it makes."""
        ours = {call_id for call_id, _ in self.find_calls(items).calls}
        words = [self.dialect.wire.read_speech(item).text for item in items]
        words += [f"\0{opened}\0" for item in items for opened in self.dialect.view(item).opens if opened not in ours]
        return "".join("".join(words).split())

    def identify_reasoning(self, item: Item) -> bytes | None:
        """Return what identifies an item of nothing but reasoning; None for any other."""
        return self.dialect.canonical(item) if self.dialect.view(item).kind is ItemKind.REASONING else None

    def _is_named(self, tool: object) -> bool:
        """Whether a tool of the client's has our name."""
        if isinstance(tool, list):
            return any(map(self._is_named, tool))
        if not isinstance(tool, dict):
            return False
        return tool.get("name") == self.definition.name or any(self._is_named(tool.get(name)) for name in NESTED)
