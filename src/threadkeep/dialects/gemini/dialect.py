"""Contents and requests of Gemini's `generateContent`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final

import msgspec

from threadkeep.dialects.base import Dialect, Wire, compose_request
from threadkeep.dialects.gemini import replies
from threadkeep.dialects.gemini.api import GeminiApi, make_response, merge_declarations, read_call
from threadkeep.dialects.gemini.parts import (
    CAMEL,
    ROLES,
    SIGNATURE,
    UNSIGNED,
    is_thought,
    list_parts,
    number_pairs,
    read_role,
    read_view,
    rename_fields,
)
from threadkeep.dialects.raw_json import (
    Json,
    encode_value,
    join_list,
    join_object,
    read_object,
    read_value,
    split_list,
    split_object,
)
from threadkeep.dialects.values import ABORTED, Request
from threadkeep.items import Item, ItemKind, Role, View

# Base64 comes in two alphabets, with and without padding.
BINARY: Final = frozenset({SIGNATURE, "data"})
_alphabet: Final = str.maketrans("-_", "+/")


class GeminiDialect(Dialect):
    """The language of `generateContent`; see `threadkeep.dialects.base.Dialect` for the contract.

    An item is one content. The system instruction and the tools are fields of the request and never touched.
    """

    name = "gemini"
    history_field = "contents"
    wire: ClassVar[Wire] = replies
    api = GeminiApi()
    parts_field = "parts"
    held_elsewhere = ("cachedContent", "cached_content")
    opens_with_user = True
    sealed_marks = (b"thoughtSignature", b"thought_signature")

    def read_view(self, fields: Json) -> View:
        return read_view(fields)

    def normalise(self, fields: Json) -> Json:
        return _normalise(fields)

    def compose(self, *, system: str | None, tools: Sequence[Mapping[str, Any]], cache_key: str | None) -> Request:
        merged = [msgspec.Raw(tool) for tool in merge_declarations([encode_value(tool) for tool in tools])]
        instruction = {"parts": [{"text": system}]} if system else None
        return compose_request({"systemInstruction": instruction, "tools": merged})

    def recognises(self, item: Item) -> bool:
        content = read_object(item.raw) or {}
        return list_parts(content) is not None and read_role(content) in ROLES

    def make_user_message(self, text: str) -> Item:
        return self.parse({"role": "user", "parts": [{"text": text}]})

    def replace_output(self, item: Item, text: str) -> Item | None:
        if self.view(item).kind is not ItemKind.OUTPUT:
            return None
        return _map_parts(item, lambda part: _replace_response(part, text))

    def abort_calls(self, item: Item, calls: Collection[str]) -> list[Item]:
        opened = number_pairs(list_parts(read_object(item.raw) or {}) or [], "functionCall")
        made = [read_call(value) for pair, value in opened if pair in calls]
        responses = [make_response(call, ABORTED, field="error") for call in made]
        return [self.parse({"role": "user", "parts": responses})] if responses else []

    def make_erased_call(self, outputs: Sequence[tuple[str, Item]]) -> Item | None:
        wanted = {pair for pair, _ in outputs}
        parts = [part for _, item in outputs for part in list_parts(read_object(item.raw) or {}) or []]
        answered = {pair: value for pair, value in number_pairs(parts, "functionResponse") if pair in wanted}
        made = [read_call(value) for value in answered.values()]
        return self.api.make_calls(made)[0] if made else None

    def remove_sealed(self, item: Item) -> Item | None:
        content = split_object(item.raw) or {}
        parts = split_list(content.get("parts", b"null")) or []
        kept = _unsign(parts)
        if kept == parts:
            return item
        return Item(join_object({**content, "parts": join_list(kept)})) if kept else None

    def blank_item(self, item: Item, text: str) -> Item | None:
        content = read_object(item.raw) or {}
        kept = [blank for part in list_parts(content) or [] if (blank := _blank_part(part, text)) is not None]
        return self.parse({"role": read_role(content), "parts": kept or [{"text": text}]})

    def arrange(self, items: Sequence[Item]) -> list[Item]:
        """Make neighbours of one role one content: the API wants the roles to alternate, and all responses of a turn together."""
        arranged: list[Item] = []
        for role, run in groupby(items, key=_mergeable_role):
            contents = list(run)
            arranged.extend([_merge_contents(contents)] if role is not None and len(contents) > 1 else contents)
        return arranged


GEMINI: Final = GeminiDialect()


def _normalise(content: Json) -> Json:
    """Return a content in one spelling: camel case, its role named, base64 in one alphabet."""
    kept = {name: value for name, value in content.items() if name != "parts"}
    parts = content.get("parts")
    if "role" not in kept:
        kept["role"] = "user"
    if not isinstance(parts, list):
        return {**kept, "parts": parts} if "parts" in content else kept
    return {**kept, "parts": [_canonical_value(part) for part in parts]}


def _canonical_value(value: object, *, name: str = "") -> object:
    if isinstance(value, dict):
        # What a function is called with and what it returns is the user's own.
        if name in ("args", "response"):
            return value
        return {_canonical_name(key, value): _canonical_value(each, name=_canonical_name(key, {})) for key, each in value.items()}
    if isinstance(value, list):
        return [_canonical_value(each) for each in value]
    return value.translate(_alphabet).rstrip("=") if isinstance(value, str) and name in BINARY else value


def _canonical_name(name: str, fields: Json) -> str:
    """Return a field's name in camel case, unless the object holds both spellings."""
    camel = CAMEL.get(name, name)
    return name if camel in fields else camel


