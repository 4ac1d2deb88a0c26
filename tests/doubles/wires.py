"""A scripted reply in the language of the request: Responses, Chat Completions or Anthropic Messages, streamed or whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tests.doubles import chat_stream, gemini_stream, messages_stream, responses_stream
from tests.doubles.responses_stream import JsonObject, Numbering, finished_item
from tests.doubles.script import Received, Reply

WireName = Literal["responses", "chat", "messages", "gemini"]

PATHS: dict[str, WireName] = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
    "/v1beta/models/gemini-3-pro:generateContent": "gemini",
}
GEMINI = re.compile(r"/v1beta/models/[\w.-]+:(?:stream)?[Gg]enerateContent")


def wire_of(received: Received) -> WireName | None:
    """Return the wire a request speaks, or None where it asks for no answer of a model."""
    if received.method != "POST":
        return None
    return "gemini" if GEMINI.fullmatch(received.path) else PATHS.get(received.path)


def is_streamed(received: Received) -> bool:
    """Whether a request asks for a stream of events."""
    return bool(received.body.get("stream")) or received.path.endswith(":streamGenerateContent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One reply as bytes. `blocks` are the content blocks of a Messages answer, empty on the other wires.

    `before` streams everything up to the event that ends the response, `ending` is that event, `whole` answers a request that
    does not stream.
    """

    before: tuple[bytes, ...]
    ending: bytes
    whole: JsonObject
    blocks: tuple[JsonObject, ...] = ()


def speak(wire: WireName, received: Received, reply: Reply, *, ids: Numbering, signature: str | None) -> Spoken:
    """Return `reply` in the words of `wire`; ids it leaves out are taken from `ids`.

    `signature` is what the Messages wire signs thinking with; without one it shows none.
    """
    match wire:
        case "responses":
            return _responses(received, reply, ids=ids)
        case "chat":
            return _chat(received, reply, ids=ids)
        case "messages":
            return _messages(received, reply, ids=ids, signature=signature)
        case "gemini":
            return _gemini(reply, ids=ids)


def _responses(received: Received, reply: Reply, *, ids: Numbering) -> Spoken:
    response_id = ids.next("resp")
    output = [finished_item(item, ids=ids) for item in reply.items]
    events = [*_responses_before(response_id, received, output), _responses_ending(response_id, received, reply, output)]
    written = [_sse({"type": event["type"], "sequence_number": number} | event) for number, event in enumerate(events)]
    return Spoken(before=tuple(written[:-1]), ending=written[-1], whole=events[-1]["response"])


def _responses_before(response_id: str, received: Received, output: list[JsonObject]) -> Iterator[JsonObject]:
    begun = responses_stream.response_object(response_id, request=received.body, status="in_progress")
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(output):
        yield from responses_stream.item_events(item, index=index)


def _responses_ending(response_id: str, received: Received, reply: Reply, output: list[JsonObject]) -> JsonObject:
    request = received.body
    if reply.failure is not None:
        error = reply.failure._asdict()
        ended = responses_stream.response_object(response_id, request=request, status="failed", output=output, error=error)
        return {"type": "response.failed", "response": ended}
    usage = responses_stream.usage_object(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)
    ended = responses_stream.response_object(response_id, request=request, status="completed", output=output, usage=usage)
    return {"type": "response.completed", "response": ended}


def _chat(received: Received, reply: Reply, *, ids: Numbering) -> Spoken:
    completion_id = ids.next("chatcmpl")
    output = [finished_item(item, ids=ids) for item in reply.items]
    usage = chat_stream.chat_usage(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)
    chunks = list(chat_stream.chunks(completion_id, request=received.body, output=output))
    if (received.body.get("stream_options") or {}).get("include_usage"):
        chunks.append(chat_stream.chunk(completion_id, request=received.body, delta=None) | {"usage": usage})
    ending = b"data: [DONE]\n\n"
    if reply.failure is not None:
        chunks = chunks[:-2]
        ending = _data({"error": {"message": reply.failure.message, "type": "server_error", "code": reply.failure.code}})
    whole = chat_stream.completion(completion_id, request=received.body, output=output, usage=usage)
    return Spoken(before=tuple(map(_data, chunks)), ending=ending, whole=whole)


def _messages(received: Received, reply: Reply, *, ids: Numbering, signature: str | None) -> Spoken:
    message_id = ids.next("msg")
    output = [finished_item(item, ids=ids) for item in reply.items]
    blocks = messages_stream.content_blocks(output, signature=signature)
    usage = messages_stream.anthropic_usage(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)
    events = [messages_stream.opening(message_id, request=received.body, input_tokens=reply.input_tokens)]
    events += messages_stream.block_events(blocks)
    ending = _sse({"type": "message_stop"})
    if reply.failure is None:
        delta = {"stop_reason": messages_stream.stop_reason(blocks), "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": reply.output_tokens}})
    else:
        ending = _sse({"type": "error", "error": {"type": reply.failure.code, "message": reply.failure.message}})
    whole = messages_stream.anthropic_message(message_id, request=received.body, blocks=blocks, usage=usage)
    return Spoken(before=tuple(map(_sse, events)), ending=ending, whole=whole, blocks=tuple(blocks))


def _gemini(reply: Reply, *, ids: Numbering) -> Spoken:
    response_id = ids.next("gemini")
    parts = gemini_stream.content_parts([finished_item(item, ids=ids) for item in reply.items])
    usage = gemini_stream.usage_metadata(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)
    ended = gemini_stream.answer_object(response_id, [{"text": ""}], usage=usage, finish="STOP")
    ending = _data(ended)
    if reply.failure is not None:
        ending = _data({"error": {"code": 500, "message": reply.failure.message, "status": reply.failure.code}})
    whole = gemini_stream.answer_object(response_id, parts, usage=usage, finish="STOP")
    return Spoken(before=tuple(map(_data, gemini_stream.pieces(response_id, parts))), ending=ending, whole=whole)


def _sse(event: JsonObject) -> bytes:
    return f"event: {event['type']}\n".encode() + _data(event)


def _data(event: JsonObject) -> bytes:
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
