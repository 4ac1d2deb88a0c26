"""The rules by which real providers refuse a request that was rewritten badly.

For all three wires: calls and their outputs in pairs, and, where a model's template demands it, roles that alternate. For
Responses: reasoning beside the item it led to, and `encrypted_content` that this provider issued. For Messages: thinking signed
by this provider and, on models that preserve it, bound to everything before it; results of tools first; no empty text; at most
four cache markers; thinking kept while its call is open.

Written against what providers document and without threadkeep's own dialects, so that the two can disagree.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tests.doubles.gemini_stream import pairing_fault
from tests.doubles.messages_stream import thinks
from tests.doubles.responses_stream import CALLS, JsonObject, refusal
from tests.doubles.script import Received
from tests.doubles.wires import Spoken, WireName

MAX_MARKERS = 4
THINKING = ("thinking", "redacted_thinking")

# Models whose thinking is valid only while system, tools and all earlier messages are what they were.
PRESERVING = ("fable-5-1", "fable-5-2", "mythos-5-1", "mythos-5-2", "opus-5-5", "sonnet-5-5", "haiku-5-5")
BINDING_BETA = "thinking-binding-controls-2026-08-01"

# Claude Code writes a line about itself, which changes without the conversation, into its first system block.
BILLING_LINE = "x-anthropic-billing-header:"


class Fault(NamedTuple):
    """Why a request is refused, in the fields of a provider's error."""

    message: str
    param: str
    code: str | None = None


class ProviderRules:
    """What one provider enforces, and what it remembers having issued."""

    def __init__(self, *, alternating: bool = False, issued: Collection[str] = ()) -> None:
        self._alternating = alternating
        self._issued = set(issued)
        self._thought_calls: set[str] = set()

    def issue(self, items: Iterable[Mapping[str, Any]], spoken: Spoken) -> None:
        """Remember what a reply hands out that only this provider may be handed back."""
        self._issued.update(str(item["encrypted_content"]) for item in items if item.get("encrypted_content"))
        self._issued.update(block["signature"] for block in spoken.blocks if block["type"] in THINKING)
        if any(block["type"] in THINKING for block in spoken.blocks):
            self._thought_calls.update(block["id"] for block in spoken.blocks if block["type"] == "tool_use")

    def refusal(self, wire: WireName, received: Received, *, is_side: bool = False) -> Fault | None:
        """Say why this request is refused, or return None. Which sides speak in a side request is its client's own matter."""
        body, history = received.body, received.history
        faults: tuple[Fault | None, ...]
        match wire:
            case "responses":
                faults = (self._of_responses(body, history),)
            case "chat":
                faults = (_chat_pairs(history),)
            case "messages":
                drops = BINDING_BETA in received.headers.get("anthropic-beta", "")
                faults = (_messages_shape(body), _messages_pairs(history), self._thinking(body, drops=drops))
            case "gemini":
                broken = pairing_fault(history)
                faults = (None if broken is None else Fault(broken, "contents", "INVALID_ARGUMENT"),)
        roles = _neighbours(history, wire=wire) if self._alternating and not is_side else None
        return next((fault for fault in (*faults, roles) if fault is not None), None)

    def _of_responses(self, body: Mapping[str, Any], items: Sequence[JsonObject]) -> Fault | None:
        for index, item in enumerate(items):
            sealed = item.get("encrypted_content")
            if sealed and sealed not in self._issued:
                text = f"input[{index}]: encrypted content was not issued by this organisation"
                return Fault(text, "input", "invalid_encrypted_content")
            if item.get("type") == "reasoning" and not sealed and body.get("store") is False:
                return Fault(f"input[{index}]: item with id {item.get('id')!r} not found; nothing is stored", "input")
        broken = refusal(items)
        return None if broken is None else Fault(broken, "input")

    def _thinking(self, body: Mapping[str, Any], *, drops: bool) -> Fault | None:
        messages: list[JsonObject] = list(body.get("messages", []))
        preserving = any(name in str(body.get("model")) for name in PRESERVING)
        behaviour = (body.get("thinking") or {}).get("block_binding", {}).get("prefix_mismatch_behavior")
        dropped = drops and behaviour == "drop_block"
        for index, message in enumerate(messages):
            for signature in _signatures(message):
                if signature not in self._issued:
                    return Fault(f"messages.{index}: Invalid signature in thinking block", "messages")
                bound = signature == prefix_signature(body, until=index)
                if preserving and not bound and not dropped:
                    text = f"messages.{index}: Invalid signature: the block is bound to a different conversation"
                    return Fault(text, "messages")
        return self._open_calls(messages) if thinks(body) else None

    def _open_calls(self, messages: Sequence[JsonObject]) -> Fault | None:
        """Refuse a tool loop that is still running and lost the thinking that began it."""
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            used = {block["id"] for block in blocks_of(message) if block.get("type") == "tool_use"}
            if message["role"] == "user" and not _results(message):
                return None
            if used & self._thought_calls and not any(_signatures(message)):
                return Fault(f"messages.{index}: Expected `thinking`, but found `tool_use`", "messages")
        return None


