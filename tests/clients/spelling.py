"""How each wire writes a conversation down, and what of it clients change at will.

`steady` puts aside what clients change at will (ids, statuses, cache markers, a running count of tokens) and the freedom
of spelling a wire leaves (a string for one text, an absent field for an empty one). All else is compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from tests.doubles.script import JsonObject

Wire = Literal["responses", "chat", "messages"]
TOKENS_LEFT = re.compile(r"\s*<system-reminder>\s*<total_tokens>\d+ tokens left</total_tokens>\s*</system-reminder>\s*")
# Claude Code's advice about its own tools, given after so many turns without them.
ADVICE = re.compile(r"<system-reminder>\nThe task tools haven't been used recently.*?</system-reminder>\s*", re.DOTALL)
# Between messages that are sent as one string.
BETWEEN = "\n\n---\n\n"
DROPPED = ("id", "status", "cache_control", "annotations", "logprobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """The tool with which a client runs a command, what else it wants to be told, and whether it trims what is printed."""

    name: str
    command: str = "command"
    more: JsonObject = field(default_factory=dict)
    trims: bool = False

    def arguments(self, command: str) -> JsonObject:
        return {self.command: command, **self.more}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """What a model thought before it spoke: what seals it, and its summary."""

    sealed: str
    text: str


def user(wire: Wire, text: str) -> JsonObject:
    kind = "input_text" if wire == "responses" else "text"
    return {"role": "user", "content": [{"type": kind, "text": text}]}


def answered(wire: Wire, text: str, thought: Thought | None = None) -> list[JsonObject]:
    """Return what a model that said `text` leaves in the history."""
    kind = "output_text" if wire == "responses" else "text"
    return _spoken(wire, thought, [{"type": kind, "text": text}])


def ran(wire: Wire, tool: Tool, command: str, printed: str, *, call_id: str, thought: Thought | None = None) -> list[JsonObject]:
    """Return a call of a command and the line it printed."""
    printed = printed if tool.trims else f"{printed}\n"
    arguments = tool.arguments(command)
    call: JsonObject
    output: JsonObject
    if wire == "responses":
        call = {"type": "function_call", "name": tool.name, "arguments": arguments, "call_id": call_id}
        output = {"type": "function_call_output", "call_id": call_id, "output": printed}
        return [*_reasoning(thought), call, output]
    if wire == "chat":
        call = {"id": call_id, "type": "function", "function": {"name": tool.name, "arguments": arguments}}
        output = {"role": "tool", "tool_call_id": call_id, "content": [{"type": "text", "text": printed}]}
        return [{"role": "assistant", "tool_calls": [call]}, output]
    use = {"type": "tool_use", "id": call_id, "name": tool.name, "input": arguments}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": [{"type": "text", "text": printed}]}
    return [*_spoken(wire, thought, [use]), {"role": "user", "content": [result]}]


def _spoken(wire: Wire, thought: Thought | None, parts: list[JsonObject]) -> list[JsonObject]:
    said = {"role": "assistant", "content": parts}
    if wire == "responses":
        return [*_reasoning(thought), said]
    if wire == "messages" and thought is not None:
        return [said | {"content": [{"type": "thinking", "thinking": thought.text, "signature": "*"}, *parts]}]
    return [said]


def _reasoning(thought: Thought | None) -> list[JsonObject]:
    if thought is None:
        return []
    summary = [{"type": "summary_text", "text": thought.text}]
    return [{"type": "reasoning", "summary": summary, "encrypted_content": thought.sealed}]


def arranged(wire: Wire, items: Sequence[JsonObject], *, strings: bool) -> list[JsonObject]:
    """Return a rewritten history as a wire wants it: where roles alternate, neighbours of one role are one message.

    `strings` says that the client writes plain text; where Chat Completions has nothing else, it is joined and not listed.
    """
    if wire == "responses":
        return list(items)
    merged: list[JsonObject] = []
    for role, run in groupby(items, key=lambda item: item["role"]):
        group = list(run)
        if role == "user" and len(group) > 1:
            parts = [part for item in group for part in item["content"]]
            if wire == "chat" and strings:
                parts = [{"type": "text", "text": BETWEEN.join(part["text"] for part in parts)}]
            group = [{"role": "user", "content": parts}]
        merged += group
    return merged


def steady(wire: Wire, item: JsonObject) -> JsonObject:
    """Return an item without what may differ between two tellings of it."""
    kept = _without_volatile(item)
    if kept.get("type") == "message":
        del kept["type"]
    if isinstance(kept.get("content"), str):
        spoken = "output_text" if kept["role"] == "assistant" else "input_text"
        kind = spoken if wire == "responses" else "text"
        kept["content"] = [{"type": kind, "text": kept["content"]}] if kept["content"] else []
    if isinstance(kept.get("content"), list):
        parts = [_part(part) for part in kept["content"]]
        kept["content"] = [part for part in parts if part.get("text") != ""]
    if not kept.get("content"):
        kept.pop("content", None)
    if kept.get("type") == "function_call":
        kept["arguments"] = json.loads(kept["arguments"])
    if kept.get("type") == "function_call_output":
        kept["output"] = kept["output"].split("Output:\n")[-1]
    for called in kept.get("tool_calls", []):
        called["function"]["arguments"] = json.loads(called["function"]["arguments"])
    return kept


def _part(part: JsonObject) -> JsonObject:
    kept = _without_volatile(part)
    if isinstance(kept.get("text"), str):
        kept["text"] = ADVICE.sub("", TOKENS_LEFT.sub("", kept["text"]))
    if kept.get("type") == "tool_result":
        content = kept["content"]
        texts = [{"type": "text", "text": content}] if isinstance(content, str) else [_part(each) for each in content]
        kept["content"] = [text | {"text": TOKENS_LEFT.sub("", text["text"])} for text in texts]
        if kept.get("is_error") is False:
            del kept["is_error"]
    if "signature" in kept:
        kept["signature"] = "*"
    return kept


def _without_volatile(value: JsonObject) -> dict[str, Any]:
    calls = value.get("tool_calls")
    copied = {key: each for key, each in value.items() if key not in DROPPED and each is not None}
    if value.get("type") == "tool_use":
        copied["id"] = value["id"]
    if calls:
        copied["tool_calls"] = [call | {"function": dict(call["function"])} for call in calls]
    return copied
