"""The parts of a content: their names, the calls they make and answer, their signatures, and what threadkeep sees in them.

The API takes every field in camel case and in snake case. A call need not have an id: such calls are paired with their responses
by the function's name and by their order among those of that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from threadkeep.dialects.host_text import UserText, name_instructions, split_host_text
from threadkeep.dialects.raw_json import Json, render_json
from threadkeep.items import ItemKind, Role, ToolCall, ToolOutput, View

CAMEL: Final = {
    "code_execution_result": "codeExecutionResult",
    "display_name": "displayName",
    "executable_code": "executableCode",
    "file_data": "fileData",
    "file_uri": "fileUri",
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "mime_type": "mimeType",
    "thought_signature": "thoughtSignature",
    "video_metadata": "videoMetadata",
}
ROLES: Final = {"user": Role.USER, "function": Role.USER, "model": Role.ASSISTANT, "system": Role.SYSTEM}
SIGNATURE: Final = "thoughtSignature"
# What the API documents for a call whose signature cannot be had: the call is not checked for one.
UNSIGNED: Final = "skip_thought_signature_validator"
# What a part can hold besides text; any other part is unknown.
KINDS: Final = frozenset({"functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "codeExecutionResult"})
FILES: Final = ("inlineData", "fileData")
# A response is an object; these are the usual names of the one value in it.
RESPONSE_FIELDS: Final = ("output", "result", "error", "content")


def rename_fields(part: Json) -> Json:
    """Return an object with its fields in camel case."""
    return {CAMEL.get(name, name): value for name, value in part.items()}


def list_parts(content: Json) -> list[Json] | None:
    """Return the parts of a content with their fields in camel case; None where it has no list of objects."""
    parts = content.get("parts")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        return None
    return [rename_fields(part) for part in parts]


def read_role(content: Json) -> str:
    """Return the role of a content, which is the user's where it names none."""
    role = content.get("role", "user")
    return role if isinstance(role, str) else ""


def is_thought(part: Json) -> bool:
    return part.get("thought") is True


def number_pairs(parts: Iterable[Json], field: str) -> Iterator[tuple[str, Json]]:
    """Yield the calls, or the responses, of a content with what pairs them: their id, or else their name and order."""
    unnamed: Counter[str] = Counter()
    for part in parts:
        value = part.get(field)
        if not isinstance(value, dict):
            continue
        pair = value.get("id")
        if not isinstance(pair, str) or not pair:
            name = read_name(value)
            pair = f"{name}:{unnamed[name]}"
            unnamed[name] += 1
        yield pair, value


def read_name(value: Json) -> str:
    """Return the name of the function that is called, or that answers."""
    name = value.get("name")
    return name if isinstance(name, str) else ""


def read_response(value: Json) -> str:
    """Return what a function returned, as a reader would see it."""
    response = value.get("response")
    if isinstance(response, dict) and len(response) == 1:
        name, only = next(iter(response.items()))
        if name in RESPONSE_FIELDS and isinstance(only, str):
            return only
    return render_json(response)


def read_view(content: Json) -> View:
    """Return what is known about a content; an unknown role, or parts of unknown kinds alone, are `OPAQUE`."""
    role, parts = ROLES.get(read_role(content)), list_parts(content)
    if role is None or parts is None:
        return View(kind=ItemKind.OPAQUE, role=role or Role.ASSISTANT)
    match role:
        case Role.ASSISTANT:
            return _view_answer(parts)
        case Role.SYSTEM:
            texts = _texts(parts)
            return View(kind=ItemKind.MESSAGE, role=role, text="\n".join(texts), context=name_instructions(texts))
        case _:
            return _view_responses(parts) if any("functionResponse" in part for part in parts) else _view_message(parts)


def _view_message(parts: list[Json]) -> View:
    user = _split_user_text(parts)
    has_files = any(name in part for part in parts for name in FILES)
    return View(
        kind=_kind(parts),
        role=Role.USER,
        text="\n".join(_texts(parts)),
        images=_count_images(parts),
        by_person=bool(user.said) or has_files,
        said=user.said,
        context=user.section,
    )


def _view_responses(parts: list[Json]) -> View:
    responses = [_read_output(pair, value) for pair, value in number_pairs(parts, "functionResponse")]
    said = _split_user_text(parts).said
    return View(
        kind=ItemKind.OUTPUT,
        role=Role.TOOL,
        text="\n".join(output.text for output in responses if output.text),
        closes=tuple(output.call_id for output in responses),
        outputs=tuple(responses),
        images=_count_images(parts),
        by_person=bool(said),
        said=said,
    )


def _read_output(pair: str, value: Json) -> ToolOutput:
    response = value.get("response")
    is_error = True if isinstance(response, dict) and "error" in response else None
    return ToolOutput(call_id=pair, text=read_response(value), is_error=is_error)


def _view_answer(parts: list[Json]) -> View:
    pairs = number_pairs(parts, "functionCall")
    calls = [ToolCall(id=pair, name=read_name(value), arguments=render_json(value.get("args"))) for pair, value in pairs]
    words = "\n".join((*_texts(parts), *_run_code(parts)))
    if calls:
        return View(
            kind=ItemKind.CALL,
            role=Role.ASSISTANT,
            text="\n".join(text for text in (words, *(call.arguments for call in calls)) if text),
            words=words,
            opens=tuple(call.id for call in calls),
            tool=calls[0].name or None,
            calls=tuple(calls),
            images=_count_images(parts),
        )
    if parts and all(is_thought(part) or _is_signature(part) for part in parts):
        return View(kind=ItemKind.REASONING, role=Role.ASSISTANT, text="\n".join(_texts(parts, thoughts=True)))
    return View(kind=_kind(parts), role=Role.ASSISTANT, text=words, images=_count_images(parts))


def _kind(parts: list[Json]) -> ItemKind:
    known = not parts or any("text" in part or KINDS & part.keys() for part in parts)
    return ItemKind.MESSAGE if known else ItemKind.OPAQUE


def _is_signature(part: Json) -> bool:
    """Whether a part holds a signature and nothing to read."""
    return SIGNATURE in part and not part.get("text") and not KINDS & part.keys()


def _texts(parts: list[Json], *, thoughts: bool = False) -> list[str]:
    texts = (part.get("text") for part in parts if is_thought(part) is thoughts)
    return [text for text in texts if isinstance(text, str) and text]


def _run_code(parts: list[Json]) -> list[str]:
    """Return the code that the provider ran, and what came of it."""
    blocks = [(part.get("executableCode"), part.get("codeExecutionResult")) for part in parts]
    found = [(block.get("code"), block.get("output")) for pair in blocks for block in pair if isinstance(block, dict)]
    return [text for pair in found for text in pair if isinstance(text, str) and text]


def _split_user_text(parts: list[Json]) -> UserText:
    return split_host_text(_texts(parts), titled_reminders=True)


def _count_images(parts: list[Json]) -> int:
    nested = [rename_fields(inner) for part in parts for inner in _inner_parts(part)]
    files = [part.get(name) for part in (*parts, *nested) for name in FILES]
    kinds = [str(rename_fields(file).get("mimeType")) for file in files if isinstance(file, dict)]
    return sum(kind.startswith("image/") for kind in kinds)


def _inner_parts(part: Json) -> list[Json]:
    response = part.get("functionResponse")
    inner = response.get("parts") if isinstance(response, dict) else None
    return [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else []
