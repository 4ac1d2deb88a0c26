"""What threadkeep sees in an item of the Responses API."""

from __future__ import annotations

from typing import Final

from threadkeep.dialects.host_text import name_instructions, split_host_text
from threadkeep.dialects.openai_parts import count_images, has_attachments, read_texts
from threadkeep.dialects.raw_json import Json, render_json
from threadkeep.items import ItemKind, Role, ToolCall, ToolOutput, View

# These run at the provider and carry their own result. Any other `*_call` with a call id waits for an output.
SERVER_CALLS: Final = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call", "mcp_list_tools"}
)
# An item of these types is known by its id where it has no call id.
NAMED_BY_ID: Final = frozenset({"item_reference", "mcp_approval_request", "local_shell_call", "local_shell_call_output"})
# Outputs of these types are lists of objects that have fields of their own for what was said.
TOLD_IN_FIELDS: Final = frozenset({"shell_call_output", "tool_search_output"})
ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM}
# Tools that a client sends as an item of its history; a role is optional there.
TOOLS_ITEM: Final = "additional_tools"
PAIRED_BY: Final = {"mcp_approval_response": "approval_request_id"} | dict.fromkeys(NAMED_BY_ID, "id")


def read_kind(fields: Json) -> str:
    """Return the type an item names; a role without a type makes a message."""
    kind = fields.get("type") or ("message" if "role" in fields else None)
    return kind if isinstance(kind, str) else ""


def read_view(fields: Json) -> View:
    """Return what is known about an item; an unknown type is `OPAQUE`."""
    kind = read_kind(fields)
    if kind == "message":
        return _message(fields)
    if kind == "agent_message":
        return _between_agents(fields)
    if kind == "reasoning":
        return View(kind=ItemKind.REASONING, role=Role.ASSISTANT, text="\n".join(read_texts(fields.get("summary"))))
    if kind in SERVER_CALLS:
        return View(kind=ItemKind.CALL, role=Role.ASSISTANT, text=render_json(fields), tool=kind)
    if kind.endswith("_output") or kind == "mcp_approval_response":
        return _output(fields)
    if kind.endswith("_call") or kind == "mcp_approval_request":
        return _call(fields)
    if kind == TOOLS_ITEM or ROLES.get(str(fields.get("role"))) is Role.SYSTEM:
        return _instructions(fields)
    return View(kind=ItemKind.OPAQUE, role=Role.ASSISTANT)


def _message(fields: Json) -> View:
    role = ROLES.get(str(fields.get("role")), Role.ASSISTANT)
    content = fields.get("content")
    texts = read_texts(content)
    text = "\n".join(texts)
    images = count_images(content)
    if role is Role.SYSTEM:
        return View(kind=ItemKind.MESSAGE, role=role, text=text, images=images, context=name_instructions(texts))
    if role is Role.ASSISTANT:
        return View(kind=ItemKind.MESSAGE, role=role, text=text, images=images)
    heard = split_host_text(texts, titled_reminders=True)
    return View(
        kind=ItemKind.MESSAGE,
        role=role,
        text=text,
        images=images,
        by_person=bool(heard.said) or has_attachments(content),
        said=heard.said,
        context=heard.section,
    )


def _instructions(fields: Json) -> View:
    """Return the view of tools, or of another item in the developer's role: each is a section of its own and must stay."""
    told = render_json({name: value for name, value in fields.items() if name != "id"})
    return View(kind=ItemKind.OPAQUE, role=Role.SYSTEM, context=name_instructions([told]))


def _between_agents(fields: Json) -> View:
    """Return what one agent wrote to another; from above it is a task, from below or beside a report or a question."""
    author, recipient, content = (fields.get(name) for name in ("author", "recipient", "content"))
    from_above = isinstance(author, str) and isinstance(recipient, str) and recipient.startswith(f"{author}/")
    text = "\n".join(read_texts(content))
    return View(kind=ItemKind.MESSAGE, role=Role.USER, text=text, images=count_images(content), is_task=from_above)


def _call(fields: Json) -> View:
    payload = fields.get("arguments", fields.get("input", fields.get("action", fields.get("operation"))))
    text = payload if isinstance(payload, str) else render_json(payload)
    kind, opens = read_kind(fields), _pair(fields)
    tool = str(fields.get("name") or kind)
    calls = (ToolCall(id=call_id, name=tool, arguments=text) for call_id in opens if kind.endswith("_call"))
    return View(kind=ItemKind.CALL, role=Role.ASSISTANT, text=text, opens=opens, tool=tool, calls=tuple(calls))


def _output(fields: Json) -> View:
    payload = fields.get("output", fields.get("tools"))
    told_in_parts = isinstance(payload, (str, list)) and read_kind(fields) not in TOLD_IN_FIELDS
    text = "\n".join(read_texts(payload)) if told_in_parts else render_json(payload)
    closes = _pair(fields)
    success = payload.get("success") if isinstance(payload, dict) else None
    is_error = True if fields.get("status") == "failed" else not success if isinstance(success, bool) else None
    return View(
        kind=ItemKind.OUTPUT,
        role=Role.TOOL,
        text=text,
        closes=closes,
        outputs=tuple(ToolOutput(call_id=call_id, text=text, is_error=is_error) for call_id in closes),
        images=count_images(payload),
    )


def _pair(fields: Json) -> tuple[str, ...]:
    """Return the id that ties a call to its output: its call id, or what this type has in its place."""
    name = fields.get("call_id") or fields.get(PAIRED_BY.get(read_kind(fields), ""))
    return (name,) if isinstance(name, str) and name else ()
