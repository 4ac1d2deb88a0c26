"""One entry of model-visible history: its exact bytes, what is known about it, its digests, and how items pair up.

An item is its exact bytes. Everything threadkeep knows about it is a view: derived, disposable, never stored in its place.

There are two digests. `b1` is over stored bytes: it addresses a body within its tenant and lets `verify` prove it. `c1` is a
chain over canonical forms, keyed per tenant: it recognises a history that a client resends, whatever its key order or item ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import msgspec


class ItemKind(StrEnum):
    """What an item does in a conversation, in any dialect."""

    MESSAGE = "message"
    CALL = "call"
    OUTPUT = "output"
    REASONING = "reasoning"
    OPAQUE = "opaque"


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of model-visible history in its provider's own JSON, byte for byte."""

    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool the model wants to be run; `arguments` are JSON as it wrote them, which may be none."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a call returned, as text; `is_error` is None where the client does not say how it ended."""

    call_id: str
    text: str
    is_error: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What threadkeep knows about an item.

    Attributes:
        text: What a reader of the transcript would see; for a call, its arguments.
        opens: Ids of the tool calls this item opens.
        closes: Ids of the tool calls this item closes.
        tool: Name of the called tool, for a call.
        calls: The calls it makes, in order, without those of the provider's own tools.
        outputs: What the calls that it answers returned, in order.
        images: How many images it carries.
        by_person: Whether a person really wrote it, as against a host that speaks in the user's role.
        said: The person's own words in it, without what the host put around them.
        words: For a call, what the model said beside it.
        context: For text a host injects about its world, which section it is; the newest of each must stay in view.
        is_task: Whether another agent asks for work in it, where the wire language has a form for that.
    """

    kind: ItemKind
    role: Role
    text: str = ""
    opens: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    tool: str | None = None
    calls: tuple[ToolCall, ...] = ()
    outputs: tuple[ToolOutput, ...] = ()
    images: int = 0
    by_person: bool = False
    said: str = ""
    words: str = ""
    context: str | None = None
    is_task: bool = False


BODY_BYTES = 20
CHAIN_BYTES = 16


def digest_body(body: bytes) -> bytes:
    """Return the `b1` digest of a body."""
    return blake2b(body, digest_size=BODY_BYTES).digest()


def seed_chain(key: bytes, *, dialect: str, agent: str = "") -> bytes:
    """Return the chain's first link: the tenant's key, the dialect and the sub-agent, never a credential or a model."""
    return blake2b(f"c1\0{dialect}\0{agent}".encode(), key=key, digest_size=CHAIN_BYTES).digest()


def link_chain(key: bytes, previous: bytes, canonical: bytes) -> bytes:
    """Return the `c1` digest of a history whose last item has this canonical form and whose earlier part is `previous`."""
    return blake2b(previous + canonical, key=key, digest_size=CHAIN_BYTES).digest()


def digest_session(key: bytes, name: str, *, agent: str = "") -> bytes:
    """Return the digest under which a client's name for a conversation is looked up; no history has it for a link."""
    text = f"{name}\0{agent}".encode("utf-8", "surrogatepass")
    return blake2b(text, key=key, digest_size=CHAIN_BYTES, person=b"session-name").digest()


def format_digest(digest: bytes) -> str:
    """Return a digest as text: its form, then its bytes."""
    form = "b1" if len(digest) == BODY_BYTES else "c1"
    return f"{form}:{digest.hex()}"


# An escaped backslash, a whole surrogate pair, or half of one; the first two are consumed so that only halves are seen.
_surrogate = re.compile(rb"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u([dD][89a-fA-F][0-9a-fA-F]{2})")


def repair_surrogates(raw: bytes, *, mark: bytes | None = None) -> bytes:
    r"""Return JSON in which half a surrogate pair, as a text cut inside an emoji leaves it, reads as a replacement mark.

    With a `mark` of the caller's, its digits follow it, so that `mark` can be made `\u` again. For looking at, never for
    sending or hashing.
    """
    if rb"\ud" not in raw and rb"\uD" not in raw:
        return raw
    return _surrogate.sub(lambda match: match[1] or (rb"\ufffd" if mark is None else mark + match[2]), raw)


def decode_json(raw: bytes) -> Any:
    """Return the value of an item's JSON, half surrogate pairs included.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return json.loads(raw)


def is_json(value: object) -> bool:
    """Whether a value survives being written as JSON and read back."""
    match value:
        case None | bool() | str():
            return True
        case int():
            return type(value) is int
        case float():
            return type(value) is float and value == value and value not in (float("inf"), float("-inf"))
        case list():
            return all(map(is_json, value))
        case dict():
            return all(isinstance(key, str) and is_json(inner) for key, inner in value.items())
        case _:
            return False


def find_open_calls(views: Sequence[View]) -> list[str]:
    """Return the ids of calls that no later item closes, in the order they were opened."""
    waiting: dict[str, None] = {}
    for view in views:
        waiting.update(dict.fromkeys(view.opens))
        for call_id in view.closes:
            waiting.pop(call_id, None)
    return list(waiting)


def find_orphans(views: Sequence[View]) -> list[str]:
    """Return the ids of outputs without a call before them."""
    opened: set[str] = set()
    missing: list[str] = []
    for view in views:
        opened.update(view.opens)
        missing.extend(call_id for call_id in view.closes if call_id not in opened)
    return missing


def find_boundaries(views: Sequence[View]) -> list[int]:
    """Return every index at which the sequence can be cut in two without breaking a pair.

    A cut never separates a call from its output, nor reasoning from the item it belongs to; a call id that is used again opens
    another pair. The end is a boundary only if no call is open and no reasoning is without its item. An unanswered call ends at a
    person's next message.
    """
    reach = _find_reaches(views)
    cuts: list[int] = []
    bound = -1
    for index in range(len(views) + 1):
        loose = index == 0 or views[index - 1].kind is not ItemKind.REASONING
        if index > bound and loose:
            cuts.append(index)
        if index < len(views):
            bound = max(bound, reach[index])
    return cuts


def _find_reaches(views: Sequence[View]) -> list[int]:
    """Return, for each item, up to which index its open calls forbid a cut.

    That is the output of the last of them; for an unanswered call, the item before the next person's message, or the end if no
    such message follows.
    """
    closing: dict[str, int] = {}
    abandoned = len(views)
    reach = [-1] * len(views)
    for index in range(len(views) - 1, -1, -1):
        view = views[index]
        for call_id in view.opens:
            reach[index] = max(reach[index], closing.pop(call_id, abandoned))
        for call_id in view.closes:
            closing[call_id] = index
        if view.by_person and view.kind is ItemKind.MESSAGE:
            abandoned = index - 1
    return reach