def _map_parts(item: Item, change: Callable[[bytes], bytes]) -> Item:
    content = split_object(item.raw) or {}
    return Item(join_object({**content, "parts": join_list(change(part) for part in split_list(content["parts"]) or ())}))


def _camel_fields(part: bytes) -> dict[str, str]:
    """Return the names of a part's fields as they are spelled, by their name in camel case."""
    return {CAMEL.get(name, name): name for name in split_object(part) or {}}


def _replace_response(part: bytes, text: str) -> bytes:
    field = _camel_fields(part).get("functionResponse")
    fields = split_object(part) or {}
    response = split_object(fields[field]) if field else None
    if field is None or response is None:
        return part
    kept = {name: raw for name, raw in response.items() if name != "parts"}
    return join_object({**fields, field: join_object({**kept, "response": msgspec.json.encode({"output": text})})})


def _unsign(parts: Sequence[bytes]) -> list[bytes]:
    """Remove signatures and signed thoughts from parts. The first signed call gets `UNSIGNED` as its signature instead."""
    kept: list[bytes] = []
    is_marked = False
    for part in parts:
        fields, spelled = split_object(part) or {}, _camel_fields(part)
        field = spelled.get(SIGNATURE)
        if field is None or read_value(fields[field]) == UNSIGNED:
            kept.append(part)
            continue
        rest = {name: raw for name, raw in fields.items() if name != field}
        if "functionCall" in spelled:
            kept.append(join_object(rest if is_marked else {**fields, field: encode_value(UNSIGNED)}))
            is_marked = True
        elif not is_thought(read_object(part) or {}) and rest.get("text") != b'""' and rest:
            kept.append(join_object(rest))
    return kept


def _blank_part(part: Json, text: str) -> Json | None:
    """Return what is left of half of a call; None for any other part."""
    call, response = part.get("functionCall"), part.get("functionResponse")
    if isinstance(call, dict):
        kept = {name: call[name] for name in ("id", "name") if name in call}
        return {"functionCall": {**kept, "args": {}}} | ({SIGNATURE: UNSIGNED} if SIGNATURE in part else {})
    if isinstance(response, dict):
        kept = {name: response[name] for name in ("id", "name") if name in response}
        return {"functionResponse": {**kept, "response": {"output": text}}}
    return None


def _mergeable_role(item: Item) -> Role | None:
    """Return the role of a content that can be merged with its neighbours, None for any other item."""
    content = read_object(item.raw) or {}
    role = ROLES.get(read_role(content)) if list_parts(content) is not None else None
    return None if role is Role.SYSTEM else role


def _merge_contents(contents: Sequence[Item]) -> Item:
    """Return one content for a run of one role, with the first one's fields. Responses come first: they follow their calls."""
    fields: dict[str, bytes] = {}
    parts: list[bytes] = []
    for item in contents:
        own = split_object(item.raw) or {}
        parts.extend(split_list(own["parts"]) or ())
        fields.update({name: raw for name, raw in own.items() if name not in fields})
    responses = [part for part in parts if "functionResponse" in rename_fields(read_object(part) or {})]
    others = [part for part in parts if part not in responses]
    return Item(join_object({**fields, "parts": join_list((*responses, *others))}))
