"""One session of the host and the thread that holds its history."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from threadkeep.adapters.bridge import StoreHandle, make_thread_id
from threadkeep.adapters.hermes.messages import (
    Message,
    find_faults,
    make_host_messages,
    make_item,
    measure_messages,
    restore_joined_text,
    rough_tokens,
    split_joined_message,
)
from threadkeep.adapters.host_history import follow
from threadkeep.client import CompactionReport, Thread, Threadkeep, build_config, resolve
from threadkeep.compaction.backend import Order
from threadkeep.dialects import CHAT
from threadkeep.errors import BadInput, NothingToCompact, ThreadNotFound
from threadkeep.recall.tool import DESCRIPTION, NAME, PARAMETERS, recall_for_tool
from threadkeep.tokens import Limits

log = logging.getLogger("threadkeep.hermes")

DIALECT: Final = CHAT.name
# The share of the threshold, less system prompt and tools, that a compacted window may take.
ROOM_PERCENT: Final = 80
# If a compaction only shortened outputs, a second one removes messages.
FEWER_MESSAGES: Final = "80%"
LEAST_ROOM_TOKENS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """A compaction that the host asks for. `tokens` is its count of the whole request, with system prompt and tools."""

    tokens: int
    threshold_tokens: int
    context_length: int
    focus: str | None = None
    forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFigures:
    """The figures of a compaction; of the `required` things `kept` are in the window, and the audit `repaired` false lines."""

    strategy: str
    tokens_before: int
    tokens_after: int
    model_calls: int
    required: int
    kept: int
    repaired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOutcome:
    """The compacted list, or None if there is none, and the figures of the compaction, if one was made."""

    messages: list[Message] | None
    figures: CompactionFigures | None = None


class HostSession:
    """A host's session and its thread."""

    def __init__(self, *, unnamed: str) -> None:
        """Start without a session; `unnamed` is the thread's name until the host gives one."""
        self.id = ""
        self.parent = ""
        self.model = ""
        self.home: Path | None = None
        self.database: Any = None
        self._unnamed = unnamed
        self._handle: tuple[Path, StoreHandle] | None = None

    @property
    def thread_id(self) -> str:
        return make_thread_id(self.id or self._unnamed)

    async def observe(self, history: Sequence[Message]) -> None:
        """Record the new messages of the host's list."""
        await self._open_handle().run_async(lambda tk: self._follow(tk, history))

    async def recall(self, query: str, history: Sequence[Message]) -> dict[str, Any]:
        """Record new messages, then return the originals that match `query`."""

        async def look(tk: Threadkeep) -> dict[str, Any]:
            thread = await self._follow(tk, history) if history else await self._open_thread(tk)
            return await recall_originals(thread, query)

        return await self._open_handle().run_async(look)

    async def compact(self, history: Sequence[Message], asked: CompactionRequest) -> CompactionOutcome:
        """Record new messages, compact, and return the host's new list. Durable when it returns.

        Raises:
            BadInput: A strict server would refuse the compacted list.
        """
        return await self._open_handle().run_async(lambda tk: self._compact(tk, history, asked))

    async def _compact(self, tk: Threadkeep, history: Sequence[Message], asked: CompactionRequest) -> CompactionOutcome:
        thread = await self._follow(tk, history)
        figures = None
        order = _make_order(tk, history, asked)
        try:
            figures = _make_figures(await thread.carry_out(order))
            if len(await thread.window(to_send=True)) >= len(history):
                # After hitting its limit, the host retries only with fewer messages, not with smaller ones.
                fewer = _make_figures(await thread.carry_out(replace(order, target=FEWER_MESSAGES)))
                figures = replace(fewer, tokens_before=figures.tokens_before)
        except NothingToCompact as nothing:
            # The host may have lost the last compacted list; then it gets that one again.
            log.info("nothing to compact: %s", nothing)
        shorter = make_host_messages(await thread.window(to_send=True), history)
        if measure_messages(shorter) >= measure_messages(history):
            return CompactionOutcome(messages=None, figures=figures)
        faults = find_faults(shorter)
        if faults:
            raise BadInput(f"the compacted list of thread {thread.id!r} cannot be sent: {'; '.join(faults)}")
        return CompactionOutcome(messages=shorter, figures=figures)

    async def _follow(self, tk: Threadkeep, history: Sequence[Message]) -> Thread:
        thread = await self._open_thread(tk)
        window = await thread.window(to_send=True)
        shown = restore_joined_text([make_item(message) for message in history], window)
        items = split_joined_message(shown, window[-1] if window else None)
        return await follow(tk, thread.id, DIALECT, items, model=self.model or None)

    async def _open_thread(self, tk: Threadkeep) -> Thread:
        """Return the session's thread, as a fork of its parent session's thread if there is one."""
        if self.parent and not await _has_thread(tk, self.thread_id) and await _has_thread(tk, make_thread_id(self.parent)):
            parent = await tk.thread(make_thread_id(self.parent), dialect=DIALECT)
            return await parent.fork(new_id=self.thread_id)
        return await tk.thread(self.thread_id, dialect=DIALECT)

    def find_parent(self) -> None:
        """Look up the parent session in the host's database, which must be called on the host's own thread."""
        look_up = getattr(self.database, "get_session", None)
        row = look_up(self.id) if callable(look_up) and self.id and not self.parent else None
        parent = row.get("parent_session_id") if isinstance(row, Mapping) else None
        self.parent = parent if isinstance(parent, str) else self.parent

    def _open_handle(self) -> StoreHandle:
        home = self.home or Path(os.environ.get("HERMES_HOME") or "~/.hermes").expanduser()
        if self._handle is None or self._handle[0] != home:
            # The `threadkeep.toml` in the host's home counts; one in the agent's working folder is not the user's.
            self._handle = home, StoreHandle(build_config(resolve(flags={}, environ=os.environ, project=None, host=home)))
        return self._handle[1]


