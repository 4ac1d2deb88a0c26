"""An item and its view.

An item is its exact bytes. Everything threadkeep knows about it is a view: derived, disposable, never stored in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
class View:
    """What threadkeep knows about an item.

    Attributes:
        text: What a reader of the transcript would see; for a call, its arguments.
        opens: Ids of the tool calls this item opens.
        closes: Ids of the tool calls this item closes.
        tool: Name of the called tool, for a call.
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
    images: int = 0
    by_person: bool = False
    said: str = ""
    words: str = ""
    context: str | None = None
    is_task: bool = False
