"""One block of a streamed answer, put together from its pieces."""

from __future__ import annotations

from typing import Final

from threadkeep.dialects.raw_json import Fields, Json, encode_value, read_value

INPUT: Final = "partial_json"


class BlockInProgress:
    """A block as it started, and what was added to it since. Deltas of an unknown kind are ignored."""

    def __init__(self, started: Json) -> None:
        self._started = started
        self._parts: dict[str, list[str]] = {}
        self._replaced: Json = {}
        self._citations: list[object] = []

    def take(self, delta: Fields) -> None:
        """Add one delta."""
        match delta.text("type"):
            case "text_delta":
                self._grow("text", delta.text("text"))
            case "thinking_delta":
                self._grow("thinking", delta.text("thinking"))
            case "input_json_delta":
                self._grow(INPUT, delta.text("partial_json"))
            case "compaction_delta":
                self._grow("content", delta.text("content"))
                self._replace("encrypted_content", delta.text("encrypted_content"))
            case "signature_delta":
                self._replace("signature", delta.text("signature"))
            case "citations_delta":
                citation = read_value(delta.span("citation"))
                self._citations.extend([] if citation is None else [citation])
            case _:
                return

    def finished(self) -> bytes | None:
        """Return the block as a client would echo it; None where the input of its call cannot be read."""
        parts = dict(self._parts)
        arguments = "".join(parts.pop(INPUT, ()))
        block = self._started | self._replaced
        for field, added in parts.items():
            before = block.get(field)
            block[field] = "".join([before if isinstance(before, str) else "", *added])
        if self._citations:
            cited = block.get("citations")
            block["citations"] = [*(cited if isinstance(cited, list) else ()), *self._citations]
        if arguments.strip():
            block["input"] = read_value(arguments.encode())
            if block["input"] is None:
                return None
        try:
            return encode_value(block)
        except RecursionError:
            return None

    def _grow(self, field: str, text: str | None) -> None:
        self._parts.setdefault(field, []).extend([] if text is None else [text])

    def _replace(self, field: str, text: str | None) -> None:
        if text is not None:
            self._replaced[field] = text
