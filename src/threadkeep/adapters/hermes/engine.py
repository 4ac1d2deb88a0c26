"""The context engine of Hermes, importable without Hermes, and the thread that holds a session's history.

The host writes to its attributes, copies it for every agent, calls it from its own threads, filters arguments by signature,
and fails the turn if it raises. So it has no slots, no locks and no open store (the bridge has that), accepts every optional
argument, and raises nothing to the host; errors are in `trouble`, in the status, and in the warning that the host shows.
"""

from __future__ import annotations

import json
import logging
import os
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from uuid import uuid4

from threadkeep.adapters.bridge import StoreHandle, make_thread_id, shared
from threadkeep.adapters.hermes.messages import (
    Message,
    drop_stored_mark,
    filter_messages,
    make_host_messages,
    make_item,
    measure_messages,
    parse_count,
    restore_joined_text,
    rough_tokens,
    split_head,
    split_joined_message,
)
from threadkeep.adapters.host_history import follow
from threadkeep.client import CompactionReport, Thread, Threadkeep, build_config, resolve
from threadkeep.compaction.backend import Order
from threadkeep.dialects import CHAT
from threadkeep.errors import NothingToCompact, ThreadNotFound
from threadkeep.recall.tool import ARGUMENT, DESCRIPTION, NAME, PARAMETERS, recall_for_tool
from threadkeep.tokens import Limits

T = TypeVar("T")

log = logging.getLogger("threadkeep.hermes")

ENGINE: Final = "threadkeep"
# Reasons for which a session continues another one.
CONTINUING: Final = ("compression", "branch")
# After a futile compaction, the window must grow to this percentage before another is tried.
GROWTH_PERCENT: Final = 110
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


class CompactionOutcome(NamedTuple):
    """The compacted list, or None if there is none, and the report of the compaction, if one was made."""

    messages: list[Message] | None
    report: CompactionReport | None


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
        """Record new messages, compact, and return the host's new list. Durable when it returns."""
        return await self._open_handle().run_async(lambda tk: self._compact(tk, history, asked))

    async def _compact(self, tk: Threadkeep, history: Sequence[Message], asked: CompactionRequest) -> CompactionOutcome:
        thread = await self._follow(tk, history)
        report = None
        order = _make_order(tk, history, asked)
        try:
            report = await thread.carry_out(order)
            if len(await thread.window(to_send=True)) >= len(history):
                # After hitting its limit, the host retries only with fewer messages, not with smaller ones.
                fewer = await thread.carry_out(replace(order, target=FEWER_MESSAGES))
                report = replace(fewer, tokens_before=report.tokens_before)
        except NothingToCompact as nothing:
            # The host may have lost the last compacted list; then it gets that one again.
            log.info("nothing to compact: %s", nothing)
        shorter = make_host_messages(await thread.window(to_send=True), history)
        is_smaller = measure_messages(shorter) < measure_messages(history)
        return CompactionOutcome(shorter if is_smaller else None, report)

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


def _describe_compaction(report: CompactionReport) -> dict[str, Any]:
    audit = report.audit.counts()
    return {
        **{name: getattr(report, name) for name in ("strategy", "tokens_before", "tokens_after", "model_calls")},
        **{name: audit[name] for name in ("required", "kept", "repaired")},
    }


SCHEMA: Final[dict[str, Any]] = {"name": NAME, "description": DESCRIPTION, "parameters": dict(PARAMETERS)}


async def recall_originals(thread: Thread, query: str) -> dict[str, Any]:
    """Return the originals that match `query`, best first, with their pointers."""
    found = await recall_for_tool(thread, query)
    return {"recalled": [{"pointer": str(hit.pointer), "text": hit.text} for hit in found]}


