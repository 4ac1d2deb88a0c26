"""One session of the host, and the thread that holds its history."""

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
    faults_in,
    host_messages,
    item_of,
    respelled,
    rough_tokens,
    size_of,
    unjoined,
)
from threadkeep.adapters.host_history import follow
from threadkeep.client import CompactionReport, Thread, Threadkeep, build_config, resolve
from threadkeep.compaction.order import Order
from threadkeep.dialects import CHAT
from threadkeep.errors import BadInput, NothingToCompact, ThreadNotFound
from threadkeep.recall.tool import ARGUMENT, DESCRIPTION, NAME, PARAMETERS, recall_for_tool
from threadkeep.tokens import Limits

log = logging.getLogger("threadkeep.hermes")

DIALECT: Final = CHAT.name
# How much of what the threshold leaves beside system prompt and tools a compacted window may take.
ROOM_PERCENT: Final = 80
# Where a compaction only cut outputs short, a second one leaves messages out.
FEWER_MESSAGES: Final = "80%"
LEAST_ROOM_TOKENS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A compaction as the host asks for it. `tokens` is its figure for the whole request, system prompt and tools included."""

    tokens: int
    threshold_tokens: int
    context_length: int
    focus: str | None = None
    forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A compaction in figures; of what had to be told `kept` is in the window, and the audit `repaired` false lines."""

    strategy: str
    tokens_before: int
    tokens_after: int
    model_calls: int
    required: int
    kept: int
    repaired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of it: a shorter list, or None where there is none; figures where a compaction was made for it."""

    messages: list[Message] | None
    figures: Compacted | None = None


class HostSession:
    """What the host tells about a session, and what is done with its thread. Each method is run on the bridge's loop."""

    def __init__(self, *, unnamed: str) -> None:
        """Begin without a session; `unnamed` is what the thread is called as long as the host names none."""
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
        """Record what is new in the host's list."""
        await self._reached().run_async(lambda tk: self._followed(tk, history))

    async def recall(self, query: str, history: Sequence[Message]) -> dict[str, Any]:
        """Record what is new, then return the originals that answer `query`."""

        async def look(tk: Threadkeep) -> dict[str, Any]:
            thread = await self._followed(tk, history) if history else await self._begun(tk)
            return await answer(thread, query)

        return await self._reached().run_async(look)

    async def compact(self, history: Sequence[Message], asked: Asked) -> Done:
        """Record what is new, compact, and return the host's list as it now is; durable by then.

        Raises:
            BadInput: The compacted list is one that a strict server would refuse.
        """
        return await self._reached().run_async(lambda tk: self._compacted(tk, history, asked))

    async def _compacted(self, tk: Threadkeep, history: Sequence[Message], asked: Asked) -> Done:
        thread = await self._followed(tk, history)
        figures = None
        order = _order(tk, history, asked)
        try:
            figures = _figures(await thread.carry_out(order))
            if len(await thread.window(to_send=True)) >= len(history):
                # A host that ran into its limit tries again only with fewer messages, however much smaller they became.
                fewer = _figures(await thread.carry_out(replace(order, target=FEWER_MESSAGES)))
                figures = replace(fewer, tokens_before=figures.tokens_before)
        except NothingToCompact as nothing:
            # The host may not have kept the last compacted list; then that one is handed out again.
            log.info("nothing to compact: %s", nothing)
        shorter = host_messages(await thread.window(to_send=True), history)
        if size_of(shorter) >= size_of(history):
            return Done(messages=None, figures=figures)
        faults = faults_in(shorter)
        if faults:
            raise BadInput(f"the compacted list of thread {thread.id!r} cannot be sent: {'; '.join(faults)}")
        return Done(messages=shorter, figures=figures)

    async def _followed(self, tk: Threadkeep, history: Sequence[Message]) -> Thread:
        thread = await self._begun(tk)
        window = await thread.window(to_send=True)
        shown = respelled([item_of(message) for message in history], window)
        items = unjoined(shown, window[-1] if window else None)
        return await follow(tk, thread.id, DIALECT, items, model=self.model or None)

    async def _begun(self, tk: Threadkeep) -> Thread:
        """Return the session's thread: a fork of another session's where the host went on from that one."""
        if self.parent and not await _is_there(tk, self.thread_id) and await _is_there(tk, make_thread_id(self.parent)):
            parent = await tk.thread(make_thread_id(self.parent), dialect=DIALECT)
            return await parent.fork(new_id=self.thread_id)
        return await tk.thread(self.thread_id, dialect=DIALECT)

    def look_up_parent(self) -> None:
        """Ask the host's database which session this one continues; it is the host's to call it on a thread of its own."""
        look_up = getattr(self.database, "get_session", None)
        row = look_up(self.id) if callable(look_up) and self.id and not self.parent else None
        parent = row.get("parent_session_id") if isinstance(row, Mapping) else None
        self.parent = parent if isinstance(parent, str) else self.parent

    def _reached(self) -> StoreHandle:
        home = self.home or Path(os.environ.get("HERMES_HOME") or "~/.hermes").expanduser()
        if self._handle is None or self._handle[0] != home:
            # A `threadkeep.toml` of the folder the agent happens to work in is not the user's word; the one beside the host's is.
            self._handle = home, StoreHandle(build_config(resolve(flags={}, environ=os.environ, project=None, host=home)))
        return self._handle[1]


async def _is_there(tk: Threadkeep, thread_id: str) -> bool:
    try:
        await tk.backend.store.get(thread_id)
    except ThreadNotFound:
        return False
    return True


def _order(tk: Threadkeep, history: Sequence[Message], asked: Asked) -> Order:
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


def _figures(report: CompactionReport) -> Compacted:
    audit = report.audit.counts()
    return Compacted(
        strategy=report.strategy,
        tokens_before=report.tokens_before,
        tokens_after=report.tokens_after,
        model_calls=report.model_calls,
        required=audit["required"],
        kept=audit["kept"],
        repaired=audit["repaired"],
    )


__all__ = ["ARGUMENT", "NAME", "SCHEMA", "answer"]

SCHEMA: Final[dict[str, Any]] = {"name": NAME, "description": DESCRIPTION, "parameters": dict(PARAMETERS)}
# How an answer begins on the wire, so that a later question does not find it in place of the original.
OPENING: Final = '{"recalled"'


async def answer(thread: Thread, query: str) -> dict[str, Any]:
    """Return the originals that answer `query`, best first, with their pointers."""
    found = await recall_for_tool(thread, query)
    return {"recalled": [{"pointer": str(hit.pointer), "text": hit.text} for hit in found]}
