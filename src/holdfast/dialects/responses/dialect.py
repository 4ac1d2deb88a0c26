"""Items and requests of the OpenAI Responses API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from holdfast.dialects.base import Request
from holdfast.dialects.responses.fragments import instruction_section, is_hosts, own_words, world_section
from holdfast.dialects.responses.wire import ResponsesWire
from holdfast.errors import InvalidItem
from holdfast.items import Item, ItemKind, Role, View, is_json, mended

# These run at the provider and carry their own result. Any other `*_call` with a call id waits for an output.
SERVER_CALLS: Final = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call", "mcp_list_tools"}
)
TEXT_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
NAMED_BY_ID: Final = frozenset({"item_reference", "mcp_approval_request", "local_shell_call", "local_shell_call_output"})
VOLATILE: Final = frozenset({"id", "status", "cache_control"})
ROLES: Final = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
}

# Decimals keep 1.0, 1.00 and numbers beyond a float apart: two spellings may share a canonical form, two values never.
_decoder = msgspec.json.Decoder(float_hook=Decimal)
_canonical_encoder = msgspec.json.Encoder(order="sorted", decimal_format="number")
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])

Json = dict[str, Any]


class ResponsesDialect:
    """The Responses wire language; see `holdfast.dialects.base.Dialect` for the contract."""

    name = "responses"
    wire = ResponsesWire()

    def parse(self, value: object) -> Item:
        if not isinstance(value, Mapping):
            raise InvalidItem(dialect=self.name, reason=f"a JSON object was expected, not {type(value).__name__}")
        try:
            if not is_json(value):
                raise InvalidItem(dialect=self.name, reason="it holds something JSON cannot say")
            return Item(msgspec.json.encode(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidItem(dialect=self.name, reason=str(error)) from error

    def view(self, item: Item) -> View:
        fields = _decoded(mended(item.raw))
        if fields is None:
            return View(kind=ItemKind.OPAQUE, role=Role.ASSISTANT)
        kind = _kind(fields)
        if kind == "message":
            return _message(fields)
        if kind == "reasoning":
            return View(kind=ItemKind.REASONING, role=Role.ASSISTANT, text=_text(fields.get("summary")))
        if kind in SERVER_CALLS:
            return View(kind=ItemKind.CALL, role=Role.ASSISTANT, text=_json_text(fields), tool=kind)
        if kind.endswith("_output") or kind == "mcp_approval_response":
            return _output(fields, kind)
        if kind.endswith("_call") or kind == "mcp_approval_request":
            return _call(fields, kind)
        return View(kind=ItemKind.OPAQUE, role=Role.ASSISTANT)

    def canonical(self, item: Item) -> bytes:
        fields = _decoded(item.raw)
        if fields is None:
            return item.raw
        dropped = VOLATILE - {"id"} if _is_named_by_id(fields) else VOLATILE
        kept = {name: value for name, value in fields.items() if name not in dropped}
        if kept.get("type") == "reasoning" and not kept.get("content"):
            kept.pop("content", None)
        if "role" in kept:
            kept.setdefault("type", "message")
            kept["content"] = _canonical_content(kept.get("content"), role=kept["role"])
        return _canonical_encoder.encode(kept)

    def split(self, body: bytes) -> Request | None:
        try:
            fields = {name: bytes(raw) for name, raw in _fields_decoder.decode(body).items()}
            if any(fields.get(name, b"null") != b"null" for name in ("previous_response_id", "conversation")):
                return None
            items = _input_items(fields["input"])
        except (KeyError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return None
        if items is None:
            return None
        head = 0
        while head < len(items) and self.view(items[head]).role is Role.SYSTEM:
            head += 1
        return Request(fields=fields, head=tuple(items[:head]), items=tuple(items[head:]))

    def join(self, request: Request, items: Sequence[Item]) -> bytes:
        history = b"[" + b",".join(item.raw for item in (*request.head, *items)) + b"]"
        return _object({**request.fields, "input": history})

    def state_item(self, text: str) -> Item:
        return self.parse({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})

    def with_output(self, item: Item, text: str) -> Item | None:
        fields = _decoded(mended(item.raw))
        if fields is None or _kind(fields) not in TEXT_OUTPUTS:
            return None
        raw = {name: bytes(value) for name, value in _fields_decoder.decode(item.raw).items()}
        return Item(_object({**raw, "output": msgspec.json.encode(text)}))

    def arrange(self, items: Sequence[Item]) -> list[Item]:
        return list(items)


RESPONSES: Final = ResponsesDialect()


def _decoded(raw: bytes) -> Json | None:
    """Return an item's fields, or None for bytes that only a provider may understand."""
    try:
        value = _decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ArithmeticError):
        return None
    return value if isinstance(value, dict) else None