async def _has_thread(tk: Threadkeep, thread_id: str) -> bool:
    try:
        await tk.backend.store.get(thread_id)
    except ThreadNotFound:
        return False
    return True


def _make_order(tk: Threadkeep, history: Sequence[Message], asked: CompactionRequest) -> Order:
    window = asked.context_length or tk.config.model_context_window
    limits = Limits.of_window(window, auto_limit=asked.threshold_tokens or None)
    beside = max(0, asked.tokens - rough_tokens(history))
    return Order(
        trigger="manual" if asked.forced else "auto",
        reason="user_requested" if asked.forced else "context_limit",
        phase="pre_turn" if history and history[-1].get("role") == "user" else "mid_turn",
        limits=limits,
        fit_tokens=max(LEAST_ROOM_TOKENS, (limits.hard - beside) * ROOM_PERCENT // 100),
        focus=asked.focus,
        forced=asked.forced,
    )


def _make_figures(report: CompactionReport) -> CompactionFigures:
    audit = report.audit.counts()
    return CompactionFigures(
        strategy=report.strategy,
        tokens_before=report.tokens_before,
        tokens_after=report.tokens_after,
        model_calls=report.model_calls,
        required=audit["required"],
        kept=audit["kept"],
        repaired=audit["repaired"],
    )


SCHEMA: Final[dict[str, Any]] = {"name": NAME, "description": DESCRIPTION, "parameters": dict(PARAMETERS)}
# The beginning of the tool's output, so that later searches skip it and find the original.
OPENING: Final = '{"recalled"'


async def recall_originals(thread: Thread, query: str) -> dict[str, Any]:
    """Return the originals that match `query`, best first, with their pointers."""
    found = await recall_for_tool(thread, query)
    return {"recalled": [{"pointer": str(hit.pointer), "text": hit.text} for hit in found]}
