"""Google's Gemini API: this module is the dialect's `Api`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs

import msgspec

from threadkeep.dialects.api import BoundThinking, CacheMarkers, Continuation, MessageMerger, PromptCache
from threadkeep.dialects.gemini.hidden_tool import GeminiHiddenTool
from threadkeep.dialects.gemini.parts import list_parts
from threadkeep.dialects.raw_json import join_list, join_object, read_object, split_list, split_object
from threadkeep.dialects.request_parts import copy_fields
from threadkeep.dialects.values import AnswerForm, Endpoints, Request, Target
from threadkeep.items import Item

STREAM: Final = ":streamGenerateContent"
COUNT: Final = ":countTokens"

endpoints: Final = Endpoints(
    provider="gemini",
    turn="/models/{model}:generateContent",
    others=(f"/models/{{model}}{STREAM}", f"/models/{{model}}{COUNT}"),
    models="/models/{model}",
    id_prefix="",
    mount="/v1beta",
    is_mount_added=True,
    key_header="x-goog-api-key",
    key_query="key",
)
head_fields: Final = ("systemInstruction", "system_instruction", "tools")
# A signature belongs to its own call, not to what stands before it.
thinking: BoundThinking | None = None
cache_markers: CacheMarkers | None = None
prompt_cache: PromptCache | None = None
merger: MessageMerger | None = None
continuation: Continuation | None = None
compaction_headers: Final[Mapping[str, str]] = {}
make_hidden_tool = GeminiHiddenTool

INSTRUCTION: Final = ("systemInstruction", "system_instruction")
DELIVERY: Final = ("safetySettings",)


def read_target(fields: Mapping[str, bytes], *, path: str, query: str) -> Target:
    model, _, method = path.removeprefix("/models/").partition(":")
    form: AnswerForm = "whole"
    if f":{method}" == STREAM:
        form = "events" if "sse" in parse_qs(query).get("alt", []) else "list"
    return Target(model=model, form=form)


def add_instructions(request: Request, text: str) -> Request:
    """Add a part to the system instruction."""
    field = next((name for name in INSTRUCTION if name in request.fields), INSTRUCTION[0])
    own = split_object(request.fields.get(field, b"{}")) or {}
    parts = join_list([*(split_list(own.get("parts", b"[]")) or ()), msgspec.json.encode({"text": text})])
    return replace(request, fields={**request.fields, field: join_object({**own, "parts": parts})})


def find_instructions(request: Request) -> str:
    contents = (read_object(request.fields.get(name, b"null")) or {} for name in INSTRUCTION)
    texts = (part.get("text") for content in contents for part in list_parts(content) or [])
    return next((text for text in texts if isinstance(text, str)), "")


def is_side_request(request: Request, *, path: str) -> bool:
    return path.endswith(COUNT)


def copy_delivery(request: Request, client: Request) -> Request:
    return copy_fields(request, client, names=DELIVERY)


def headers_for(items: Sequence[Item]) -> Mapping[str, str]:
    return {}