class Engine:
    """One agent's engine. `thread_id` is the thread that holds its session's history."""

    # Attributes that the host reads and writes.
    last_prompt_tokens: int = 0
    last_completion_tokens: int = 0
    last_total_tokens: int = 0
    last_real_prompt_tokens: int = 0
    threshold_tokens: int = 0
    context_length: int = 0
    compression_count: int = 0
    threshold_percent: float = 0.75
    # The host counts protected messages; threadkeep protects by tokens.
    protect_first_n: int = 1
    protect_last_n: int = 1
    quiet_mode: bool = True
    awaiting_real_usage_after_compression: bool = False
    _last_compression_made_progress: bool = False
    _last_compress_aborted: bool = False
    _last_summary_error: str | None = None
    _last_summary_fallback_used: bool = False

    def __init__(self) -> None:
        self._session = HostSession(unnamed=f"hermes-{uuid4().hex}")
        self._futile_at = 0
        self._compacted: CompactionReport | None = None
        self.trouble: str | None = None

    def __deepcopy__(self, memo: dict[int, object]) -> Engine:
        """Return an engine for another agent: the same settings, no session yet."""
        copied = type(self)()
        copied.context_length, copied.threshold_tokens = self.context_length, self.threshold_tokens
        copied._session.home, copied._session.model = self._session.home, self._session.model
        return copied

    @property
    def name(self) -> str:
        return ENGINE

    @property
    def thread_id(self) -> str:
        return self._session.thread_id

    def is_available(self) -> bool:
        return True

    def bind_session_state(self, session_db: Any = None, session_id: str = "", **_: object) -> None:
        self._session.database = session_db
        self._session.id = str(session_id or self._session.id)

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """Start a session; the host also calls this after every compaction, without most arguments."""
        session = self._session
        session.id = str(session_id or session.id)
        session.model = str(kwargs.get("model") or session.model)
        if kwargs.get("hermes_home"):
            session.home = Path(str(kwargs["hermes_home"]))
        old = kwargs.get("old_session_id")
        if isinstance(old, str) and old != session.id and kwargs.get("boundary_reason") in CONTINUING:
            session.parent = old
        _live.add(self)
        log.info("threadkeep keeps session %s as thread %s", session.id, session.thread_id)

    def on_session_end(self, session_id: str, messages: Sequence[Message] | None = None, **_: object) -> None:
        """Record the end of the session. The host also calls this after a compaction with the old list, which changes nothing."""
        if session_id == self._session.id:
            self._observe(messages)

    def on_turn_complete(self, messages: Sequence[Message] | None = None, usage: object = None, **_: object) -> None:
        """Record a turn; only some hosts call this."""
        self._observe(messages)

    def on_session_reset(self) -> None:
        self.last_prompt_tokens = self.last_completion_tokens = self.last_total_tokens = 0
        self.compression_count = self._futile_at = 0
        self._compacted = self.trouble = None

    def update_model(self, model: str = "", context_length: int = 0, *_: object, **__: object) -> None:
        """Set the next model and its window; other arguments, API keys among them, are ignored."""
        self._session.model = str(model or self._session.model)
        self.context_length = parse_count(context_length) or self.context_length
        self.threshold_tokens = int(self.context_length * self.threshold_percent)
        self._futile_at = 0

    def update_from_response(self, usage: Mapping[str, object] | None) -> None:
        """Take the provider's counts; a value that is not a number counts as missing."""
        said = usage if isinstance(usage, Mapping) else {}
        self.last_prompt_tokens = parse_count(said.get("prompt_tokens")) or parse_count(said.get("input_tokens"))
        self.last_completion_tokens = parse_count(said.get("completion_tokens")) or parse_count(said.get("output_tokens"))
        self.last_total_tokens = parse_count(said.get("total_tokens")) or self.last_prompt_tokens + self.last_completion_tokens
        if self.last_prompt_tokens:
            self.last_real_prompt_tokens = self.last_prompt_tokens
        self.awaiting_real_usage_after_compression = False

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether the next request is too large, and a compaction could help."""
        tokens = parse_count(self.last_prompt_tokens if prompt_tokens is None else prompt_tokens)
        if not 0 < self.threshold_tokens <= tokens:
            return False
        return tokens * 100 > self._futile_at * GROWTH_PERCENT

    def should_compress_preflight(self, messages: Sequence[Message]) -> bool:
        return self.should_compress(self._safely(lambda: rough_tokens(filter_messages(messages))) or 0)

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        return False

    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        """Whether there is anything before the newest request."""
        _, history = split_head(filter_messages(messages))
        return any(message.get("role") == "assistant" for message in history)

    def compress(
        self,
        messages: list[Message] | None,
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,  # noqa: FBT001, FBT002  # the host's contract
        memory_context: str = "",
        **_: object,
    ) -> list[Message]:
        """Return a compacted list, or the same list if that is the best there is.

        Never raises, and never returns a longer list or one that a strict server refuses. Durable when it returns.
        """
        self._last_compression_made_progress = self._last_compress_aborted = False
        self._last_summary_error = None
        tokens = parse_count(current_tokens) or self._safely(lambda: rough_tokens(filter_messages(messages))) or 0
        head, history = split_head(filter_messages(messages))
        asked = CompactionRequest(
            tokens=tokens,
            threshold_tokens=parse_count(self.threshold_tokens),
            context_length=parse_count(self.context_length),
            focus=focus_topic if isinstance(focus_topic, str) else None,
            forced=bool(force),
        )
        done = self._run(lambda: self._session.compact(history, asked))
        if done is None or done.messages is None:
            self._futile_at = tokens
            self._last_compress_aborted, self._last_summary_error = self.trouble is not None, self.trouble
            return messages if isinstance(messages, list) else filter_messages(messages)
        self._futile_at = 0
        self.compression_count += 1
        self._compacted = done.report or self._compacted
        self._last_compression_made_progress = True
        return [*map(drop_stored_mark, head), *done.messages]

    def _observe(self, messages: Sequence[Message] | None) -> None:
        """Record the host's list, unless it is empty, as that of an agent that shuts down."""
        _, history = split_head(filter_messages(messages))
        if history:
            self._run(lambda: self._session.observe(history))

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Call `work` on the bridge; see `_safely`."""

        def awaited() -> T:
            self._session.find_parent()
            return shared.run(work())

        return self._safely(awaited)

    def _safely(self, work: Callable[[], T]) -> T | None:
        """Call `work`; if it fails, set `trouble` and return None."""
        self.trouble = None
        try:
            return work()
        except Exception as error:  # noqa: BLE001  # any error that leaves here would fail the host's turn
            self.trouble = f"{type(error).__name__}: {error}"
            log.warning("threadkeep failed: %s", self.trouble)
            return None

    def get_tool_schemas(self) -> list[Message]:
        return [dict(SCHEMA)]

    def handle_tool_call(self, name: str, args: Mapping[str, object] | None = None, **kwargs: Any) -> str:
        """Answer a call of the recall tool as JSON; an error is in `error`."""
        query = args.get(ARGUMENT) if isinstance(args, Mapping) else None
        if name != NAME or not isinstance(query, str) or not query.strip():
            wanted = f"{NAME} needs {ARGUMENT!r}, a text" if name == NAME else f"there is no tool {name!r}"
            return json.dumps({"error": wanted})
        _, history = split_head(filter_messages(kwargs.get("messages")))
        found = self._run(lambda: self._session.recall(query, history))
        return json.dumps({"error": self.trouble or "nothing can be recalled"} if found is None else found)

    def get_status(self) -> dict[str, Any]:
        """Return the figures that the host expects, and threadkeep's own."""
        used = parse_count(self.last_prompt_tokens)
        return {
            "engine": ENGINE,
            "last_prompt_tokens": used,
            "threshold_tokens": self.threshold_tokens,
            "context_length": self.context_length,
            "usage_percent": min(100, used / self.context_length * 100) if self.context_length else 0,
            "compression_count": self.compression_count,
            "session_id": self._session.id,
            "thread": self.thread_id,
            "last_compaction": _describe_compaction(self._compacted) if self._compacted else None,
            "trouble": self.trouble,
        }


# The engines of sessions that run in this process.
_live: weakref.WeakSet[Engine] = weakref.WeakSet()


def show_figures(raw_args: str = "") -> str:
    """Return the figures of every session of this process, for people."""
    lines: list[str] = []
    for status in sorted((engine.get_status() for engine in _live), key=lambda status: str(status["session_id"])):
        last = status["last_compaction"]
        lines.append(f"session {status['session_id']}, thread {status['thread']}")
        lines.append(
            f"  context {status['last_prompt_tokens']:,} of {status['context_length']:,} tokens,"
            f" compacts at {status['threshold_tokens']:,}; {status['compression_count']} compactions"
        )
        if last:
            lines.append(
                f"  last: {last['tokens_before']:,} to {last['tokens_after']:,} tokens ({last['strategy']},"
                f" {last['model_calls']} model calls); {last['required']} required, {last['kept'] + last['repaired']} kept"
            )
        if status["trouble"]:
            lines.append(f"  trouble: {status['trouble']}")
    return "\n".join(lines) or "threadkeep is registered; no session uses it yet"
