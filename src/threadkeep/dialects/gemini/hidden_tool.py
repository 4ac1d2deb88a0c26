"""A hidden tool in `generateContent`: its calls are parts of a content, and an answer ends with the piece that says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from threadkeep.dialects.gemini import tools
from threadkeep.dialects.gemini.parts import is_thought, list_parts, number_pairs, read_name, rename_fields
from threadkeep.dialects.hidden_tool import (
    SEPARATOR,
    EventSplitter,
    HiddenToolForm,
    Json,
    make_item,
    read_event,
    render_event,
    squeeze,
)
from threadkeep.dialects.raw_json import (
    encode_value,
    join_list,
    join_object,
    read_object,
    split_list,
    split_object,
)
from threadkeep.dialects.values import HiddenCalls, Request
from threadkeep.items import Item, ToolCall

DECLARATIONS = ("functionDeclarations", "function_declarations")


class GeminiHiddenTool(HiddenToolForm):
    """See `threadkeep.dialects.api.HiddenTool`."""

    def _define(self) -> Json:
        tool = self._tool
        return tools.define_tool(name=tool.name, description=tool.description, parameters=tool.parameters)

    def can_join(self, request: Request) -> bool:
        config = read_object(request.fields.get("generationConfig", b"null")) or {}
        if config.get("candidateCount", config.get("candidate_count", 1)) != 1:
            return False
        own = [read_object(tool) or {} for tool in split_list(request.fields.get("tools", b"[]")) or ()]
        declared = [each for tool in own for name in DECLARATIONS for each in _list(tool.get(name)) if isinstance(each, dict)]
        return all(each.get("name") != self._tool.name for each in declared)

    def add_to(self, request: Request) -> Request:
        """Put the declaration behind the client's own, into the tool that holds those: older models take no second."""
        own = split_list(request.fields.get("tools", b"[]")) or []
        declaration = encode_value(self._define()[DECLARATIONS[0]][0])
        for at, tool in enumerate(own):
            fields = split_object(tool) or {}
            field = next((name for name in DECLARATIONS if name in fields), None)
            if field is not None:
                longer = join_list([*(split_list(fields[field]) or ()), declaration])
                tools_with = [*own[:at], join_object({**fields, field: longer}), *own[at + 1 :]]
                return replace(request, fields={**request.fields, "tools": join_list(tools_with)})
        return super().add_to(request)

    def find_calls(self, items: Sequence[Item]) -> HiddenCalls:
        calls = [each for item in items for each in number_pairs(_parts(item), "functionCall")]
        ours = tuple((pair, call.get("args")) for pair, call in calls if read_name(call) == self._tool.name)
        return HiddenCalls(calls=ours, has_others=len(ours) < len(calls))

    def make_outputs(self, outputs: Mapping[str, str]) -> list[Item]:
        name = self._tool.name
        parts = [tools.make_response(ToolCall(id=pair, name=name, arguments=""), text) for pair, text in outputs.items()]
        return [make_item({"role": "user", "parts": parts})] if parts else []

    def join_outputs(self, item: Item, outputs: Sequence[Item]) -> Item | None:
        """All responses to one content stand in the one content behind it."""
        content = split_object(item.raw) or {}
        ours = [part for output in outputs for part in split_list((split_object(output.raw) or {})["parts"]) or ()]
        return Item(join_object({**content, "parts": join_list([*ours, *(split_list(content.get("parts", b"[]")) or ())])}))

    def spoken_text(self, items: Sequence[Item]) -> str:
        words: list[str] = []
        for item in items:
            parts = _parts(item)
            words.extend(str(part.get("text") or "") for part in parts if not is_thought(part))
            calls = number_pairs(parts, "functionCall")
            words.extend(f"\0{pair}\0" for pair, call in calls if read_name(call) != self._tool.name)
        return squeeze("".join(words))

    def make_filter(self) -> GeminiAnswerFilter:
        return GeminiAnswerFilter(self._tool.name)

    def merge_answers(self, answers: Sequence[Json]) -> Json:
        last = answers[-1]
        candidate, content = _candidate(last), _content(last)
        parts = [part for answer in answers for part in _visible(_content(answer).get("parts"), self._tool.name)]
        merged = {**candidate, "content": {"role": "model", **content, "parts": parts}}
        usage = _sum_usage([answer.get("usageMetadata") for answer in answers])
        return {**last, "candidates": [merged], "usageMetadata": usage, "responseId": answers[0].get("responseId")}


