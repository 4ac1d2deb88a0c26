"""An assistant's message put together from the deltas of a stream, as a client would send it back."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct
from msgspec.json import Decoder, encode

from holdfast.dialects.chat.spans import read
from holdfast.items import Item

# An answer that never ends must not eat the machine; beyond this nothing of it is kept.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
# What an entry of our own costs beside its text, so that a stream of empty calls meets the same limit.
CALL_BYTES: Final = 1_024

_ABSENT = Raw(b"null")


class Delta(Struct):
    """The fields of a delta that belong to a message; anything may stand in them."""

    content: Raw = _ABSENT
    refusal: Raw = _ABSENT
    reasoning_content: Raw = _ABSENT
    reasoning: Raw = _ABSENT
    reasoning_details: Raw = _ABSENT
    tool_calls: Raw = _ABSENT
    function_call: Raw = _ABSENT
    audio: Raw = _ABSENT


class _CallDelta(Struct):
    index: Raw = _ABSENT
    id: Raw = _ABSENT
    function: Raw = _ABSENT
    custom: Raw = _ABSENT


class _Called(Struct):
    name: Raw = _ABSENT
    arguments: Raw = _ABSENT
    input: Raw = _ABSENT


class _Part(Struct):
    text: Raw = _ABSENT


class _Audio(Struct):
    id: Raw = _ABSENT


# Most fields of most deltas are absent; reading nothing as None costs a fraction of refusing it.
_LIST: Decoder[list[Raw] | None] = Decoder(list[Raw] | None)
_CALL: Decoder[_CallDelta | None] = Decoder(_CallDelta | None)
_CALLED: Decoder[_Called | None] = Decoder(_Called | None)
_PART: Decoder[_Part | None] = Decoder(_Part | None)
_AUDIO: Decoder[_Audio | None] = Decoder(_Audio | None)
_TEXT: Decoder[str | None] = Decoder(str | None)
_INDEX: Decoder[int | None] = Decoder(int | None)


class _Call:
    """A call whose pieces are still coming."""

    def __init__(self, *, place: int) -> None:
        self.place = place
        self.id = ""
        self.is_custom = False
        self.name = bytearray()
        self.payload = bytearray()

    def called(self) -> dict[str, str]:
        """Return what is called and with what, as a call's own field says it."""
        return {"name": self.name.decode(), "input" if self.is_custom else "arguments": self.payload.decode()}

    def entry(self) -> dict[str, object]:
        """Return the call as an element of `tool_calls`."""
        kind = "custom" if self.is_custom else "function"
        return {"id": self.id, "type": kind, kind: self.called()}


