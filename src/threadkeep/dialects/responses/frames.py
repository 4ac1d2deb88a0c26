"""The Responses API over WebSocket: a client's frames as the requests they would be over HTTP, and events as frames.

A frame creates a response or steers one. Frames with the same `stream_id` are answered in order, others beside each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.json import encode

from threadkeep.dialects.raw_json import join_list, join_object, read_object, read_value, split_list, split_object
from threadkeep.dialects.responses.continuation import PREVIOUS, read_input
from threadkeep.dialects.responses.replies import render_empty_stream
from threadkeep.dialects.sse import EventReader
from threadkeep.dialects.values import Answer, Frame
from threadkeep.items import Item

KINDS: Final[Mapping[object, str]] = {
    "response.create": "create",
    "response.steer": "steer",
    # Codex says that it has dealt with a response. There is nothing to do, and nothing to answer.
    "response.processed": "notice",
}
# What only a frame has, or only a request over HTTP.
ENVELOPE: Final = frozenset({"type", "stream_id", "generate", "stream", "stream_options", "background"})
# Codex opens one socket for many requests, and says in each what would be its headers.
METADATA: Final = "client_metadata"
HEADER_MARK: Final = "ws_request_header_"
_header_name = re.compile(r"x-(?:codex|openai)-[a-z0-9-]{1,64}")
_header_value = re.compile(r"[\x20-\x7e]{0,16384}")


def read_frame(data: bytes) -> Frame | None:
    fields = split_object(data)
    if fields is None:
        return None
    kind, stream, previous = (read_value(fields.get(name, b"null")) for name in ("type", "stream_id", PREVIOUS))
    return Frame(
        kind=KINDS.get(kind, "") if isinstance(kind, str) else "",
        stream=stream if isinstance(stream, str) else None,
        previous=previous if isinstance(previous, str) and previous else None,
        generates=fields.get("generate", b"true") != b"false",
        fields={name: raw for name, raw in fields.items() if name not in ENVELOPE},
        input=None if (given := read_input(fields.get("input", b"null"))) is None else tuple(given),
    )


def make_body(frame: Frame, *, previous: str | None, items: Sequence[Item]) -> bytes:
    fields = {name: raw for name, raw in frame.fields.items() if name != PREVIOUS}
    if previous is not None:
        fields[PREVIOUS] = encode(previous)
    return join_object({**fields, "input": join_list(item.raw for item in items), "stream": b"true"})


def read_headers(frame: Frame) -> Mapping[str, str]:
    said = read_object(frame.fields.get(METADATA, b"null")) or {}
    named = {_read_header_name(name): value for name, value in said.items()}
    return {
        name: value
        for name, value in named.items()
        if _header_name.fullmatch(name) and isinstance(value, str) and _header_value.fullmatch(value)
    }


def make_create_frame(body: bytes, *, sent: Sequence[bytes], previous: str | None) -> tuple[bytes, tuple[bytes, ...]]:
    fields = split_object(body) or {}
    items = tuple(split_list(fields.get("input", b"null")) or ())
    if previous is not None and len(items) > len(sent) and items[: len(sent)] == sent:
        fields |= {"input": join_list(items[len(sent) :]), PREVIOUS: encode(previous)}
    return join_object({"type": b'"response.create"', **fields}), items


def make_empty_answer(answer: Answer) -> list[bytes]:
    return EventReader().feed(render_empty_stream(answer))


def make_event(data: bytes, *, stream: str | None) -> bytes:
    if stream is None or not data.startswith(b"{"):
        return data
    return b'{"stream_id":' + encode(stream) + b"," + data[1:]


def make_error(status: int, error: object, *, stream: str | None) -> bytes:
    return make_event(encode({"type": "error", "status": status, "error": error}), stream=stream)


def make_steer_event(outcome: str, steer: Mapping[str, object], *, stream: str | None, **more: object) -> bytes:
    return make_event(encode({"type": f"response.steer.{outcome}", "steer": steer, **more}), stream=stream)


def list_required(items: Sequence[Item], calls: Sequence[str]) -> list[dict[str, object]]:
    read = [read_object(item.raw) or {} for item in items]
    waiting = [fields for fields in read if fields.get("call_id", fields.get("id")) in calls]
    return [
        {"type": f"{fields.get('type')}_output", "call_id": fields.get("call_id", fields.get("id")), "name": fields.get("name")}
        for fields in waiting
    ]


def _read_header_name(name: str) -> str:
    return name.removeprefix(HEADER_MARK).replace("_", "-") if name.startswith(HEADER_MARK) else name
