"""What threadkeep sees in a message."""

from __future__ import annotations

from collections.abc import Iterable

from threadkeep.dialects.host_markers import REMINDER, WORLD
from threadkeep.dialects.host_text import UserText, find_passed_on, name_instructions, split_host_text
from threadkeep.dialects.messages import blocks as reading
from threadkeep.dialects.messages.blocks import THINKING, collect_words, is_known, is_result, is_use, read_text_field
from threadkeep.dialects.raw_json import Json, render_json
from threadkeep.items import ItemKind, Role, ToolCall, ToolOutput, View

ATTACHMENTS = frozenset({"image", "document", "search_result", "container_upload"})
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}


def read_view(fields: Json) -> View:
    """Return what is known about a message; an unknown role or content is `OPAQUE`."""
    role = _ROLES.get(read_text_field(fields, "role"))
    blocks = reading.list_blocks(fields.get("content"))
    if role is None or blocks is None:
        return View(kind=ItemKind.OPAQUE, role=role or Role.ASSISTANT)
    if role is Role.SYSTEM:
        return _by_system(blocks)
    if role is Role.ASSISTANT:
        return _by_model(blocks)
    if any(_is_client_result(block) for block in blocks):
        return _output(blocks)
    return _by_user(blocks)


def _by_system(blocks: list[Json]) -> View:
    """Return the view of a system message within the history: the client's world, or a person it passes on."""
    text = _joined(collect_words(block) for block in blocks)
    said = find_passed_on(text.strip().removeprefix(f"<{REMINDER}>").removesuffix(f"</{REMINDER}>"))
    return View(
        kind=ItemKind.MESSAGE,
        role=Role.SYSTEM,
        text=text,
        images=_images(blocks),
        by_person=bool(said),
        said=said,
        context=None if said else name_instructions((text,), known=WORLD.items()),
    )


def _output(blocks: list[Json]) -> View:
    results = [_read_result(block) for block in blocks if _is_client_result(block)]
    said = _heard(blocks).said
    return View(
        kind=ItemKind.OUTPUT,
        role=Role.TOOL,
        text=_joined(output.text for output in results),
        closes=tuple(output.call_id for output in results if output.call_id),
        outputs=tuple(output for output in results if output.call_id),
        images=_images(blocks),
        by_person=bool(said),
        said=said,
    )


def _read_result(block: Json) -> ToolOutput:
    flag = block.get("is_error")
    return ToolOutput(
        call_id=read_text_field(block, "tool_use_id"),
        text=collect_words(block.get("content")),
        is_error=flag if isinstance(flag, bool) else None,
    )


def _by_user(blocks: list[Json]) -> View:
    """Return the view of a message in the user's role; what it attaches without a word was attached by a person."""
    heard = _heard(blocks)
    return View(
        kind=ItemKind.MESSAGE if _is_readable(blocks) else ItemKind.OPAQUE,
        role=Role.USER,
        text=_joined(collect_words(block) for block in blocks),
        images=_images(blocks),
        by_person=bool(heard.said) or any(read_text_field(block, "type") in ATTACHMENTS for block in blocks),
        said=heard.said,
        context=heard.section,
    )


def _by_model(blocks: list[Json]) -> View:
    """Return the view of an answer.

    A tool of the provider's is answered by the provider, within the message or in its next one; only in the latter case does the
    message open the call, and the next one close it, so that no cut comes between them.
    """
    uses = [block for block in blocks if is_use(block)]
    results = [block for block in blocks if is_result(block)]
    used = {read_text_field(block, "id") for block in uses}
    returned = {read_text_field(block, "tool_use_id") for block in results}
    waiting = [block for block in uses if read_text_field(block, "id") not in returned]
    thoughts = [block for block in blocks if read_text_field(block, "type") in THINKING]
    if thoughts and len(thoughts) == len(blocks):
        text = _joined(read_text_field(block, "thinking") for block in thoughts)
        return View(kind=ItemKind.REASONING, role=Role.ASSISTANT, text=text)
    kind = ItemKind.MESSAGE if _is_readable(blocks) else ItemKind.OPAQUE
    return View(
        kind=ItemKind.CALL if waiting else kind,
        role=Role.ASSISTANT,
        text=_answer_text(blocks, uses=uses, results=results),
        words=_words(blocks) if waiting else "",
        opens=tuple(call_id for block in waiting if (call_id := read_text_field(block, "id"))),
        closes=tuple(call_id for block in results if (call_id := read_text_field(block, "tool_use_id")) and call_id not in used),
        tool=read_text_field(waiting[0], "name") or None if waiting else None,
        calls=tuple(_read_call(block) for block in waiting if block.get("type") == "tool_use" and read_text_field(block, "id")),
        images=_images(blocks),
    )


def _read_call(block: Json) -> ToolCall:
    name, given = read_text_field(block, "name"), block.get("input")
    return ToolCall(id=read_text_field(block, "id"), name=name, arguments=given if isinstance(given, str) else render_json(given))


def _answer_text(blocks: list[Json], *, uses: list[Json], results: list[Json]) -> str:
    """Return what the model said, then what it called tools with, then what the provider's own tools returned."""
    return _joined(
        (
            _words(blocks),
            *(render_json(block.get("input")) for block in uses),
            *(collect_words(block.get("content")) for block in results),
        )
    )


def _words(blocks: list[Json]) -> str:
    """Return what the model said, without what it thought, called or was returned."""
    said = (
        block for block in blocks if read_text_field(block, "type") not in THINKING and not is_use(block) and not is_result(block)
    )
    return _joined(collect_words(block) for block in said)


def _is_client_result(block: Json) -> bool:
    return block.get("type") == "tool_result"


def _is_readable(blocks: list[Json]) -> bool:
    return not blocks or any(is_known(block) for block in blocks)


def _heard(blocks: list[Json]) -> UserText:
    texts = [read_text_field(block, "text") for block in blocks if block.get("type") == "text"]
    return split_host_text(texts, titled_reminders=False)


def _images(blocks: list[Json]) -> int:
    return sum(reading.images(block) for block in blocks)


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(part for part in parts if part)
