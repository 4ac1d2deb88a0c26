"""Requests of other languages as Chat Completions takes them, and its answers for their clients: this module is the dialect's
`UpstreamForm`."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Final

from threadkeep.dialects.chat.replies import ChatReplyReader, PartialCall, find_first_choice
from threadkeep.dialects.raw_json import ABSENT, Fields, Json, encode_value, read_fields, read_object
from threadkeep.dialects.translation import (
    FREE_TEXT,
    THOUGHT_SEAL,
    AnswerTranslator,
    AnswerWriter,
    Image,
    Message,
    Output,
    PartKind,
    PlainRequest,
    StopReason,
    Tool,
    Usage,
)
from threadkeep.dialects.values import ABORTED, SEPARATOR
from threadkeep.items import ToolCall

NO_OUTPUT: Final = "(no output)"
SCHEMA_OF_TEXT: Final[Json] = {
    "type": "object",
    "properties": {FREE_TEXT: {"type": "string"}},
    "required": [FREE_TEXT],
    "additionalProperties": False,
}
BETWEEN_PARTS: Final = "\n\n"


def write_request(request: PlainRequest) -> bytes:
    """Return a body with nothing in it that any server of this language refuses."""
    body: Json = {"model": request.model, "messages": _write_messages(request.messages)}
    if request.is_streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.tools:
        body["tools"] = [_write_tool(name, tool) for name, tool in request.tools.items()]
        choice = request.tool_choice
        named_tool = {"type": "function", "function": {"name": choice[0]}} if isinstance(choice, tuple) else choice
        body |= {} if choice in (None, "auto") else {"tool_choice": named_tool}
        body |= {} if request.is_parallel is not False else {"parallel_tool_calls": False}
    if request.schema is not None:
        named = {"type": "json_schema", "json_schema": request.schema}
        body["response_format"] = named if request.schema else {"type": "json_object"}
    options = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
        "reasoning_effort": request.effort,
    }
    return encode_value(body | {name: value for name, value in options.items() if value is not None})


def _write_tool(name: str, tool: Tool) -> Json:
    described = {"description": tool.description} if tool.description else {}
    function: Json = {"name": name, **described, "parameters": SCHEMA_OF_TEXT if tool.parameters is None else tool.parameters}
    return {"type": "function", "function": function | ({"strict": True} if tool.is_strict else {})}


@dataclass(slots=True)
class _Spoken:
    """Messages of one side that stand together. An assistant's calls have their outputs; None where there is none yet."""

    role: str
    content: list[list[str | Image]] = field(default_factory=list)
    thought: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[ToolCall, list[Output]]] = field(default_factory=list)


def _write_messages(messages: tuple[Message, ...]) -> list[Json]:
    """Return messages in which every call is followed by its output, only the first is the system's, and roles alternate."""
    spoken: list[_Spoken] = []
    waiting: defaultdict[str, deque[list[Output]]] = defaultdict(deque)
    for message in messages:
        # Templates of many models allow one message in the system's role, and only at the very beginning.
        is_first = message.role == "system" and all(each.role == "system" for each in spoken)
        role = "user" if message.role == "system" and not is_first else message.role
        content = [part for part in message.content if not isinstance(part, str) or part.strip()]
        for output in message.outputs:
            if waiting[output.call_id]:
                waiting[output.call_id].popleft().append(output)
            else:
                content[:0] = [output.text or NO_OUTPUT, *output.images]
        is_answered = spoken and any(slot for _, slot in spoken[-1].calls)
        if not (content or message.calls or message.thought):
            continue
        if not spoken or spoken[-1].role != role or (role == "assistant" and is_answered):
            spoken.append(_Spoken(role=role))
        current = spoken[-1]
        if content:
            current.content.append(content)
        if message.thought is not None:
            name, text = message.thought
            current.thought[name] = current.thought.get(name, "") + text
        for call in message.calls:
            slot: list[Output] = []
            current.calls.append((call, slot))
            waiting[call.id].append(slot)
    written: list[Json] = []
    for said in (each for spoke in spoken for each in _write_spoken(spoke)):
        if written and said["role"] == written[-1]["role"] == "user":
            written[-1] = {"role": "user", "content": [*_list_parts(written[-1]["content"]), *_list_parts(said["content"])]}
        else:
            written.append(said)
    return written


def _write_spoken(spoken: _Spoken) -> list[Json]:
    parts = [part for content in spoken.content for part in content]
    if spoken.role != "assistant":
        return [{"role": spoken.role, "content": _write_content(spoken.content)}]
    text = BETWEEN_PARTS.join(part for part in parts if isinstance(part, str))
    if not (text or spoken.calls):
        return []
    said: Json = {"role": "assistant", "content": text or None, **spoken.thought}
    if not spoken.calls:
        return [said]
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _write_arguments(call.arguments)}}
        for call, _ in spoken.calls
    ]
    outputs = [(call.id, slot[0] if slot else Output(call_id=call.id, text=ABORTED)) for call, slot in spoken.calls]
    tools = [{"role": "tool", "tool_call_id": call_id, "content": output.text or NO_OUTPUT} for call_id, output in outputs]
    # A tool's message holds text alone.
    images = [image for _, output in outputs for image in output.images]
    shown = [{"role": "user", "content": _write_content([list(images)])}] if images else []
    return [said | {"tool_calls": calls}, *tools, *shown]


def _write_arguments(arguments: str) -> str:
    """Return arguments as an object: some servers fail at anything else, in this request and in every one after it."""
    return arguments if read_object(arguments.encode()) is not None else json.dumps({FREE_TEXT: arguments} if arguments else {})


