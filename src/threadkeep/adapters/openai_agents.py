"""OpenAI Agents SDK: a session that keeps every item and gives the runner a window that fits.

    session = ThreadkeepSession("ship-it", "agent.db")
    result = await Runner.run(agent, "Ship it.", session=session)

Items are recorded as the runner stores them. `get_items` returns the window, compacted first if it no longer fits; `recall_tool`
finds what left it. `model_input_filter` does the same within a run of many calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
from threadkeep.adapters.host_history import fit_window
from threadkeep.adapters.item_rollback import clear_thread, pop_newest_item
from threadkeep.client import Head, Thread, Threadkeep, Window
from threadkeep.compaction.strategies.strategy import Phase
from threadkeep.errors import CompactionError, Conflict, ModelError, NothingToCompact, OrdinalConflict
from threadkeep.items import decode_json
from threadkeep.llm.base import Model
from threadkeep.recall.tool import DESCRIPTION, NAME, render_recall

DIALECT = RESPONSES.name

T = TypeVar("T")
Items = list[TResponseInputItem]
ShouldCompact = Callable[[dict[str, Any]], bool]


class ThreadkeepSession:
    """A thread as the SDK's `Session`, with `run_compaction` like the SDK's own compacting session.

    Several tasks and processes may share a session; each call appends as one unit.
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
        """Set up a session; its thread is created by the first call.

        Args:
            session_id: Also the thread's id, if it is a valid one.
            store: A path, settings or an open store; None takes that of the configuration.
            model: A model's name, for its limits, or a model that compactions may also ask.
            should_trigger_compaction: Called after each turn with the SDK's own arguments; a reached limit compacts anyway.
            session_settings: `limit` bounds what `get_items` returns by default.

        Raises:
            BadInput: A configuration file or variable cannot be understood.
        """
        self.session_id = session_id
        self.session_settings = session_settings
        self.trouble: str | None = None
        """Why the last automatic compaction that was due failed, for people; None if it did not."""
        self._handle = StoreHandle(store)
        self._store = store
        self._model = model
        self._should_compact = should_trigger_compaction

    @property
    def thread_id(self) -> str:
        """The thread of this session, for the command line, the viewer and `Threadkeep.thread`."""
        return make_thread_id(self.session_id)

    async def get_items(self, limit: int | None = None) -> Items:
        """Return the window, compacted first if it no longer fits; with a limit, its newest items, without a compaction.

        Raises:
            CompactionStopped: A hook ended the turn.
        """
        bound = limit if limit is not None or self.session_settings is None else self.session_settings.limit
        if bound is None:
            return await self._run(lambda _, thread: self._fit_window(thread))
        window = await self._run(lambda _, thread: thread.window())
        return _to_items(window[-bound:] if bound > 0 else [])

    async def add_items(self, items: Items) -> None:
        """Append `items` as one unit. Durable when it returns.

        Raises:
            InvalidItem: One of them is not an item of the Responses API; nothing was recorded.
        """
        if items:
            await self._run(lambda _, thread: thread.record([decode_json(thread.dialect.parse(item).raw) for item in items]))

    async def pop_item(self) -> TResponseInputItem | None:
        """Roll back the newest item and return it; None if there is none. It stays in the records."""
        return cast("TResponseInputItem | None", await self._run(pop_newest_item))

    async def clear_session(self) -> None:
        """Empty the window. Everything stays in the records."""
        await self._run(clear_thread)

    async def run_compaction(
        self, args: OpenAIResponsesCompactionArgs | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Compact if it is due or forced by `args`; the runner calls this after each turn.

        The provider's count corrects later estimates, because instructions and tools fill the window too.

        Raises:
            ThreadkeepError: A forced compaction failed. One that is only due never raises; see `trouble`.
        """
        asked = args or OpenAIResponsesCompactionArgs()
        await self._run(lambda _, thread: self._compact_if_due(thread, asked, wrapper))

    async def fork(self, session_id: str, *, before_turn: int | None = None) -> ThreadkeepSession:
        """Return a session that continues this one from its end, or from before one of its turns; nothing is copied.

        Raises:
            ThreadExists: There is a session of that name.
            InvalidTarget: There is no such turn.
        """
        new_id = make_thread_id(session_id)
        await self._run(lambda _, thread: thread.fork(before_turn=before_turn, new_id=new_id))
        return ThreadkeepSession(
            session_id,
            self._store,
            model=self._model,
            should_trigger_compaction=self._should_compact,
            session_settings=self.session_settings,
        )

    async def rollback(self, *, turns: int = 1) -> None:
        """Roll back the last `turns` turns, across any number of compactions.

        Raises:
            NotEnoughTurns: There are fewer turns. Nothing changed.
        """
        await self._run(lambda _, thread: thread.rollback(turns=turns))

    async def undo(self) -> None:
        """Undo the newest compaction.

        Raises:
            NothingToUndo: There is none.
        """
        await self._run(lambda _, thread: thread.undo())

    async def model_input_filter(self, data: CallModelData[Any]) -> ModelInputData:
        """Send a call within a run the window that fits; for `RunConfig(call_model_input_filter=...)`.

        Items that the runner has not stored yet are sent unchanged, and so is a history limited to its newest items.
        """
        sent = data.model_data
        head = Head(system=sent.instructions)
        window = await self._run(lambda _, thread: self._filter_input(thread, sent.input, head=head))
        return ModelInputData(input=window, instructions=sent.instructions)

    def recall_tool(self) -> FunctionTool:
        """Return a tool that finds originals word for word, also those that were compacted away."""

        async def recall(query: str) -> str:
            return await self._run(lambda _, thread: render_recall(thread, query))

        return function_tool(recall, name_override=NAME, description_override=DESCRIPTION)

    async def _run(self, work: Callable[[Threadkeep, Thread], Awaitable[T]]) -> T:
        """Call `work` with the thread, again if another writer appended first."""

        async def work_until_done(tk: Threadkeep) -> T:
            while True:
                try:
                    return await work(tk, await open_thread(tk, self.session_id, dialect=DIALECT))
                except OrdinalConflict:
                    continue

        return await self._handle.run_async(work_until_done)

    async def _fit_window(self, thread: Thread, *, head: Head | None = None, phase: Phase = "pre_turn") -> Items:
        window = await fit_window(thread, model=self._model, head=head, phase=phase)
        self.trouble = window.trouble
        return _to_items(window)

    async def _filter_input(self, thread: Thread, sent: Items, *, head: Head) -> Items:
        known = [_canonicalise(thread, item) for item in await thread.window()]
        shown = [_canonicalise(thread, item) for item in (*sent[:1], *sent[-1:])]
        is_recorded = bool(known and shown) and known[-1] == shown[-1]
        # A run limited to the newest items starts in the middle of the window, and must stay there.
        is_part = bool(shown) and len(sent) < len(known) and known[-len(sent)] == shown[0]
        return await self._fit_window(thread, head=head, phase="mid_turn") if is_recorded and not is_part else sent

    async def _compact_if_due(
        self, thread: Thread, args: OpenAIResponsesCompactionArgs, wrapper: RunContextWrapper[Any] | None
    ) -> None:
        for usage in wrapper.usage.request_usage_entries[-1:] if wrapper is not None else ():
            # The answer is in the window now, so both counts belong to it.
            counted = usage.input_tokens + usage.output_tokens if usage.input_tokens else 0
            await thread.record_usage(input_tokens=counted, output_tokens=usage.output_tokens)
        if args.get("force"):
            await self._compact(thread)
            return
        try:
            window = await fit_window(thread, model=self._model, phase="standalone_turn")
            self.trouble = window.trouble
            if self._should_compact is not None and self._should_compact(_describe_for_trigger(window, args)):
                await self._compact(thread)
        except (CompactionError, Conflict, ModelError) as error:
            self.trouble = str(error)

    async def _compact(self, thread: Thread) -> None:
        with suppress(NothingToCompact):
            await thread.compact(model=None if isinstance(self._model, str) else self._model)


def _describe_for_trigger(window: Window, args: OpenAIResponsesCompactionArgs) -> dict[str, Any]:
    items = _to_items(window)
    return {
        "response_id": args.get("response_id"),
        "compaction_mode": "input",
        "compaction_candidate_items": select_compaction_candidate_items(items),
        "session_items": items,
    }


def _to_items(window: list[dict[str, Any]]) -> Items:
    return cast("Items", list(window))


def _canonicalise(thread: Thread, item: object) -> bytes:
    return thread.dialect.canonical(thread.dialect.parse(item))