def _kind(fields: Json) -> str:
    kind = fields.get("type") or ("message" if "role" in fields else None)
    return kind if isinstance(kind, str) else ""


def _is_named_by_id(fields: Json) -> bool:
    """Whether an item's id is what it says, not a name somebody gave it."""
    return "call_id" not in fields and _kind(fields) in NAMED_BY_ID


def _input_items(raw: bytes) -> list[Item] | None:
    """Return the items of an `input` field: a list of objects, or a string that stands for one user message."""
    if raw.startswith(b'"'):
        content = b'{"type":"message","role":"user","content":[{"type":"input_text","text":' + raw + b"}]}"
        return [Item(content)]
    items = [Item(bytes(value)) for value in _list_decoder.decode(raw)]
    return items if all(item.raw.startswith(b"{") for item in items) else None


def _object(fields: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + raw for name, raw in fields.items()) + b"}"


def _message(fields: Json) -> View:
    role = ROLES.get(str(fields.get("role")), Role.ASSISTANT)
    texts = _texts(fields.get("content"))
    text = "\n".join(texts)
    images = _images(fields.get("content"))
    if role is Role.SYSTEM:
        return View(kind=ItemKind.MESSAGE, role=role, text=text, images=images, context=instruction_section(texts))
    if role is Role.USER:
        persons = [part for part in texts if not is_hosts(part)]
        return View(
            kind=ItemKind.MESSAGE,
            role=role,
            text=text,
            images=images,
            context=next((found for part in texts if (found := world_section(part))), None),
            by_person=bool(persons) or not texts,
            said=own_words("\n".join(persons)),
        )
    return View(kind=ItemKind.MESSAGE, role=role, text=text, images=images)


def _call(fields: Json, kind: str) -> View:
    payload = fields.get("arguments", fields.get("input", fields.get("action", fields.get("operation"))))
    return View(
        kind=ItemKind.CALL,
        role=Role.ASSISTANT,
        text=payload if isinstance(payload, str) else _json_text(payload),
        opens=_pair(fields, "id" if kind in NAMED_BY_ID else None),
        tool=str(fields.get("name") or kind),
    )


def _output(fields: Json, kind: str) -> View:
    payload = fields.get("output", fields.get("tools"))
    other = {"mcp_approval_response": "approval_request_id", "local_shell_call_output": "id"}.get(kind)
    return View(
        kind=ItemKind.OUTPUT,
        role=Role.TOOL,
        text=_text(payload) if isinstance(payload, (str, list)) else _json_text(payload),
        closes=_pair(fields, other),
        images=_images(payload),
    )


def _pair(fields: Json, other: str | None) -> tuple[str, ...]:
    """Return the id that ties a call to its output: its call id, or what this type has in its place."""
    name = fields.get("call_id") or (fields.get(other) if other else None)
    return (name,) if isinstance(name, str) and name else ()


def _texts(content: object) -> tuple[str, ...]:
    """Return the text of each part that has any."""
    if isinstance(content, str):
        return (content,)
    if not isinstance(content, list):
        return ()
    parts = (part.get("text", part.get("refusal")) for part in content if isinstance(part, dict))
    return tuple(text for text in parts if isinstance(text, str))


def _text(content: object) -> str:
    return "\n".join(_texts(content))


def _json_text(value: object) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()


def _images(content: object) -> int:
    if not isinstance(content, list):
        return 0
    return sum(1 for part in content if isinstance(part, dict) and "image" in str(part.get("type")))


def _canonical_content(content: object, *, role: object) -> object:
    """Return message content as a list of parts without what providers add or leave out at will."""
    if isinstance(content, str):
        return [{"type": "output_text" if role == "assistant" else "input_text", "text": content}]
    if not isinstance(content, list):
        return content
    return [
        {name: value for name, value in part.items() if name != "cache_control" and not _is_filler(name, value)}
        if isinstance(part, dict)
        else part
        for part in content
    ]


def _is_filler(name: str, value: object) -> bool:
    return name in ("annotations", "logprobs") and value == []
