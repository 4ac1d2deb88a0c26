"""The replies a test writes into a provider's script, and the requests the provider received.

Replies are written once, as items of the Responses API; a provider says them in the language of the request (see
`tests.doubles.wires`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

JsonObject = dict[str, Any]


class Failure(NamedTuple):
    """How a response fails after it has begun, as the provider's own failure event reports it."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One step of a script: what the provider answers to one request.

    Attributes:
        items: Output items in the provider's JSON; ids, statuses and call ids left out are numbered by the provider.
        failure: Ends the response with the wire's own failure event after its items.
        drop: Ends the stream after its items without the event that completes it.
        status: HTTP status of the answer; only with `body`.
        body: Answers with this JSON instead of a response, on whatever path the request came.
        hold: Awaited after the items were sent and before the event that ends the response.
    """

    items: tuple[Mapping[str, Any], ...] = ()
    input_tokens: int = 100
    output_tokens: int = 10
    failure: Failure | None = None
    drop: bool = False
    status: int = 200
    body: Mapping[str, Any] | None = None
    hold: asyncio.Event | None = None

    def __post_init__(self) -> None:
        if self.status != 200 and self.body is None:
            raise ValueError(f"a reply with status {self.status} needs the body to send with it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it arrived. `headers` has lower-case names and no credential; `authorised` says whether one came."""

    method: str
    path: str
    headers: Mapping[str, str]
    authorised: bool
    raw: bytes
    body: Mapping[str, Any]

    @property
    def input(self) -> list[JsonObject]:
        """The history of a Responses request; a plain string counts as one user message."""
        sent = self.body.get("input", [])
        return [{"role": "user", "content": sent}] if isinstance(sent, str) else list(sent)

    @property
    def history(self) -> list[JsonObject]:
        """The history of a request of any wire: `input` where it is a Responses request, else `contents` or `messages`."""
        return self.input if "input" in self.body else list(self.body.get("contents", self.body.get("messages", [])))


def message(text: str, *, phase: str | None = None) -> JsonObject:
    """Return an assistant message item with every field a current provider sends."""
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    item: JsonObject = {"type": "message", "role": "assistant", "content": [part]}
    return item if phase is None else item | {"phase": phase}


def reasoning(encrypted_content: str, *, summary: str = "") -> JsonObject:
    """Return a reasoning item of the kind a client must hand back unchanged."""
    parts = [{"type": "summary_text", "text": summary}] if summary else []
    return {"type": "reasoning", "summary": parts, "encrypted_content": encrypted_content}


def say(
    text: str,
    *,
    phase: str | None = None,
    encrypted_reasoning: str | None = None,
    thought: str = "",
    input_tokens: int = 100,
    hold: asyncio.Event | None = None,
) -> Reply:
    """Answer with one assistant message, after reasoning if any is given; `thought` is its summary."""
    items = (*_thoughts(encrypted_reasoning, thought), message(text, phase=phase))
    return Reply(items=items, input_tokens=input_tokens, hold=hold)


def call(
    name: str,
    arguments: Mapping[str, Any],
    *,
    call_id: str | None = None,
    encrypted_reasoning: str | None = None,
    thought: str = "",
    input_tokens: int = 100,
) -> Reply:
    """Answer with one function call, after reasoning if any is given; an omitted call id is numbered by the provider."""
    item: JsonObject = {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}
    if call_id is not None:
        item["call_id"] = call_id
    return Reply(items=(*_thoughts(encrypted_reasoning, thought), item), input_tokens=input_tokens)


def failed(code: str, text: str) -> Reply:
    """Begin a response and fail it; `context_length_exceeded` is what an overflow looks like."""
    return Reply(failure=Failure(code, text))


def http_error(status: int, text: str, *, kind: str = "invalid_request_error", code: str | None = None) -> Reply:
    """Answer with a plain HTTP error in the provider's shape."""
    return Reply(status=status, body=error_body(text, kind=kind, code=code))


def error_body(text: str, *, kind: str, param: str | None = None, code: str | None = None) -> JsonObject:
    return {"error": {"message": text, "type": kind, "param": param, "code": code}}


def summary_of(reply: Reply) -> str:
    """Return a reply in a few words, for the complaint that nobody asked for it."""
    if reply.body is not None:
        return f"HTTP {reply.status}"
    if reply.failure is not None:
        return f"failure {reply.failure.code}"
    return ", ".join(_words(item) for item in reply.items) or "nothing said"


def _thoughts(encrypted_content: str | None, thought: str) -> tuple[JsonObject, ...]:
    return () if encrypted_content is None else (reasoning(encrypted_content, summary=thought),)


def _words(item: Mapping[str, Any]) -> str:
    match item["type"]:
        case "message":
            return f"say {''.join(part.get('text', '') for part in item['content'])[:60]!r}"
        case "function_call":
            return f"call {item['name']} {item['arguments'][:60]}"
        case kind:
            return str(kind)