class GeminiAnswerFilter:
    """See `threadkeep.dialects.api.AnswerFilter`. The last piece of an answer is held back, for it ends the answer."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._events = EventSplitter()
        self._round = 1
        self._id: object = None
        self._held: list[tuple[bytes, Json]] = []
        self._usages: list[object] = []
        self._has_spoken = False
        self._needs_separator = False

    def feed(self, chunk: bytes) -> bytes:
        return b"".join(self._take(raw, data) for raw, data in self._events.feed(chunk))

    def start_next(self) -> None:
        self._usages.extend(event.get("usageMetadata") for _, event in self._held)
        self._held = []
        self._needs_separator = self._has_spoken
        self._round += 1

    def end(self) -> bytes:
        return b"".join(self._close(raw, event) for raw, event in self._held)

    def _take(self, raw: bytes, data: bytes) -> bytes:
        event = read_event(data)
        if event is None:
            return raw if self._round == 1 else b""
        self._id = self._id or event.get("responseId")
        shown = self._show(event)
        if _candidate(event).get("finishReason") is None and not ("error" in event or "promptFeedback" in event):
            if shown is event and self._round == 1:
                return raw
            return render_event(shown) if _content(shown).get("parts") else b""
        # What the last piece says goes out at once; that it is the last is held back.
        self._held.append((raw, shown))
        return b""

    def _show(self, event: Json) -> Json:
        """Return an event as the client gets it: without our calls, under the first answer's id."""
        content = _content(event)
        parts = _visible(content.get("parts"), self._name)
        has_ours = len(parts) < len(_list(content.get("parts")))
        if not has_ours and self._round == 1:
            self._has_spoken = self._has_spoken or any(map(_is_speech, parts))
            return event
        signed = event if self._id is None else {**event, "responseId": self._id}
        parts = [self._separate(part) for part in parts]
        return {**signed, "candidates": [{**_candidate(event), "content": {**content, "parts": parts}}]}

    def _separate(self, part: object) -> object:
        """Return a part, its text set apart from what an earlier answer said."""
        if not isinstance(part, dict) or not _is_speech(part):
            return part
        separator = SEPARATOR if self._needs_separator else ""
        self._has_spoken, self._needs_separator = True, False
        return {**part, "text": f"{separator}{part['text']}"}

    def _close(self, raw: bytes, event: Json) -> bytes:
        if self._round == 1 and event == read_event(_data_of(raw)):
            return raw
        return render_event({**event, "usageMetadata": _sum_usage([*self._usages, event.get("usageMetadata")])})


def _data_of(raw: bytes) -> bytes:
    return b"\n".join(line.removeprefix(b"data:").strip() for line in raw.splitlines() if line.startswith(b"data:"))


def _parts(item: Item) -> list[Json]:
    return list_parts(read_object(item.raw) or {}) or []


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _candidate(answer: Json) -> Json:
    first = next(iter(_list(answer.get("candidates"))), None)
    return first if isinstance(first, dict) else {}


def _content(answer: Json) -> Json:
    content = _candidate(answer).get("content")
    return content if isinstance(content, dict) else {}


def _visible(parts: object, name: str) -> list[object]:
    """Return parts without the calls of the tool called `name`."""
    return [part for part in _list(parts) if not (isinstance(part, dict) and _calls(part, name))]


def _is_speech(part: object) -> bool:
    return isinstance(part, dict) and not is_thought(part) and isinstance(part.get("text"), str) and part["text"] != ""


def _calls(part: Json, name: str) -> bool:
    call = rename_fields(part).get("functionCall")
    return isinstance(call, dict) and read_name(call) == name


def _sum_usage(usages: Sequence[object]) -> object:
    """Return what the last answer was shown, and what all of them wrote."""
    found = [usage for usage in usages if isinstance(usage, dict)]
    if not found:
        return None
    last = dict(found[-1])
    for field in ("candidatesTokenCount", "thoughtsTokenCount"):
        counts = [usage[field] for usage in found if isinstance(usage.get(field), int)]
        if counts:
            last[field] = sum(counts)
    read = last.get("promptTokenCount")
    if len(found) > 1 and isinstance(read, int):
        last["totalTokenCount"] = read + sum(last.get(field) or 0 for field in ("candidatesTokenCount", "thoughtsTokenCount"))
    return last
