"""The loop: ask, record, run what was called, ask again, until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from threadkeep.client import CompactionReport, Head, Thread, Threadkeep, TurnScope, Window
from threadkeep.compaction.order import Order, Patience
from threadkeep.dialects import Dialect, Request, ToolCall, find_dialect
from threadkeep.errors import (
    BadInput,
    CompactionError,
    CompactionStopped,
    Conflict,
    ModelOverflow,
    ModelUnavailable,
    UnknownModel,
)
from threadkeep.items import Item, decode_json, repair_surrogates
from threadkeep.llm import Delta, Model, ModelReply, StreamingModel, ask_with_retries
from threadkeep.llm.answers import read_speech
from threadkeep.memory.memory import Memories
from threadkeep.recall.tool import DESCRIPTION, PARAMETERS, render_recall
from threadkeep.session.events import Answer, Asked, Called, Compacted, Event, Hear, Returned, Said, Trouble, nobody_hears
from threadkeep.session.memory_tools import memory_tools
from threadkeep.session.tools import Tool, returned_by, tool_from
from threadkeep.threads.sealed_items import find_account
from threadkeep.threads.turns import TurnState

# How often a request the provider refused for its size is made smaller, and by how much each time.
OVERFLOWS = 2
AFTER_OVERFLOW = "50%"

Context = Mapping[str, object] | Callable[[], Mapping[str, object]]


class Session:
    """An agent on a thread. Everything it does is in the thread as it happens; ended at any point, it goes on from there.

    One turn at a time. A turn that ends beyond the soft limit has a compaction made beside what comes next (`Thread.turn`);
    leaving the session as an async context manager waits for that, where closing the store would break off its draft.
    """

    def __init__(
        self,
        thread: Thread,
        *,
        model: str | Model,
        tools: Sequence[Tool | Callable[..., object]] = (),
        instructions: str | None = None,
        fields: Mapping[str, Any] | None = None,
        context: Context | None = None,
        recall: bool = True,
        memory: Memories | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Put an agent on `thread`.

        Args:
            model: A model, or its name: `openai:NAME`, `anthropic:NAME`, `NAME@URL`.
            tools: Typed functions (see `tool_from`), or tools.
            fields: What else goes out with every request, in the provider's words: `reasoning`, `context_management`. What a
                provider compacts by itself because of it becomes the thread's checkpoint, with a readable state beside it.
            context: What the model is to know about its world, or what says so at each turn; see `Thread.tell`.
            recall: Whether the model may look up what was compacted away.
            memory: What earlier threads left to remember (`tk.memory`): a summary goes out with the instructions, the model may
                search for the rest, and what it cites is counted. Nothing of it is recorded in the thread.
            patience: How often an overloaded provider is asked again.

        Raises:
            UnknownModel: There is no such model, or it does not speak the thread's dialect.
            BadInput: A function cannot be a tool, or a field is not the caller's to set.
        """
        self.thread = thread
        self.model = thread.model(model) if isinstance(model, str) else model
        if self.model.dialect != thread.dialect.name:
            reason = f"it speaks {self.model.dialect}, and thread {thread.id!r} is written in {thread.dialect.name}"
            raise UnknownModel(self.model.name, reason=reason)
        given = [*([self._recall_tool()] if recall else ()), *(memory_tools(memory) if memory else ()), *tools]
        made = [tool if isinstance(tool, Tool) else tool_from(tool) for tool in given]
        self.tools = {tool.name: tool for tool in made}
        offered = [_offered(tool, thread.dialect) for tool in self.tools.values()]
        self.head = Head(system=instructions, tools=tuple(offered), fields=fields or {})
        self._instructions = instructions
        self._memory = memory
        self._context = context
        self._patience = patience or Patience()
        self._checkpoint: int | None = None

    @classmethod
    async def open(cls, tk: Threadkeep, thread_id: str | None = None, *, model: str | Model, **more: Any) -> Self:
        """Return an agent on a thread of `tk` that is resumed or created in the model's dialect; `more` as in `Session`."""
        asked = tk.backend.models.get(model) if isinstance(model, str) else model
        return cls(await tk.thread(thread_id, dialect=asked.dialect), model=asked, **more)

    async def ask(self, said: str | Sequence[Mapping[str, Any]] | None = None, *, hear: Hear = nobody_hears) -> Answer:
        """Run one turn and return its answer; `hear` is told what happens meanwhile.

        What is said is durable before the model is asked; its answers and what tools return are recorded as they come. Cancelled
        at any point, or ended by an error, the thread can be gone on with. Mail that may be heard joins the turn.

        Args:
            said: A person's words, or items in the thread's dialect; None goes on with what was left unfinished, or with mail.

        Raises:
            BadInput: Nothing was said, or what is no item; nothing was recorded.
            ModelError: The model cannot be asked, or not with this.
            CompactionStopped: A hook wants the turn to end.
            OrdinalConflict: Another writer changed the thread's history meanwhile.
        """
        incoming = self._incoming(said)
        if not incoming and not await self._has_something_to_do():
            return Answer()
        await self._recollect()
        async with self.thread.turn(incoming, model=self.model, head=self.head, context=self._world()) as turn:
            self._checkpoint = (await self.thread.history()).checkpoint_ordinal
            answer = await self._answered(turn, hear)
        hear(answer)
        return answer

    async def attend(self, *, hear: Hear = nobody_hears, timeout_s: float | None = None) -> Answer | None:
        """Wait until mail asks for a turn, run it and return its answer; None where none did within `timeout_s`.

        Mail that triggers or steers asks for one, and any mail where the agent sleeps; what only queues waits for it. Called in a
        loop, it is an agent that others work with. Raises what `ask` does.
        """
        box = await self.thread.wait_for_turn(timeout_s=timeout_s)
        return await self.ask(hear=hear) if box.starts_turn else None

    def _incoming(self, said: str | Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
        if not isinstance(said, str):
            return list(said or ())
        if not said.strip():
            raise BadInput("nothing was said: the text is empty, and providers refuse such a message; nothing was recorded")
        return [decode_json(self.thread.dialect.make_user_message(said).raw)]

    async def _answered(self, turn: TurnScope, hear: Hear) -> Answer:
        """Ask, and run what was called, until the turn has nothing more to ask."""
        answer = Answer()
        goes_on, cuts = True, 0
        while goes_on:
            listener = Listener(self.model, turn, hear=hear)
            reply = await self._replied(turn, listener, hear)
            answer = _summed(answer, reply)
            if self._memory is not None:
                await self._memory.cite_in(reply.text)
            await self._run(turn, [call for item in reply.items for call in self.thread.dialect.tools.find_calls(item)], hear)
            goes_on = await turn.goes_on()
            cuts = cuts + 1 if listener.cut_by is not None else 0
            if listener.cut_by is not None and not goes_on and turn.state is not TurnState.COMMITTED:
                if cuts >= self._patience.attempts:
                    raise listener.cut_by
                goes_on = True
        return answer

    async def stream(self, said: str | Sequence[Mapping[str, Any]] | None = None) -> AsyncGenerator[Event]:
        """Run one turn and yield what happens, its answer last; closing the iterator cancels the turn. Raises what `ask` does."""
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
        """Compact now, with the session's own model; see `Thread.compact` for what is raised."""
        await self._recollect()
        return await self.thread.carry_out(Order(model=self.model, focus=focus, strategy=strategy), head=self.head)

    async def window(self) -> Window:
        """Return what the model would be sent next, and how full that is."""
        await self._recollect()
        return await self.thread.window(head=self.head, model=self.model, issuer=find_account(self.model))

    async def _recollect(self) -> None:
        """Put what the thread is shown of the memory behind the instructions; the same bytes as long as it may be shown."""
        if self._memory is not None:
            told = (self._instructions, (await self._memory.shown_to(self.thread.id)).text)
            self.head = replace(self.head, system="\n\n".join(text for text in told if text) or None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.thread.upkeep_is_over()

    def _world(self) -> Mapping[str, object] | None:
        return self._context() if callable(self._context) else self._context

    async def _has_something_to_do(self) -> bool:
        """Whether mail waits, or the last turn was left without its answer."""
        if (await self.thread.mail()).pending:
            return True
        last = await self.thread.newest_turn()
        return last is not None and last.state is not TurnState.CLOSED and last.progress.state is not TurnState.COMMITTED

    async def _replied(self, turn: TurnScope, listener: Listener, hear: Hear) -> ModelReply:
        """Return the model's answer; a window the provider finds too large is compacted, and asked with again."""
        for _ in range(OVERFLOWS):
            try:
                return await self._asked(await self._window(turn, hear), listener, hear)
            except ModelOverflow as overflow:
                hear(Trouble(text=str(overflow)))
                try:
                    await turn.make_room(self._smaller())
                except CompactionStopped:
                    raise
                except (CompactionError, Conflict) as error:
                    raise overflow from error
        return await self._asked(await self._window(turn, hear), listener, hear)

    def _smaller(self) -> Order:
        """Return the compaction that a refusal for size calls for."""
        order = Order(model=self.model, trigger="auto", phase="mid_turn", reason="provider_overflow", forced=True)
        return replace(order, target=AFTER_OVERFLOW)

    async def _window(self, turn: TurnScope, hear: Hear) -> Window:
        window = await turn.window()
        if window.trouble is not None:
            hear(Trouble(text=window.trouble))
        if window.checkpoint is not None and window.checkpoint != self._checkpoint:
            hear(Compacted(checkpoint=window.checkpoint, tokens=window.tokens))
        self._checkpoint = window.checkpoint
        return window

    async def _asked(self, window: Window, listener: Listener, hear: Hear) -> ModelReply:
        dialect = self.thread.dialect
        beside = self.head.request(dialect, cache_key=window.cache_key)
        items = tuple(dialect.parse(item) for item in window)
        patience = self._patience
        return await ask_with_retries(
            listener,
            replace(beside, items=dialect.calls.mark_cache_end(items)),
            attempts=patience.attempts,
            sleep=patience.sleep,
            jitter=patience.jitter,
            attempted=lambda number: hear(Asked(tokens=window.pressure.tokens, attempt=number)),
        )

    async def _run(self, turn: TurnScope, calls: Sequence[ToolCall], hear: Hear) -> None:
        """Run calls beside each other and record each output as it comes; what goes wrong in a tool is its output."""
        running = [asyncio.create_task(self._returned(call, hear)) for call in calls]
        try:
            for finished in asyncio.as_completed(running):
                returned = await finished
                item = self.thread.dialect.tools.make_output(returned.call, returned.text, is_error=returned.failed)
                await turn.record([decode_json(item.raw)])
                hear(returned)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _returned(self, call: ToolCall, hear: Hear) -> Returned:
        hear(Called(call=call))
        return await returned_by(call, tools=self.tools)

    def _recall_tool(self) -> Tool:
        async def recall(query: str) -> str:
            return await render_recall(self.thread, query)

        recall.__doc__ = DESCRIPTION
        return replace(tool_from(recall), schema=PARAMETERS)


def _offered(tool: Tool, dialect: Dialect) -> dict[str, Any]:
    return dialect.tools.define_tool(name=tool.name, description=tool.description, parameters=tool.schema)


def _summed(answer: Answer, reply: ModelReply) -> Answer:
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


@runtime_checkable
class StreamsItems(Protocol):
    """A model that tells of each item of its answer as soon as that one is whole."""

    async def stream_items(
        self, request: Request, *, on_delta: Callable[[Delta], None], on_item: Callable[[Item], Awaitable[None]]
    ) -> ModelReply:
        """Send `request` and return the whole answer; everything else as `Streams.stream`.

        `on_item` is awaited with each item, in output order, before more of the answer is read. What it raises ends the call,
        and closes the connection.
        """
        ...


class BrokenOffByMail(Exception):
    """Mail waits that the model is to hear before it goes on; the rest of its answer is dropped."""


class Listener:
    """A model that is listened to while it answers, as far as it lets itself be. One answer, in any number of attempts.

    Every item is recorded in the turn before the next is looked at. An item that is a thought, or a remark on the way, ends the
    answer where an agent's mail waits.

    Attributes:
        cut_by: Why the provider broke off an answer of which something was recorded by then.
    """

    def __init__(self, model: Model, turn: TurnScope, *, hear: Hear) -> None:
        self.name, self.dialect, self.window_tokens = model.name, model.dialect, model.window_tokens
        self._language = find_dialect(model.dialect)
        self.cut_by: ModelUnavailable | None = None
        self._model = model
        self._turn = turn
        self._hear = hear
        self._heard_words = False
        self._recorded: list[Item] = []

    async def ask(self, request: Request) -> ModelReply:
        """Return the answer, its items being those that were recorded.

        Raises:
            ModelUnavailable: As the model raises it, where nothing was recorded: the same request may be made again.
        """
        try:
            # Where an answer is one message, there is nothing to record before its end.
            whole_anyway = not self._language.calls.streams_items and isinstance(self._model, StreamingModel)
            if isinstance(self._model, StreamsItems) and not whole_anyway:
                return await self._recorded_as_it_came(self._model, request)
            return await self._recorded_whole(await self._answered(request))
        except BrokenOffByMail:
            return self._so_far()
        except ModelUnavailable as error:
            if not self._recorded:
                raise
            self.cut_by = error
            return self._so_far()

    async def _recorded_as_it_came(self, model: StreamsItems, request: Request) -> ModelReply:
        reply = await model.stream_items(request, on_delta=self._heard, on_item=self._record)
        # The answer is in the window by now, and what the provider counted for the window is both.
        counted = (reply.input_tokens or 0) + (reply.output_tokens or 0)
        await self._turn.record([], usage={"input_tokens": counted, "output_tokens": reply.output_tokens or 0})
        self._say_if_unheard(reply)
        return replace(reply, items=tuple(self._recorded))

    async def _recorded_whole(self, reply: ModelReply) -> ModelReply:
        usage = {"input_tokens": reply.input_tokens or 0, "output_tokens": reply.output_tokens or 0}
        await self._turn.record([], usage=usage)
        try:
            for item in reply.items:
                await self._record(item)
        except BrokenOffByMail:
            return replace(reply, items=tuple(self._recorded), text=self._so_far().text)
        self._say_if_unheard(reply)
        return reply

    async def _answered(self, request: Request) -> ModelReply:
        if isinstance(self._model, StreamingModel):
            return await self._model.stream(request, on_delta=self._heard)
        return await self._model.ask(request)

    async def _record(self, item: Item) -> None:
        # A model that is cut inside an emoji leaves half of one, which no provider would take back.
        await self._turn.record([decode_json(repair_surrogates(item.raw))])
        self._recorded.append(item)
        if await self._turn.is_interrupted_by_mail():
            raise BrokenOffByMail

    def _so_far(self) -> ModelReply:
        return ModelReply(text=read_speech(self._recorded, dialect=self._language).text, items=tuple(self._recorded))

    def _say_if_unheard(self, reply: ModelReply) -> None:
        if reply.text and not self._heard_words:
            self._hear(Said(text=reply.text))

    def _heard(self, delta: Delta) -> None:
        self._heard_words = self._heard_words or not delta.is_thought
        self._hear(Said(text=delta.text, is_thought=delta.is_thought))