def prefix_signature(body: Mapping[str, Any], *, until: int | None = None) -> str:
    """Return the signature of thinking that follows the first `until` messages of a request, all of them by default.

    Left out, as by the provider: cache markers, how text is spelled, deferred tools, and earlier thinking, which may be removed.
    """
    system = [block for block in _as_blocks(body.get("system", [])) if not str(block.get("text")).startswith(BILLING_LINE)]
    tools = [tool for tool in body.get("tools") or [] if not tool.get("defer_loading")]
    messages = [
        message | {"content": [block for block in blocks_of(message) if block.get("type") not in THINKING]}
        for message in list(body.get("messages", []))[:until]
    ]
    said = json.dumps(without_markers([system, tools, messages]), sort_keys=True)
    return f"sig_{hashlib.blake2b(said.encode(), digest_size=12).hexdigest()}"


def without_markers(value: Any) -> Any:
    """Return JSON without any cache marker."""
    if isinstance(value, dict):
        return {key: without_markers(each) for key, each in value.items() if key != "cache_control"}
    return [without_markers(each) for each in value] if isinstance(value, list) else value


def blocks_of(message: Mapping[str, Any]) -> list[JsonObject]:
    """Return a message's content as blocks; a string is one block of text."""
    return _as_blocks(message.get("content") or [])


def count_markers(value: Any) -> int:
    """Return how many cache markers stand anywhere in a request."""
    if isinstance(value, dict):
        own = value.get("cache_control") is not None
        return own + sum(count_markers(each) for key, each in value.items() if key not in ("cache_control", "input"))
    return sum(count_markers(each) for each in value) if isinstance(value, list) else 0


def _as_blocks(content: Any) -> list[JsonObject]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _results(message: Mapping[str, Any]) -> list[str]:
    return [block["tool_use_id"] for block in blocks_of(message) if block.get("type") == "tool_result"]


def _signatures(message: Mapping[str, Any]) -> list[str]:
    return [str(block.get("signature") or block.get("data")) for block in blocks_of(message) if block.get("type") in THINKING]


def _begins_compacted(message: Mapping[str, Any]) -> bool:
    return any(block.get("type") == "compaction" for block in blocks_of(message)[:1])


def _messages_shape(body: Mapping[str, Any]) -> Fault | None:
    markers = count_markers(body.get("system")) + count_markers(body.get("tools")) + count_markers(body.get("messages"))
    if markers > MAX_MARKERS:
        return Fault(f"A maximum of {MAX_MARKERS} blocks with cache_control may be provided. Found {markers}.", "cache_control")
    messages = body.get("messages", [])
    # A compaction stands for what came before it, so a history may begin with the answer it was written in.
    if not messages or (messages[0]["role"] != "user" and not _begins_compacted(messages[0])):
        return Fault("messages: first message must use the user role", "messages")
    for index, message in enumerate(messages):
        blocks = blocks_of(message)
        # In the system's role a message may say nothing and only set how the model works from here on.
        empty = not blocks and message["role"] != "system"
        if empty or any(block.get("type") == "text" and not block["text"] for block in blocks):
            return Fault(f"messages.{index}: content and text blocks must be non-empty", "messages")
        if any(block.get("type") in THINKING and "cache_control" in block for block in blocks):
            return Fault(f"messages.{index}: cache_control cannot be set on thinking", "cache_control")
    return None


