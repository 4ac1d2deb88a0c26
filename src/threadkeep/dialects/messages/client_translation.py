"""Requests and answers of the Messages API where the provider speaks another language: this module is the dialect's
`ClientForm`."""

from __future__ import annotations

from typing import Any, Final, cast

from threadkeep.dialects.messages.blocks import collect_words, list_blocks, read_text_field
from threadkeep.dialects.messages.replies import MessagesAnswerWriter
from threadkeep.dialects.raw_json import Json, read_object, read_value, render_json
from threadkeep.dialects.translation import (
    THOUGHT_SEAL,
    Image,
    Message,
    Output,
    PlainRequest,
    Tool,
    find_effort,
    list_dropped,
    make_wire_name,
    name_tools,
)
from threadkeep.dialects.values import UNREADABLE, Request
from threadkeep.items import ToolCall

KNOWN: Final = frozenset(
    {
        *("model", "messages", "system", "tools", "tool_choice", "max_tokens", "temperature", "top_p", "stop_sequences"),
        *("stream", "metadata", "thinking", "output_config", "output_format", "service_tier", "context_management"),
    }
)
CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
# The API demands a bound. A larger one bounds nothing, and servers that count it into the window would refuse the request.
MEANT_TOKENS: Final = 32_000
# Claude Code tells its provider about itself in front of the system prompt; it changes within a session.
BILLING: Final = "x-anthropic-billing-header:"


def read_request(request: Request) -> PlainRequest:
    fields = {name: read_value(raw) for name, raw in request.fields.items() if name != "messages"}
    told = [read_text_field(block, "text") for block in list_blocks(fields.get("system")) or ()]
    system = Message(role="system", content=tuple(text for text in told if not text.startswith(BILLING)))
    items = [each for item in (*request.head, *request.items) if (each := read_object(item.raw)) is not None]
    offered = [tool for tool in _as_list(fields.get("tools")) if isinstance(tool, dict)]
    tools = name_tools([_read_tool(tool) for tool in offered if isinstance(tool.get("input_schema"), dict)])
    hosted = [str(tool.get("type")) for tool in offered if not isinstance(tool.get("input_schema"), dict)]
    choice, output, limit = (
        _as_object(fields.get("tool_choice")),
        _as_object(fields.get("output_config")),
        fields.get("max_tokens"),
    )
    picked = make_wire_name(str(choice.get("name")))
    return PlainRequest(
        model=str(fields.get("model") or ""),
        is_streamed=fields.get("stream") is True,
        messages=(system, *(_read_message(item) for item in items)),
        tools=tools,
        tool_choice=(picked,) if picked in tools else CHOICES.get(str(choice.get("type"))),
        is_parallel=False if choice.get("disable_parallel_tool_use") is True else None,
        max_tokens=limit if isinstance(limit, int) and limit <= MEANT_TOKENS else None,
        temperature=fields.get("temperature"),
        top_p=fields.get("top_p"),
        stop=tuple(text for text in _as_list(fields.get("stop_sequences")) if isinstance(text, str)),
        effort=find_effort(output.get("effort")),
        schema=_read_schema(output.get("format") or fields.get("output_format")),
        shows_thoughts=_as_object(fields.get("thinking")).get("type") in ("enabled", "adaptive"),
        dropped=(*list_dropped(fields, known=KNOWN), *dict.fromkeys(hosted)),
    )


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _read_tool(tool: Json) -> Tool:
    return Tool(
        name=read_text_field(tool, "name"),
        description=read_text_field(tool, "description"),
        parameters=tool["input_schema"],
        is_strict=tool.get("strict") is True,
    )


def _read_schema(form: object) -> Json | None:
    schema = _as_object(form).get("schema")
    return {"name": "answer", "schema": schema, "strict": True} if isinstance(schema, dict) else None


def _read_message(message: Json) -> Message:
    role = message.get("role")
    blocks = list_blocks(message.get("content")) or []
    thoughts = [block for block in blocks if read_text_field(block, "signature").startswith(THOUGHT_SEAL)]
    text = "".join(read_text_field(block, "thinking") for block in thoughts)
    name = read_text_field(thoughts[0], "signature").removeprefix(THOUGHT_SEAL) if thoughts else ""
    return Message(
        role=cast(Any, role if role in ("system", "assistant") else "user"),
        content=tuple(part for block in blocks if (part := _read_block(block)) is not None),
        thought=(name, text) if thoughts else None,
        calls=tuple(_read_call(block) for block in blocks if block.get("type") == "tool_use"),
        outputs=tuple(_read_output(block) for block in blocks if block.get("type") == "tool_result"),
    )


def _read_call(block: Json) -> ToolCall:
    name = make_wire_name(read_text_field(block, "name"))
    return ToolCall(id=read_text_field(block, "id"), name=name, arguments=render_json(block.get("input")))


def _read_output(block: Json) -> Output:
    content = block.get("content")
    images = tuple(image for part in _as_list(content) if isinstance(image := _read_image(_as_object(part)), Image))
    return Output(call_id=read_text_field(block, "tool_use_id"), text=collect_words(content), images=images)


def _read_block(block: Json) -> str | Image | None:
    match block.get("type"):
        case "tool_use" | "tool_result" | "thinking" | "redacted_thinking":
            return None
        case "compaction":
            return collect_words(block.get("content")) or UNREADABLE
        case "document" if _as_object(block.get("source")).get("type") in ("base64", "file", "url"):
            return f"(a document that cannot be shown here: {read_text_field(block, 'title')})"
        case _:
            return _read_image(block) or collect_words(block)


def _read_image(block: Json) -> Image | None:
    source = _as_object(block.get("source"))
    if block.get("type") != "image":
        return None
    url = source.get("url")
    return Image(url=url if isinstance(url, str) else f"data:{source.get('media_type')};base64,{source.get('data')}")


make_writer = MessagesAnswerWriter
