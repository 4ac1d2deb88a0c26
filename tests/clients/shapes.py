"""What a client's requests look like without their values: one fact a line, stored in request_shapes/ for each pinned version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.clients.made_up import HOP_HEADERS
from tests.doubles.script import Received

SHAPES = Path(__file__).with_name("request_shapes")
# These have lines of their own.
HISTORIES = frozenset({"input", "messages", "contents", "tools", "model"})
# How often a request was sent again says nothing about the client.
CHANCE = frozenset({"x-stainless-retry-count", "x-stainless-timeout"})


def read_shape(requests: Iterable[Received], *, is_side: Callable[[Received], bool]) -> list[str]:
    """Return every fact about the shape of these requests once, in order; `side` are those beside the conversation."""
    return sorted({f"{'side' if is_side(each) else 'main'} {fact}" for each in requests for fact in _list_facts(each)})


def write_shape(file: Path, title: str, shape: Sequence[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([f"# {title}", *shape, ""]))


def load_shape(file: Path) -> list[str]:
    """Return the facts in a file; none where there is no such file."""
    return [line for line in file.read_text().splitlines() if not line.startswith("#")] if file.exists() else []


def compare_shapes(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return a line for each fact that is gone or new."""
    return [f"gone: {fact}" for fact in before if fact not in after] + [f"new:  {fact}" for fact in after if fact not in before]


def read_tools(received: Received) -> list[str]:
    """Return the names of the tools of a request of any wire."""
    tools: list[Any] = received.body.get("tools") or []
    lite = [tool for item in received.history if item.get("type") == "additional_tools" for tool in item.get("tools", [])]
    functions = [each for tool in (*tools, *lite) for each in tool.get("functionDeclarations", [tool.get("function", tool)])]
    return sorted(str(tool.get("name", tool.get("type"))) for tool in functions)


def _list_facts(received: Received) -> Iterator[str]:
    yield f"path {received.method} {received.path}"
    if model := received.body.get("model"):
        yield f"model {model}"
    yield from (f"header {name}" for name in received.headers if name not in HOP_HEADERS | CHANCE)
    yield from (f"field {name}" for name in _name_fields(received.body))
    yield from (f"tool {name}" for name in read_tools(received))
    yield from (f"item {_describe(item)}" for item in received.history)


def _name_fields(body: Mapping[str, Any]) -> Iterator[str]:
    for name, value in body.items():
        if isinstance(value, Mapping) and name not in HISTORIES:
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield name


def _describe(item: Mapping[str, Any]) -> str:
    """Return an item's role and type, and what it consists of."""
    content = item.get("content", item.get("parts"))
    parts = [_describe_part(part) for part in content] if isinstance(content, list) else ["string"] * isinstance(content, str)
    calls = ["tool_calls"] * bool(item.get("tool_calls"))
    words = [str(item[name]) for name in ("role", "type") if item.get(name)]
    return " ".join([*words, *sorted({*parts, *calls})])


def _describe_part(part: Mapping[str, Any]) -> str:
    return str(part.get("type") or "+".join(sorted(re.sub(r"\W", "", name) for name in part)))
