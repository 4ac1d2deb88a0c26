"""OpenAI Agents SDK: a session that keeps everything, and hands the runner a window that fits.

    session = ThreadkeepSession("ship-it", "agent.db")
    result = await Runner.run(agent, "Ship it.", session=session)

Items are recorded as the runner stores them. `get_items` returns the window, compacted first where it no longer fits; what left
it stays in the thread, where `recall_tool` finds it. `model_input_filter` does the same within a run of many calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

from threadkeep.adapters import missing_host
from threadkeep.dialects import RESPONSES

try:
    from agents import FunctionTool, RunContextWrapper, function_tool
    from agents.items import TResponseInputItem
    from agents.memory import OpenAIResponsesCompactionArgs, SessionSettings
    from agents.memory.openai_responses_compaction_session import select_compaction_candidate_items
    from agents.run_config import CallModelData, ModelInputData
except ImportError as error:
    raise missing_host("the OpenAI Agents SDK", error, install="'threadkeep[openai-agents]'") from error

from threadkeep.adapters.bridge import StoreHandle, StoreName, make_thread_id, open_thread
from threadkeep.adapters.item_rollback import clear_thread, pop_newest_item, record_foreign_compaction
from threadkeep.adapters.window import fit_window
from threadkeep.client import Head, Thread, Threadkeep, Window
from threadkeep.compaction.engine import Phase
from threadkeep.errors import CompactionError, Conflict, ModelError, NothingToCompact, OrdinalConflict
from threadkeep.items import decode_json
from threadkeep.llm.base import Model
from threadkeep.recall.tool import DESCRIPTION, NAME, render_recall

DIALECT = RESPONSES.name

T = TypeVar("T")
Items = list[TResponseInputItem]
ShouldCompact = Callable[[dict[str, Any]], bool]


class ThreadkeepSession:
    """A thread as the SDK's `Session`; also answers `run_compaction`, as the SDK's own compacting session does.

    Writers in several tasks and processes may share a session: each call appends as one unit, after whatever came first.
    """

    def __init__(
        self,
        session_id: str,
        store: StoreName = None,
        *,
        model: str | Model | None = None,
        should_trigger_compaction: ShouldCompact | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """Name a session; it is created with its first item.

        Args:
            session_id: Also the thread's id, where it can be one.
            store: A path, settings or an open store; None takes what the configuration names.
            model: Whose limits count, by name; or a model, which compactions may ask too.
            should_trigger_compaction: Asked after each turn, with what the SDK's own session would ask it; a limit that is
                reached compacts whatever it says.
            session_settings: `limit` bounds what `get_items` returns by default.

        Raises:
            BadInput: A configuration file or variable cannot be understood.
        """
        self.session_id = session_id
        self.session_settings = session_settings
        self.trouble: str | None = None
        """Why the last automatic compaction that was due did not happen, in words for a person; None if it did."""
        self._handle = StoreHandle(store)
        self._store = store
        self._model = model
        self._should_compact = should_trigger_compaction

    @property
    def thread_id(self) -> str:
        """The thread this session is, for the command line, the viewer and `Threadkeep.thread`."""
        return make_thread_id(self.session_id)

    async def get_items(self, limit: int | None = None) -> Items:
        """Return the window, compacted first where it no longer fits; with a limit, the latest so many of it, as it is.

        Raises:
            CompactionStopped: A hook wants the turn to end.
        """
        bound = limit if limit is not None or self.session_settings is None else self.session_settings.limit
        if bound is None:
            return await self._in_thread(lambda _, thread: self._fitting(thread))
        window = await self._in_thread(lambda _, thread: thread.window())
        return _items(window[-bound:] if bound > 0 else [])

    async def add_items(self, items: Items) -> None:
        """Append `items` as one unit. Durable when it returns.

        Raises:
            InvalidItem: One of them is no item of the Responses API; nothing was recorded.
        """
        if items:
            await self._in_thread(lambda tk, thread: _added(tk, thread, items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item back and return it; None where there is none. It stays in the records."""
        return cast("TResponseInputItem | None", await self._in_thread(pop_newest_item))

    async def clear_session(self) -> None:
        """Begin again with an empty window. Everything that was there stays in the records."""
        await self._in_thread(clear_thread)

    async def run_compaction(
        self, args: OpenAIResponsesCompactionArgs | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Compact if that is due or `args` forces it; the runner calls this after each turn.

        What the provider counted for the turn corrects later estimates: instructions and tools fill the window too.

        Raises:
            ThreadkeepError: A forced compaction failed. One that is merely due never raises; see `trouble`.
        """
        asked = args or OpenAIResponsesCompactionArgs()
        await self._in_thread(lambda _, thread: self._compaction(thread, asked, wrapper))

    async def fork(self, session_id: str, *, before_turn: int | None = None) -> ThreadkeepSession:
        """Return a session that begins where this one is, or before one of its turns; nothing is copied.

        Raises:
            ThreadExists: There is a session of that name.
            InvalidTarget: There is no such turn.
        """
        new_id = make_thread_id(session_id)
        await self._in_thread(lambda _, thread: thread.fork(before_turn=before_turn, new_id=new_id))
        return ThreadkeepSession(
            session_id,
            self._store,
            model=self._model,
            should_trigger_compaction=self._should_compact,
            session_settings=self.session_settings,
        )

    async def rollback(self, *, turns: int = 1) -> None:
        """Take back the last `turns` turns, across any number of compactions.

        Raises:
            NotEnoughTurns: There are fewer turns. Nothing changed.
        """
        await self._in_thread(lambda _, thread: thread.rollback(turns=turns))

    async def undo(self) -> None:
        """Take back the newest compaction.

        Raises:
            NothingToUndo: There is none.
        """
        await self._in_thread(lambda _, thread: thread.undo())

    async def model_input_filter(self, data: CallModelData[Any]) -> ModelInputData:
        """Give a call within a run the window that fits; for `RunConfig(call_model_input_filter=...)`.

        What the runner holds and has not stored yet goes out as it is; so does a history limited to its latest items.
        """
        sent = data.model_data
        head = Head(system=sent.instructions)
        window = await self._in_thread(lambda _, thread: self._within_run(thread, sent.input, head=head))
        return ModelInputData(input=window, instructions=sent.instructions)

    def recall_tool(self) -> FunctionTool:
        """Return a tool for the agent: what was said or returned before, word for word, also what was compacted away."""

        async def recall(query: str) -> str:
            return await self._in_thread(lambda _, thread: render_recall(thread, query))

        return function_tool(recall, name_override=NAME, description_override=DESCRIPTION)

    async def _in_thread(self, work: Callable[[Threadkeep, Thread], Awaitable[T]]) -> T:
        """Return what `work` makes of the thread as it is now; where another writer came first, of the thread after that."""

        async def worked(tk: Threadkeep) -> T:
            while True:
                try:
                    return await work(tk, await open_thread(tk, self.session_id, dialect=DIALECT))
                except OrdinalConflict:
                    continue

        return await self._handle.run_async(worked)

    async def _fitting(self, thread: Thread, *, head: Head | None = None, phase: Phase = "pre_turn") -> Items:
        window = await fit_window(thread, model=self._model, head=head, phase=phase)
        self.trouble = window.trouble
        return _items(window)

    async def _within_run(self, thread: Thread, sent: Items, *, head: Head) -> Items:
        known = [_canonical(thread, item) for item in await thread.window()]
        shown = [_canonical(thread, item) for item in (*sent[:1], *sent[-1:])]
        is_recorded = bool(known and shown) and known[-1] == shown[-1]
        # A run that asked for the latest few items only begins in the middle of the window, and is to stay there.
        is_part = bool(shown) and len(sent) < len(known) and known[-len(sent)] == shown[0]
        return await self._fitting(thread, head=head, phase="mid_turn") if is_recorded and not is_part else sent

    async def _compaction(
        self, thread: Thread, args: OpenAIResponsesCompactionArgs, wrapper: RunContextWrapper[Any] | None
    ) -> None:
        for usage in wrapper.usage.request_usage_entries[-1:] if wrapper is not None else ():
            # The answer is in the window by now, and is input from here on.
            counted = usage.input_tokens + usage.output_tokens if usage.input_tokens else 0
            await thread.record_usage(input_tokens=counted, output_tokens=usage.output_tokens)
        if args.get("force"):
            await self._compacted(thread)
            return
        try:
            window = await fit_window(thread, model=self._model, phase="standalone_turn")
            self.trouble = window.trouble
            if self._should_compact is not None and self._should_compact(_context(window, args)):
                await self._compacted(thread)
        except (CompactionError, Conflict, ModelError) as error:
            self.trouble = str(error)

    async def _compacted(self, thread: Thread) -> None:
        with suppress(NothingToCompact):
            await thread.compact(model=None if isinstance(self._model, str) else self._model)


async def _added(tk: Threadkeep, thread: Thread, items: Sequence[object]) -> None:
    given = [decode_json(thread.dialect.parse(item).raw) for item in items]
    # A session of the SDK that compacts by itself replaces: it clears, then adds what the provider made of everything.
    compacted = any(item.get("type") == "compaction" for item in given)
    if not (compacted and await record_foreign_compaction(tk, thread, given)):
        await thread.record(given)


def _context(window: Window, args: OpenAIResponsesCompactionArgs) -> dict[str, Any]:
    items = _items(window)
    return {
        "response_id": args.get("response_id"),
        "compaction_mode": "input",
        "compaction_candidate_items": select_compaction_candidate_items(items),
        "session_items": items,
    }


def _items(window: list[dict[str, Any]]) -> Items:
    return cast("Items", list(window))


def _canonical(thread: Thread, item: object) -> bytes:
    return thread.dialect.canonical(thread.dialect.parse(item))
