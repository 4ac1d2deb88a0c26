"""One block of a streamed answer, put together from its pieces."""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder

from holdfast.dialects.messages.spans import Json, decoded, encoded

_ABSENT = Raw(b"null")


class _Delta(Struct):
    type: str = ""
    text: Raw = _ABSENT
    thinking: Raw = _ABSENT
    content: Raw = _ABSENT
    partial_json: Raw = _ABSENT
    signature: Raw = _ABSENT
    encrypted_content: Raw = _ABSENT
    citation: Raw = _ABSENT


_DELTA = Decoder(_Delta)
INPUT: Final = "partial_json"


class BlockInProgress:
    """A block as it started, and what was added to it since. Deltas of an unknown kind are ignored."""

    def __init__(self, started: Json) -> None:
        self._started = started
        self._parts: dict[str, list[str]] = {}
        self._replaced: Json = {}
        self._citations: list[object] = []

    def take(self, raw: bytes) -> None:
        """Add one delta."""
        delta = _read(raw)
        match delta.type:
            case "text_delta":
                self._grow("text", delta.text)
            case "thinking_delta":
                self._grow("thinking", delta.thinking)
            case "input_json_delta":
                self._grow(INPUT, delta.partial_json)
            case "compaction_delta":
                self._grow("content", delta.content)
                self._replace("encrypted_content", delta.encrypted_content)
            case "signature_delta":
                self._replace("signature", delta.signature)
            case "citations_delta":
                citation = decoded(bytes(delta.citation))
                self._citations.extend([] if citation is None else [citation])
            case _:
                return

    def finished(self) -> bytes | None:
        """Return the block as a client would echo it; None where the input of its call cannot be read."""
        parts = dict(self._parts)
        arguments = "".join(parts.pop(INPUT, ()))
        block = self._started | self._replaced
        for field, added in parts.items():
            block[field] = "".join([*_if_text(block.get(field)), *added])
        if self._citations:
            before = block.get("citations")
            block["citations"] = [*(before if isinstance(before, list) else ()), *self._citations]
        if arguments.strip():
            block["input"] = decoded(arguments.encode())
            if block["input"] is None:
                return None
        try:
            return encoded(block)
        except RecursionError:
            return None

    def _grow(self, field: str, raw: Raw) -> None:
        self._parts.setdefault(field, []).extend(_if_text(decoded(bytes(raw))))

    def _replace(self, field: str, raw: Raw) -> None:
        text = decoded(bytes(raw))
        if isinstance(text, str):
            self._replaced[field] = text


def _if_text(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else ()


def _read(raw: bytes) -> _Delta:
    try:
        return _DELTA.decode(raw)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return _Delta()