def _messages_pairs(messages: Sequence[JsonObject]) -> Fault | None:
    spoken = [(index, message) for index, message in enumerate(messages) if message["role"] != "system"]
    opened: set[str] = set()
    for index, message in spoken:
        results = _results(message)
        if unknown := [name for name in results if name not in opened]:
            return Fault(f"messages.{index}: tool_result {unknown[0]!r} has no tool_use in the message before", "messages")
        if missing := opened - set(results):
            return Fault(f"messages.{index}: tool_use {min(missing)!r} has no tool_result right after it", "messages")
        kinds = [block.get("type") == "tool_result" for block in blocks_of(message)]
        if any(later and not earlier for earlier, later in pairwise(kinds)):
            return Fault(f"messages.{index}: tool_result blocks must come first", "messages")
        opened = {block["id"] for block in blocks_of(message) if block.get("type") == "tool_use"}
    return Fault(f"messages: tool_use {min(opened)!r} has no tool_result", "messages") if opened else None


def _chat_pairs(messages: Sequence[JsonObject]) -> Fault | None:
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return Fault(f"messages[{index}]: role tool must follow the call {message['tool_call_id']!r}", "messages")
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return Fault(f"messages[{index}]: call {waiting[0]!r} must be followed by its tool message", "messages")
        waiting += [called["id"] for called in message.get("tool_calls") or []]
    return Fault(f"messages: call {waiting[0]!r} has no tool message", "messages") if waiting else None


CHAT_FIELDS = {
    *("model", "messages", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls", "response_format"),
    *("max_tokens", "temperature", "top_p", "stop", "reasoning_effort"),
}
CHAT_MESSAGE_FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
CHAT_PARTS = {"text": {"type", "text"}, "image_url": {"type", "image_url"}}
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def chat_shape(body: Mapping[str, Any]) -> Fault | None:
    """Say what in a Chat Completions request its reference does not allow, or many servers' templates refuse."""
    return next((Fault(text, "body") for text in _chat_faults(body)), None)


def _chat_faults(body: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"unknown field {name}" for name in body.keys() - CHAT_FIELDS)
    if "stream_options" in body and not body.get("stream"):
        yield "stream_options without stream"
    names = [tool["function"]["name"] for tool in body.get("tools", ())]
    if len(set(names)) < len(names) or not all(map(TOOL_NAME.fullmatch, names)):
        yield f"tools need names of their own: {names}"
    for tool in body.get("tools", ()):
        if tool["type"] != "function" or tool["function"].keys() - {"name", "description", "parameters", "strict"}:
            yield f"unknown tool {tool}"
        elif not isinstance(tool["function"]["parameters"], dict):
            yield "parameters are a schema"
    if {"tool_choice", "parallel_tool_calls"} & body.keys() and not names:
        yield "a choice without tools"
    for before, message in pairwise([{"role": ""}, *body["messages"]]):
        role = message["role"]
        if role not in CHAT_MESSAGE_FIELDS or message.keys() - CHAT_MESSAGE_FIELDS[role] - ALLOWED_THOUGHTS[role]:
            yield f"unknown message {sorted(message)} of {role}"
        if (role == "system" and before["role"]) or role == before["role"] != "tool":
            yield f"{role} behind {before['role']}"
        content = message.get("content")
        if not content and not message.get("tool_calls"):
            yield f"empty content of {role}"
        for part in content if isinstance(content, list) else ():
            if role != "user" or part["type"] not in CHAT_PARTS or part.keys() - CHAT_PARTS[part["type"]]:
                yield f"unknown part {part} of {role}"
        for call in message.get("tool_calls", ()):
            if not isinstance(json.loads(call["function"]["arguments"]), dict) or not call["id"]:
                yield f"arguments are an object: {call}"


ALLOWED_THOUGHTS = {"system": set(), "user": set(), "tool": set(), "assistant": {"reasoning_content", "reasoning"}}


def _neighbours(history: Sequence[JsonObject], *, wire: WireName) -> Fault | None:
    """Refuse two turns of a person in a row, and on wires that speak in whole messages two of the model."""
    for index, (before, role) in enumerate(pairwise(map(_role, history)), start=1):
        if before == role and (role == "user" or (role == "assistant" and wire != "responses")):
            return Fault(f"item {index}: roles must alternate, found {role} twice in a row", "messages")
    return None


def _role(item: Mapping[str, Any]) -> str:
    kind = str(item.get("type", "message"))
    if kind in CALLS or kind == "reasoning":
        return "assistant"
    role = str(item.get("role", kind))
    return "tool" if kind.endswith("_output") else {"model": "assistant"}.get(role, role)
