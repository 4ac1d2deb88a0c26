"""The events of a turn, for display only; the history is in the thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from threadkeep.dialects import ToolCall
from threadkeep.llm import Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The model is asked; `attempt` counts the tries of one request, and text of an earlier try is repeated."""

    tokens: int
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A piece of what the model says, or of what it thinks on the way."""

    text: str
    is_thought: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """The model called a tool, and it runs."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """A tool returned; `failed` says that `text` tells what went wrong."""

    call: ToolCall
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The window was compacted within the turn; `checkpoint` is the record it now rests on."""

    checkpoint: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something did not work that the turn goes on without: a compaction that was due, say."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a turn ended.

    Attributes:
        text: What the model said last.
        ending: `length` if it ran out of room, `refused` if it or the provider's filter would not answer.
        requests: How often it was asked.
        cost_usd: What the provider says it cost; None where it does not say.
    """

    text: str = ""
    ending: Ending = "finished"
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None


Event: TypeAlias = Asked | Said | Called | Returned | Compacted | Trouble | Answer
Hear: TypeAlias = Callable[[Event], None]


def nobody_hears(event: Event) -> None:
    """Where nobody watches."""
