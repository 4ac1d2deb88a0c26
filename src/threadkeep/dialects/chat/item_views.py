"""What threadkeep sees in a chat message."""

from __future__ import annotations

from typing import Final

import msgspec

from threadkeep.dialects.host_text import name_instructions, split_host_text
from threadkeep.dialects.openai_parts import count_images, has_attachments, is_thought, read_texts
from threadkeep.dialects.raw_json import Json, decode, read_object, render_json
from threadkeep.items import Item, ItemKind, Role, ToolCall, ToolOutput, View

INSTRUCTIONS: Final = frozenset({"system", "developer"})
OUTPUTS: Final = frozenset({"tool", "function"})
# Where servers put what the model thought, beside or instead of what it said.
THOUGHTS: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")


class _Role(msgspec.Struct):
    role: str = ""


_ROLE = msgspec.json.Decoder(_Role)


def read_role(item: Item) -> str:
    """Return the role an item names; empty where it names none."""
    if (message := decode(_ROLE, item.raw)) is not None:
        return message.role
    role = (read_object(item.raw) or {}).get("role")
    return role if isinstance(role, str) else ""


def read_view(fields: Json) -> View:
    """Return what is known about a message; an unknown role or content is `OPAQUE`."""
    match fields.get("role"):
        case "assistant":
            return _assistant(fields)
        case "user":
            return _user(fields.get("content"))
        case "tool" | "function":
            return _output(fields)
        case "system" | "developer":
            return _instructions(fields.get("content"))
        case _:
            return View(kind=ItemKind.OPAQUE, role=Role.ASSISTANT)


def _instructions(content: object) -> View:
    texts = read_texts(content)
    return View(
        kind=ItemKind.MESSAGE if _is_content(content) else ItemKind.OPAQUE,
        role=Role.SYSTEM,
        text="\n".join(texts),
        images=count_images(content),
        context=name_instructions(texts) if texts else None,
    )


def _user(content: object) -> View:
    if not _is_content(content):
        return View(kind=ItemKind.OPAQUE, role=Role.USER)
    texts = read_texts(content)
    heard = split_host_text(texts, titled_reminders=True)
    return View(
        kind=ItemKind.MESSAGE,
        role=Role.USER,
        text="\n".join(texts),
        images=count_images(content),
        by_person=bool(heard.said) or has_attachments(content),
        said=heard.said,
        context=heard.section,
    )


def _assistant(fields: Json) -> View:
    content = fields.get("content")
    calls = _calls(fields)
    if not _is_content(content) or (fields.get("tool_calls") and not calls):
        return View(kind=ItemKind.OPAQUE, role=Role.ASSISTANT)
    said = [*read_texts(content), *_spoken_elsewhere(fields)]
    if calls:
        return View(
            kind=ItemKind.CALL,
            role=Role.ASSISTANT,
            text="\n".join(text for text in (*said, *(call.arguments for call in calls)) if text),
            words="\n".join(text for text in said if text),
            # The old field has no id and no provider asks for its pair; by name, a first call would wait for the last output.
            opens=tuple(call.id for call in calls if call.id),
            tool=calls[0].name or None,
            calls=tuple(call for call in calls if call.id),
            images=count_images(content),
        )
    thoughts = _thoughts(fields)
    if thoughts is not None and not any(said) and not fields.get("audio") and not has_attachments(content):
        return View(kind=ItemKind.REASONING, role=Role.ASSISTANT, text=thoughts)
    return View(kind=ItemKind.MESSAGE, role=Role.ASSISTANT, text="\n".join(said), images=count_images(content))


def _output(fields: Json) -> View:
    content = fields.get("content")
    # SWE-agent names the calls of an output in a list of its own.
    listed = fields.get("tool_call_ids")
    named = [fields.get("tool_call_id"), *(listed if isinstance(listed, list) else ())]
    call_ids = tuple(dict.fromkeys(call_id for call_id in named if isinstance(call_id, str) and call_id))
    text = "\n".join(read_texts(content)) if _is_content(content) else render_json(content)
    return View(
        kind=ItemKind.OUTPUT,
        role=Role.TOOL,
        text=text,
        closes=call_ids,
        outputs=tuple(ToolOutput(call_id=call_id, text=text) for call_id in call_ids),
        images=count_images(content),
    )


def _calls(fields: Json) -> list[ToolCall]:
    """Return the calls of an assistant's message; one in the old `function_call` field has no id."""
    listed = fields.get("tool_calls")
    calls = [_call(entry) for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    legacy = fields.get("function_call")
    return [*calls, _called("", legacy)] if isinstance(legacy, dict) else calls


def _call(entry: Json) -> ToolCall:
    """Return a call of type `function`, `custom` or one yet unknown: each holds its own under its type's name."""
    call_id = entry.get("id")
    kind = entry.get("type")
    inner = entry.get(kind) if isinstance(kind, str) and kind in entry else entry.get("function", entry.get("custom"))
    return _called(call_id if isinstance(call_id, str) else "", inner if isinstance(inner, dict) else {})


def _called(call_id: str, inner: Json) -> ToolCall:
    name = inner.get("name")
    arguments = inner.get("arguments", inner.get("input"))
    return ToolCall(
        id=call_id,
        name=name if isinstance(name, str) else "",
        arguments=arguments if isinstance(arguments, str) else render_json(arguments),
    )


def _spoken_elsewhere(fields: Json) -> list[str]:
    """Return a refusal, and the transcript of spoken words."""
    audio = fields.get("audio")
    found = (fields.get("refusal"), audio.get("transcript") if isinstance(audio, dict) else None)
    return [text for text in found if isinstance(text, str) and text]


def _thoughts(fields: Json) -> str | None:
    """Return what the model thought, as far as it can be read; None where the message carries no thought at all."""
    content = fields.get("content")
    inside = [part for part in content if is_thought(part)] if isinstance(content, list) else []
    held = [fields[name] for name in THOUGHTS if fields.get(name)]
    if not held and not inside:
        return None
    texts = (text for value in (*held[:1], inside) for text in _thought_texts(value))
    return "\n".join(text for text in texts if text)


def _thought_texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return []
    fields = (part.get("text", part.get("summary", part.get("thinking"))) for part in value if isinstance(part, dict))
    return [text for field in fields for text in ([field] if isinstance(field, str) else read_texts(field))]


def _is_content(content: object) -> bool:
    return content is None or isinstance(content, (str, list))