def _write_content(content: list[list[str | Image]]) -> str | list[Json]:
    if not any(isinstance(part, Image) for parts in content for part in parts):
        return SEPARATOR.join(BETWEEN_PARTS.join(map(str, parts)) for parts in content)
    return [_write_part(part) for parts in content for part in parts]


def _list_parts(content: str | list[Json]) -> list[Json]:
    return [_write_part(content)] if isinstance(content, str) else content


def _write_part(part: str | Image) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": part.url} | ({"detail": part.detail} if part.detail else {})}


REASONS: Final[dict[str, StopReason]] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}
# Where servers put what a model thinks, and what it says, in the order in which a client gets them.
THOUGHTS: Final = ("reasoning_content", "reasoning")
TEXTS: Final[tuple[tuple[str, PartKind], ...]] = (
    ("reasoning_content", "thought"),
    ("reasoning", "thought"),
    ("content", "text"),
    ("refusal", "refusal"),
)


class ChatAnswerTranslator(ChatReplyReader):
    """Passes on what the message has grown by. Parts come one at a time: what comes between the pieces of a call waits for it."""

    def __init__(self, writer: AnswerWriter) -> None:
        super().__init__()
        self._writer = writer
        self._sent: defaultdict[int | str, int] = defaultdict(int)
        self._open: str | None = None
        self._live: PartialCall | None = None
        self._next_call = 0
        self._reason: StopReason | None = None
        self._usage = Usage()
        self._has_begun = self._has_ended = False

    def translate(self, chunk: bytes) -> bytes:
        if self._has_ended:
            return b""
        if self.feed(chunk) if chunk else self._reason is not None:
            self._end()
        return self._writer.take()

    def translate_whole(self, body: bytes, *, is_streamed: bool) -> bytes | None:
        answer = read_fields(body)
        choice = find_first_choice(answer) if answer is not None else None
        if answer is None or choice is None:
            return None
        self._take(answer, size=len(body))
        message = read_object(choice.span("message")) or {}
        listed = message.get("tool_calls")
        calls = [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
        # As in a stream: only a place tells calls without ids apart.
        placed = [call | {"index": place} for place, call in enumerate(calls)]
        self._take_delta(read_fields(encode_value(message | {"tool_calls": placed})) or Fields({}))
        self._end()
        return self._writer.take() if is_streamed else self._writer.whole()

    def _take(self, chunk: Fields, *, size: int) -> None:
        super()._take(chunk, size=size)
        if not self._has_begun:
            self._has_begun = True
            self._writer.begin()
        choice = find_first_choice(chunk)
        for counted in (chunk.object("usage"), choice.object("usage") if choice is not None else None):
            if counted is not None:
                self._usage = _read_usage(counted)
        reason = choice.text("finish_reason") if choice is not None else None
        if reason:
            self._reason = REASONS.get(reason, "stop")
        if chunk.span("error") != ABSENT:
            error = chunk.inner("error")
            self._close()
            code = error.text("code") or error.text("type") or "server_error"
            self._writer.fail(code, error.text("message") or chunk.text("error") or "the provider failed")
            self._has_ended = True
            return
        self._pass_on()

    def _end(self) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self._pass_on(is_last=True)
        self._close()
        reason = self._reason or "stop"
        self._writer.finish("tool_calls" if reason == "stop" and self._next_call else reason, self._usage)

    def _pass_on(self, *, is_last: bool = False) -> None:
        """Give the writer what is new, as far as it may come now."""
        while True:
            if self._live is not None:
                self._send(self._next_call, self._live.payload)
                waits = self._next_call < len(self._calls) or self._find_text() is not None
                if not waits or not (is_last or read_object(bytes(self._live.payload)) is not None):
                    return
                self._close()
            while (found := self._find_text()) is not None:
                self._send_text(*found)
            if self._next_call >= len(self._calls):
                return
            call = self._calls[self._next_call]
            # A name comes in pieces, too; it is whole when arguments follow it.
            if not (call.payload or is_last):
                return
            self._close()
            self._next_call += 1
            self._live = call
            named = ToolCall(id=call.id or f"call_{self._next_call}", name=call.name.decode(), arguments="")
            self._writer.open("call", named)

    def _find_text(self) -> tuple[str, PartKind] | None:
        """Return the first text with something new; blanks alone are nothing, and thoughts told twice are told once."""
        for name, kind in TEXTS:
            text = self._texts[name]
            told = self._sent[name]
            if name == THOUGHTS[1] and self._texts[THOUGHTS[0]]:
                continue
            if len(text) > told and (self._open == name or text[told:].decode().strip()):
                return name, kind
        return None

    def _send_text(self, name: str, kind: PartKind) -> None:
        if self._open != name:
            self._close()
            self._open = name
            self._writer.open(kind)
        self._send(name, self._texts[name])

    def _send(self, key: int | str, text: bytearray) -> None:
        told, self._sent[key] = self._sent[key], len(text)
        if len(text) > told:
            self._writer.grow(text[told:].decode())

    def _close(self) -> None:
        if self._open is not None or self._live is not None:
            self._writer.close(seal=f"{THOUGHT_SEAL}{self._open}" if self._open in THOUGHTS else "")
        self._open, self._live = None, None


def make_translator(writer: AnswerWriter) -> AnswerTranslator:
    return ChatAnswerTranslator(writer)


def _read_usage(usage: Fields) -> Usage:
    return Usage(
        read=usage.count("prompt_tokens") or 0,
        written=usage.count("completion_tokens") or 0,
        cached=usage.inner("prompt_tokens_details").count("cached_tokens") or 0,
        thought=usage.inner("completion_tokens_details").count("reasoning_tokens") or 0,
    )
