"""The context engine of Hermes, importable without Hermes.

The host writes to its attributes, copies it for every agent, calls it from its own threads, filters arguments by signature,
and fails the turn if it raises. So it has no slots, no locks and no open store (the bridge has that), accepts every optional
argument, and raises nothing to the host; errors are in `trouble`, in the status, and in the warning that the host shows.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from threadkeep.adapters.bridge import shared
from threadkeep.adapters.hermes.messages import Message, drop_stored_mark, filter_messages, parse_count, rough_tokens, split_head
from threadkeep.adapters.hermes.session import SCHEMA, CompactionFigures, CompactionRequest, HostSession
from threadkeep.recall.tool import ARGUMENT, NAME

T = TypeVar("T")

log = logging.getLogger("threadkeep.hermes")

ENGINE: Final = "threadkeep"
# Reasons for which a session continues another one.
CONTINUING: Final = ("compression", "branch")
# After a futile compaction, the window must grow to this percentage before another is tried.
GROWTH_PERCENT: Final = 110


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
        self._compacted: CompactionFigures | None = None
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

    def update_from_response(self, usage: Mapping[str, Any] | None) -> None:
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
        self._compacted = done.figures or self._compacted
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

    def handle_tool_call(self, name: str, args: Mapping[str, Any] | None = None, **kwargs: Any) -> str:
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
            "last_compaction": asdict(self._compacted) if self._compacted else None,
            "trouble": self.trouble,
        }
