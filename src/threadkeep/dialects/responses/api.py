"""OpenAI's Responses endpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import msgspec

from threadkeep.dialects.api import Api, CompactionService, Continuation, Frames, MessageMerger, ProviderCompaction
from threadkeep.dialects.prompt_cache import OpenAIPromptCache
from threadkeep.dialects.raw_json import encode_value, read_object, read_value
from threadkeep.dialects.responses import client_translation as plain_form
from threadkeep.dialects.responses import compaction as provider_compaction
from threadkeep.dialects.responses import compaction_service as service
from threadkeep.dialects.responses import continuation as resumed
from threadkeep.dialects.responses import frames as socket_frames
from threadkeep.dialects.responses import message_merger
from threadkeep.dialects.responses.item_views import read_view
from threadkeep.dialects.translation import ClientForm
from threadkeep.dialects.values import Endpoints, Request
from threadkeep.items import Item, ToolCall

BOUND: Final = "max_output_tokens"
# OpenAI refuses a request for encrypted reasoning to a model that does not reason.
UNREASONING: Final = re.compile(r"(?:ft:)?(?:gpt-[34]|chatgpt)")


class ResponsesApi(Api):
    """See `threadkeep.dialects.api.Api`."""

    endpoints = Endpoints(provider="openai", turn="/responses", others=("/responses/compact", resumed.CONVERSATIONS))
    head_fields = ("model", "instructions", "tools")
    delivery_fields = ("model", "stream", "store", BOUND)
    prompt_cache = OpenAIPromptCache(text_kind=b"input_text")
    compaction: ClassVar[ProviderCompaction | None] = provider_compaction
    merger: ClassVar[MessageMerger | None] = message_merger
    continuation: ClassVar[Continuation | None] = resumed
    frames: ClassVar[Frames | None] = socket_frames
    compaction_service: ClassVar[CompactionService | None] = service
    client_form: ClassVar[ClientForm | None] = plain_form

    def add_instructions(self, request: Request, text: str) -> Request:
        # Some providers accept `instructions` from known clients only as those wrote them.
        message = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}
        return replace(request, head=(*request.head, Item(msgspec.json.encode(message))))

    def find_instructions(self, request: Request) -> str:
        instructions = read_value(request.fields.get("instructions", b"null"))
        if isinstance(instructions, str) and instructions:
            return instructions
        return next((text for item in request.head if (text := read_view(read_object(item.raw) or {}).text)), "")

    def is_side_request(self, request: Request, *, path: str) -> bool:
        last = read_object(request.items[-1].raw) if request.items else None
        return path in self.endpoints.others or (last or {}).get("type") == provider_compaction.TRIGGER

    def address_request(self, request: Request, *, model: str) -> Request:
        # What the provider does not keep comes back with its encrypted content, and goes out with it.
        unkept = {name: raw for name, raw in provider_compaction.UNKEPT.items() if name not in request.fields}
        if UNREASONING.match(model):
            unkept.pop("include", None)
        request = replace(request, fields={**request.fields, **unkept})
        if request.fields["store"] == b"false":
            request = replace(request, items=provider_compaction.drop_stored(request.items))
        return super().address_request(request, model=model)

    def limit_answer(self, request: Request, *, tokens: int) -> Request:
        return replace(request, fields={BOUND: str(tokens).encode(), **request.fields})

    def define_tool(self, *, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "function", "name": name, "description": description, "parameters": dict(parameters)}

    def make_calls(self, calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        said = [{"type": "message", "role": "assistant", "content": content}] if text else []
        made = ({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments} for call in calls)
        return [Item(encode_value(value)) for value in (*said, *made)]

    def make_output(self, call: ToolCall, text: str, *, is_error: bool = False) -> Item:
        return Item(encode_value({"type": "function_call_output", "call_id": call.id, "output": text}))