class MessageAssembler:
    """Takes deltas in the order they came. Never raises; keeps at most `MAX_MESSAGE_BYTES`."""

    def __init__(self) -> None:
        self.begun = False
        self._overflowed = False
        self._size = 0
        self._texts = {name: bytearray() for name in ("content", "refusal", "reasoning_content", "reasoning")}
        self._details = bytearray()
        self._calls: list[_Call] = []
        self._at_index: dict[int, _Call] = {}
        self._legacy: _Call | None = None
        self._audio_id = ""

    @property
    def item(self) -> Item | None:
        """The message so far in one fixed serialisation; None where none was begun, or where it is beyond the limit."""
        if not self.begun or self._overflowed:
            return None
        called = bool(self._calls or self._legacy)
        message: dict[str, object] = {"role": "assistant", "content": None if called else ""}
        message |= {name: text.decode() for name, text in self._texts.items() if text}
        if self._details:
            message["reasoning_details"] = Raw(b"[" + bytes(self._details) + b"]")
        if self._calls:
            message["tool_calls"] = [call.entry() for call in sorted(self._calls, key=lambda call: call.place)]
        if self._legacy is not None:
            message["function_call"] = self._legacy.called()
        if self._audio_id:
            message["audio"] = {"id": self._audio_id}
        return Item(encode(message))

    def take(self, delta: Delta) -> None:
        """Take the next piece of the message."""
        self.begun = True
        self._keep(self._texts["content"], _content(delta.content))
        self._keep(self._texts["refusal"], _string(delta.refusal))
        self._keep(self._texts["reasoning_content"], _string(delta.reasoning_content))
        self._keep(self._texts["reasoning"], _string(delta.reasoning))
        for detail in read(_LIST, delta.reasoning_details) or []:
            if text := _object_text(detail):
                self._keep(self._details, f",{text}" if self._details else text)
        for raw in read(_LIST, delta.tool_calls) or []:
            if (call := read(_CALL, raw)) is not None:
                self._take_call(call)
        if (legacy := read(_CALLED, delta.function_call)) is not None:
            self._legacy = self._legacy or _Call(place=0)
            self._take_called(self._legacy, legacy)
        if not self._audio_id and (audio := read(_AUDIO, delta.audio)) is not None:
            self._audio_id = _string(audio.id)

    def _take_call(self, delta: _CallDelta) -> None:
        custom = read(_CALLED, delta.custom)
        called = custom or read(_CALLED, delta.function) or _Called()
        call_id = _string(delta.id)
        call = self._call_for(delta, call_id=call_id, named=bool(_string(called.name)))
        if call is None:
            return
        call.id = call.id or call_id
        call.is_custom = call.is_custom or custom is not None
        self._take_called(call, called)

    def _take_called(self, call: _Call, called: _Called) -> None:
        name = _string(called.name)
        # Some servers repeat the whole name in every piece.
        if name.encode() != call.name:
            self._keep(call.name, name)
        self._keep(call.payload, _payload(called.arguments) or _payload(called.input))

    def _call_for(self, delta: _CallDelta, *, call_id: str, named: bool) -> _Call | None:
        """Return the call a piece belongs to; a new one where its index, or its id where it has none, is new.

        Some servers give every call the index 0, others a fresh id to every piece: a new id at a known place begins
        another call only where it comes with a name. None once the message is beyond its limit.
        """
        index = read(_INDEX, delta.index)
        known = self._at_index.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        other = known is not None and bool(known.id and call_id) and known.id != call_id
        if known is not None and not (other and named):
            return known
        self._charge(CALL_BYTES + len(call_id))
        if self._overflowed:
            return None
        call = _Call(place=index if index is not None else len(self._calls))
        self._calls.append(call)
        if index is not None:
            self._at_index[index] = call
        return call

    def _keep(self, buffer: bytearray, text: str) -> None:
        data = text.encode()
        self._charge(len(data))
        if not self._overflowed:
            buffer += data

    def _charge(self, size: int) -> None:
        """Count what is kept; beyond the limit let go of all of it, for half a message is none."""
        self._size += size
        if self._size > MAX_MESSAGE_BYTES and not self._overflowed:
            self._overflowed = True
            self._details.clear()
            self._calls.clear()
            self._at_index.clear()
            self._legacy = None
            for text in self._texts.values():
                text.clear()


def _string(raw: Raw) -> str:
    """Return a text; empty where it is none."""
    text = read(_TEXT, raw)
    return text or ""


def _content(raw: Raw) -> str:
    """Return the text of a piece of content: a string, or, with some servers, parts."""
    if (text := read(_TEXT, raw)) is not None:
        return text
    parts = (read(_PART, part) for part in read(_LIST, raw) or [])
    return "".join(_string(part.text) for part in parts if part is not None)


def _payload(raw: Raw) -> str:
    """Return a piece of a call's payload; some servers send the arguments as an object and not as text."""
    return _string(raw) or _object_text(raw)


def _object_text(raw: Raw) -> str:
    """Return the text of a JSON object; empty where it is none, or no UTF-8, which a skipped span is not checked for."""
    span = bytes(raw)
    try:
        return span.decode() if span.startswith(b"{") else ""
    except UnicodeDecodeError:
        return ""
