"""The agent loop: ask the model, record its reply, run its tool calls, and ask again until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from threadkeep.client import CompactionReport, Head, Thread, Threadkeep, TurnScope, Window
from threadkeep.compaction.backend import Order
from threadkeep.dialects import Dialect, Request, ToolCall, find_dialect
from threadkeep.errors import (
    CompactionError,
    CompactionStopped,
    Conflict,
    InvalidArgument,
    ModelOverflow,
    ModelUnavailable,
    UnknownModel,
)
from threadkeep.items import Item, decode_json, repair_surrogates
from threadkeep.llm import Delta, Model, ModelReply, RetryPolicy, StreamingModel
from threadkeep.llm.answers import read_speech
from threadkeep.memory.memory import Memories
from threadkeep.recall.tool import DESCRIPTION, PARAMETERS, render_recall
from threadkeep.session.events import Answer, Asked, Called, Compacted, Event, Hear, Returned, Said, Trouble, nobody_hears
from threadkeep.session.tools import Tool, memory_tools, run_tool, tool_from
from threadkeep.threads.sealed_items import find_account
from threadkeep.threads.turn_state import TurnState

# How often a request that the provider refused for its size is compacted, and to what share of it.
OVERFLOWS = 2
AFTER_OVERFLOW = "50%"

Context = Mapping[str, object] | Callable[[], Mapping[str, object]]


@runtime_checkable
class StreamsItems(Protocol):
    """A model that hands over each item of its reply as soon as it is complete."""

    async def stream_items(
        self, request: Request, *, on_delta: Callable[[Delta], None], on_item: Callable[[Item], Awaitable[None]]
    ) -> ModelReply:
        """Send `request` and return the whole reply, as `StreamingModel.stream` does.

        `on_item` is awaited with each item, in output order, before more of the reply is read. If it raises, the call ends and
        the connection is closed.
        """
        ...


class _InterruptedByMail(Exception):
    """Mail must reach the model first; the rest of its reply is dropped."""


class ReplyRecorder:
    """Records a model's reply item by item while it arrives. One reply, in any number of tries.

    Each item is recorded before the next one is read. A thought or an intermediate remark ends the reply if mail waits.

    Attributes:
        cut_by: The error that ended the reply after some of its items were recorded.
    """

    def __init__(self, model: Model, turn: TurnScope, *, hear: Hear) -> None:
        self.name, self.dialect, self.window_tokens = model.name, model.dialect, model.window_tokens
        self._dialect = find_dialect(model.dialect)
        self.cut_by: ModelUnavailable | None = None
        self._model = model
        self._turn = turn
        self._hear = hear
        self._has_streamed_text = False
        self._recorded: list[Item] = []

    async def ask(self, request: Request) -> ModelReply:
        """Return the reply with the recorded items.

        Raises:
            ModelUnavailable: The model raised it before any item was recorded, so the request may be repeated.
        """
        try:
            # If a reply is a single message, there is nothing to record before its end.
            is_one_message = not self._dialect.wire.streams_items and isinstance(self._model, StreamingModel)
            if isinstance(self._model, StreamsItems) and not is_one_message:
                return await self._record_stream(self._model, request)
            return await self._record_reply(await self._request_reply(request))
        except _InterruptedByMail:
            return self._make_partial_reply()
        except ModelUnavailable as error:
            if not self._recorded:
                raise
            self.cut_by = error
            return self._make_partial_reply()

    async def _record_stream(self, model: StreamsItems, request: Request) -> ModelReply:
        reply = await model.stream_items(request, on_delta=self._report_delta, on_item=self._record)
        # The recorded items are in the window now, so both counts belong to it.
        counted = (reply.input_tokens or 0) + (reply.output_tokens or 0)
        await self._turn.record([], usage={"input_tokens": counted, "output_tokens": reply.output_tokens or 0})
        self._report_text(reply)
        return replace(reply, items=tuple(self._recorded))

    async def _record_reply(self, reply: ModelReply) -> ModelReply:
        usage = {"input_tokens": reply.input_tokens or 0, "output_tokens": reply.output_tokens or 0}
        await self._turn.record([], usage=usage)
        try:
            for item in reply.items:
                await self._record(item)
        except _InterruptedByMail:
            return replace(reply, items=tuple(self._recorded), text=self._make_partial_reply().text)
        self._report_text(reply)
        return reply

    async def _request_reply(self, request: Request) -> ModelReply:
        if isinstance(self._model, StreamingModel):
            return await self._model.stream(request, on_delta=self._report_delta)
        return await self._model.ask(request)

    async def _record(self, item: Item) -> None:
        # A reply cut inside an emoji ends with half of it, which no provider accepts.
        await self._turn.record([decode_json(repair_surrogates(item.raw))])
        self._recorded.append(item)
        if await self._turn.is_interrupted_by_mail():
            raise _InterruptedByMail

    def _make_partial_reply(self) -> ModelReply:
        return ModelReply(text=read_speech(self._recorded, dialect=self._dialect).text, items=tuple(self._recorded))

    def _report_text(self, reply: ModelReply) -> None:
        if reply.text and not self._has_streamed_text:
            self._hear(Said(text=reply.text))

    def _report_delta(self, delta: Delta) -> None:
        self._has_streamed_text = self._has_streamed_text or not delta.is_thought
        self._hear(Said(text=delta.text, is_thought=delta.is_thought))


class Session:
    """An agent on a thread. It records everything as it happens, so that it can continue after any interruption.

    It runs one turn at a time. A turn that ends beyond the soft limit starts a compaction in the background (`Thread.turn`).
    Leaving the session's context manager waits for that compaction; closing the store would cancel it.
    """

    def __init__(
        self,
        thread: Thread,
        *,
        model: str | Model,
        tools: Sequence[Tool | Callable[..., object]] = (),
        instructions: str | None = None,
        fields: Mapping[str, object] | None = None,
        context: Context | None = None,
        recall: bool = True,
        memory: Memories | None = None,
        patience: RetryPolicy | None = None,
    ) -> None:
        """Put an agent on `thread`.

        Args:
            model: A model or its name: `openai:NAME`, `anthropic:NAME`, `NAME@URL`.
            tools: Typed functions (see `tool_from`) or tools.
            fields: More fields of every request, in the provider's terms: `reasoning`, `context_management`. A compaction that
                the provider makes because of them becomes a checkpoint of the thread, with a readable state.
            context: The agent's environment, or a function that returns it at each turn; see `Thread.tell`.
            recall: Whether the model gets a tool to look up what was compacted away.
            memory: The memories of earlier threads (`tk.memory`). A summary is sent with the instructions, the model may search
                the rest, and memories that it cites count as used. None of it is recorded in the thread.
            patience: How often to retry when the provider is overloaded.

        Raises:
            UnknownModel: There is no such model, or its dialect is not the thread's.
            BadInput: A function cannot be a tool, or a field may not be set.
        """
        self.thread = thread
        self.model = thread.model(model) if isinstance(model, str) else model
        if self.model.dialect != thread.dialect.name:
            reason = f"its dialect is {self.model.dialect}, but that of thread {thread.id!r} is {thread.dialect.name}"
            raise UnknownModel(self.model.name, reason=reason)
        given = [*([self._make_recall_tool()] if recall else ()), *(memory_tools(memory) if memory else ()), *tools]
        made = [tool if isinstance(tool, Tool) else tool_from(tool) for tool in given]
        self.tools = {tool.name: tool for tool in made}
        offered = [_define_tool(tool, thread.dialect) for tool in self.tools.values()]
        self.head = Head(system=instructions, tools=tuple(offered), fields=fields or {})
        self._instructions = instructions
        self._memory = memory
        self._context = context
        self._patience = patience or RetryPolicy()
        self._checkpoint: int | None = None

    @classmethod
    async def open(cls, tk: Threadkeep, thread_id: str | None = None, *, model: str | Model, **more: Any) -> Self:
        """Resume a thread of `tk`, or create it in the model's dialect, and put an agent on it; `more` as in `Session`."""
        asked = tk.backend.models.get(model) if isinstance(model, str) else model
        return cls(await tk.thread(thread_id, dialect=asked.dialect), model=asked, **more)

    async def ask(self, said: str | Sequence[Mapping[str, object]] | None = None, *, hear: Hear = nobody_hears) -> Answer:
        """Run one turn and return its answer; `hear` is called with each event of the turn.

        The request is durable before the model is asked; replies and tool outputs are recorded as they arrive. After an error or
        a cancellation the thread can continue. Mail that is due joins the turn.

        Args:
            said: A person's words, or items in the thread's dialect; None continues an unfinished turn, or with mail.

        Raises:
            BadInput: The text is empty or something is not an item; nothing was recorded.
            ModelError: The model cannot be asked, or refuses this request.
            CompactionStopped: A hook ended the turn.
            OrdinalConflict: Another writer changed the thread's history meanwhile.
        """
        incoming = self._make_request(said)
        if not incoming and not await self._has_work():
            return Answer()
        await self._add_memory()
        async with self.thread.turn(incoming, model=self.model, head=self.head, context=self._read_context()) as turn:
            self._checkpoint = (await self.thread.history()).checkpoint_ordinal
            answer = await self._run_turn(turn, hear)
        hear(answer)
        return answer

    async def attend(self, *, hear: Hear = nobody_hears, timeout_s: float | None = None) -> Answer | None:
        """Wait until mail starts a turn, run it and return its answer; None if none starts within `timeout_s`.

        Mail that triggers or steers starts a turn, and so does any mail to a sleeping agent; queued mail waits for the next turn.
        Call it in a loop to run an agent that others work with. Raises what `ask` raises.
        """
        box = await self.thread.wait_for_turn(timeout_s=timeout_s)
        return await self.ask(hear=hear) if box.starts_turn else None

    def _make_request(self, said: str | Sequence[Mapping[str, object]] | None) -> list[Mapping[str, object]]:
        if not isinstance(said, str):
            return list(said or ())
        if not said.strip():
            raise InvalidArgument("said", "the message is empty, and providers refuse empty messages; nothing was recorded")
        return [decode_json(self.thread.dialect.make_user_message(said).raw)]

    async def _run_turn(self, turn: TurnScope, hear: Hear) -> Answer:
        """Ask the model and run its calls until the turn is over."""
        answer = Answer()
        is_running, cuts = True, 0
        while is_running:
            recorder = ReplyRecorder(self.model, turn, hear=hear)
            reply = await self._ask_model(turn, recorder, hear)
            answer = _add_reply(answer, reply)
            if self._memory is not None:
                await self._memory.cite_in(reply.text)
            await self._run_calls(turn, [call for item in reply.items for call in self.thread.dialect.view(item).calls], hear)
            is_running = await turn.goes_on()
            cuts = cuts + 1 if recorder.cut_by is not None else 0
            if recorder.cut_by is not None and not is_running and turn.state is not TurnState.COMMITTED:
                if cuts >= self._patience.attempts:
                    raise recorder.cut_by
                is_running = True
        return answer

    async def stream(self, said: str | Sequence[Mapping[str, object]] | None = None) -> AsyncGenerator[Event]:
        """Run one turn and yield its events, the answer last. Closing the iterator cancels the turn. Raises what `ask` raises."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        turn = asyncio.create_task(self.ask(said, hear=events.put_nowait))
        turn.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await turn
        finally:
            turn.cancel()
            await asyncio.wait((turn,))

    async def compact(self, *, focus: str | None = None, strategy: str | None = None) -> CompactionReport:
        """Compact now with the session's own model; raises what `Thread.compact` raises."""
        await self._add_memory()
        return await self.thread.carry_out(Order(model=self.model, focus=focus, strategy=strategy), head=self.head)

    async def window(self) -> Window:
        """Return what the model would be sent next, and its pressure."""
        await self._add_memory()
        return await self.thread.window(head=self.head, model=self.model, issuer=find_account(self.model))

    async def _add_memory(self) -> None:
        """Append the thread's memory summary to the instructions; its bytes stay the same as long as it may be shown."""
        if self._memory is not None:
            parts = (self._instructions, (await self._memory.shown_to(self.thread.id)).text)
            self.head = replace(self.head, system="\n\n".join(text for text in parts if text) or None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.thread.upkeep_is_over()

    def _read_context(self) -> Mapping[str, object] | None:
        return self._context() if callable(self._context) else self._context

    async def _has_work(self) -> bool:
        """Whether mail waits, or the last turn has no answer yet."""
        if (await self.thread.mail()).pending:
            return True
        last = await self.thread.newest_turn()
        return last is not None and last.state is not TurnState.CLOSED and last.progress.state is not TurnState.COMMITTED

    async def _ask_model(self, turn: TurnScope, recorder: ReplyRecorder, hear: Hear) -> ModelReply:
        """Return the model's reply; if the provider refuses the window for its size, compact it and ask again."""
        for _ in range(OVERFLOWS):
            try:
                return await self._send(await self._read_window(turn, hear), recorder, hear)
            except ModelOverflow as overflow:
                hear(Trouble(text=str(overflow)))
                try:
                    await turn.make_room(self._make_smaller_order())
                except CompactionStopped:
                    raise
                except (CompactionError, Conflict) as error:
                    raise overflow from error
        return await self._send(await self._read_window(turn, hear), recorder, hear)

    def _make_smaller_order(self) -> Order:
        order = Order(model=self.model, trigger="auto", phase="mid_turn", reason="provider_overflow", forced=True)
        return replace(order, target=AFTER_OVERFLOW)

    async def _read_window(self, turn: TurnScope, hear: Hear) -> Window:
        window = await turn.window()
        if window.trouble is not None:
            hear(Trouble(text=window.trouble))
        if window.checkpoint is not None and window.checkpoint != self._checkpoint:
            hear(Compacted(checkpoint=window.checkpoint, tokens=window.tokens))
        self._checkpoint = window.checkpoint
        return window

    async def _send(self, window: Window, recorder: ReplyRecorder, hear: Hear) -> ModelReply:
        dialect = self.thread.dialect
        beside = self.head.request(dialect, cache_key=window.cache_key)
        items = tuple(dialect.parse(item) for item in window)
        request = replace(beside, items=dialect.api.mark_cache_end(items))
        return await self._patience.run(
            lambda: recorder.ask(request),
            on_attempt=lambda number: hear(Asked(tokens=window.pressure.tokens, attempt=number)),
        )

    async def _run_calls(self, turn: TurnScope, calls: Sequence[ToolCall], hear: Hear) -> None:
        """Run calls concurrently and record each output as it arrives; a tool's error is its output."""
        running = [asyncio.create_task(self._run_call(call, hear)) for call in calls]
        try:
            for finished in asyncio.as_completed(running):
                returned = await finished
                item = self.thread.dialect.api.make_output(returned.call, returned.text, is_error=returned.failed)
                await turn.record([decode_json(item.raw)])
                hear(returned)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _run_call(self, call: ToolCall, hear: Hear) -> Returned:
        hear(Called(call=call))
        return await run_tool(call, tools=self.tools)

    def _make_recall_tool(self) -> Tool:
        async def recall(query: str) -> str:
            return await render_recall(self.thread, query)

        recall.__doc__ = DESCRIPTION
        return replace(tool_from(recall), schema=PARAMETERS)


def _define_tool(tool: Tool, dialect: Dialect) -> dict[str, Any]:
    return dialect.api.define_tool(name=tool.name, description=tool.description, parameters=tool.schema)


def _add_reply(answer: Answer, reply: ModelReply) -> Answer:
    cost = answer.cost_usd if reply.cost_usd is None else (answer.cost_usd or 0.0) + reply.cost_usd
    return Answer(
        text=reply.text or answer.text,
        ending=reply.ending,
        requests=answer.requests + 1,
        input_tokens=answer.input_tokens + (reply.input_tokens or 0),
        output_tokens=answer.output_tokens + (reply.output_tokens or 0),
        cached_tokens=answer.cached_tokens + (reply.cached_tokens or 0),
        cost_usd=cost,
    )
