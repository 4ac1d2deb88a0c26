"""What a reader would see in a content block, whatever its type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from threadkeep.dialects.raw_json import Json

THINKING: Final = frozenset({"thinking", "redacted_thinking"})
# Fields that hold words, in reading order. Images, signatures, encrypted content and citations are none.
READABLE: Final = (
    "title",
    "url",
    "source",
    "text",
    "content",
    "stdout",
    "stderr",
    "error_code",
    "tool_name",
    "file_id",
)
# The deepest words a provider nests are those of a fetched document: result, content, content, source, data.
DEEPEST: Final = 8


def list_blocks(content: object) -> list[Json] | None:
    """Return a message's blocks; a string is one block of text. None where the content is neither a string nor a list."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else None


def is_result(block: Json) -> bool:
    """Whether the block carries what a tool of any side returned."""
    return _kind(block).endswith("tool_result")


def is_use(block: Json) -> bool:
    """Whether the block calls a tool of any side."""
    return _kind(block).endswith("tool_use")


def is_known(block: Json) -> bool:
    """Whether anything can be said about the block."""
    return _kind(block) in _KNOWN or is_use(block) or is_result(block)


def collect_words(value: object) -> str:
    """Return the words in a block, or in what a block holds, each on a line of its own."""
    return "\n".join(_words(value, depth=0))


def images(value: object, *, depth: int = 0) -> int:
    """Return how many images a block holds, those within a tool's result included."""
    if depth > DEEPEST:
        return 0
    if isinstance(value, list):
        return sum(images(each, depth=depth + 1) for each in value)
    if not isinstance(value, dict):
        return 0
    if value.get("type") == "image":
        return 1
    return images(value.get("content"), depth=depth + 1) + images(value.get("source"), depth=depth + 1)


def read_text_field(block: Json, name: str) -> str:
    """Return a field of a block if it is text, else nothing."""
    value = block.get(name)
    return value if isinstance(value, str) else ""


_KNOWN: Final = THINKING | {"text", "image", "document", "search_result", "container_upload", "compaction"}


def _kind(block: Json) -> str:
    return read_text_field(block, "type")


def _words(value: object, *, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if value:
            yield value
    elif depth > DEEPEST:
        return
    elif isinstance(value, list):
        for each in value:
            yield from _words(each, depth=depth + 1)
    elif isinstance(value, dict) and value.get("type") != "image":
        for name in READABLE:
            if name in value:
                yield from _words(value[name], depth=depth + 1)
        # Beside text, `data` holds base64.
        if value.get("type") == "text":
            yield from _words(value.get("data"), depth=depth + 1)
