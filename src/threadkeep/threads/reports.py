"""What operations on threads return: plain values with the names of the command line's contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from threadkeep.threads.pointer import Pointer
from threadkeep.tokens import Pressure


class Window(list[dict[str, Any]]):
    """What to send next: provider JSON, oldest first, and what is known about it."""

    def __init__(
        self,
        items: list[dict[str, Any]],
        *,
        tokens: int,
        cache_key: str,
        checkpoint: int | None,
        pressure: Pressure,
        trouble: str | None = None,
        holds_compaction: bool = False,
    ) -> None:
        super().__init__(items)
        self.tokens = tokens
        self.cache_key = cache_key
        self.checkpoint = checkpoint
        self.pressure = pressure
        self.trouble = trouble
        """Why a compaction that was due did not happen, in words for a person."""
        self.holds_compaction = holds_compaction
        """Whether the provider compacted by itself in an answer, and no checkpoint stands for that yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSummary:
    """A thread in a list."""

    id: str
    title: str
    dialect: str
    records: int
    turns: int
    checkpoints: int
    tokens: int
    updated_at_ms: int
    parent: str | None
    archived: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Branched:
    """Where a fork or rollback took a thread: `at` is the ordinal it goes on from."""

    thread: str
    parent: str | None
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something `verify` found wrong."""

    pointer: Pointer
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What `verify` looked at and found."""

    threads: int
    records: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems
