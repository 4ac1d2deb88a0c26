"""The loop: ask, record, run what was called, ask again, until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Annotated, Any, Self

import msgspec

from holdfast.dialects import Request
from holdfast.errors import CompactionError, Conflict, ModelError, ModelOverflow, UnknownModel
from holdfast.items import decoded
from holdfast.llm import Delta, Model, ModelReply, Streams, ask_patiently
from holdfast.runtime import CompactionReport, Head, Holdfast, Thread, TurnScope, Window
from holdfast.runtime.orders import Order, Patience
from holdfast.runtime.remembering import Memories
from holdfast.session.events import Answer, Asked, Called, Compacted, Event, Hear, Returned, Said, Trouble, nobody_hears
from holdfast.session.memory_tools import memory_tools
from holdfast.session.tools import Tool, decoded_arguments, tool_from
from holdfast.session.wire import Call, calls_in, output_item, tool_field, user_item, warmed
from holdfast.thread.phases import TurnState

# How often a request the provider refused for its size is made smaller, and by how much each time.
OVERFLOWS = 2
AFTER_OVERFLOW = "50%"
HITS = 5
RECALLED = "What was said, word for word:"
NOTHING = "Nothing that was said matches."

Context = Mapping[str, object] | Callable[[], Mapping[str, object]]


class Session:
    """An agent on a thread. Everything it does is in the thread as it happens; ended at any point, it goes on from there.

    One turn at a time. As an async context manager it also compacts in the background, once the soft limit is reached, and
    leaving it waits for that; without, compactions are made when they must be.
    """

    def __init__(
        self,
        thread: Thread,
        *,
        model: str | Model,
        tools: Sequence[Tool | Callable[..., object]] = (),
        instructions: str | None = None,
        context: Context | None = None,
        recall: bool = True,
        memory: Memories | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Put an agent on `thread`.

        Args:
            model: A model, or its name: `openai:NAME`, `anthropic:NAME`, `NAME@URL`.
            tools: Typed functions (see `tool_from`), or tools.
            context: What the model is to know about its world, or what says so at each turn; see `Thread.tell`.
            recall: Whether the model may look up what was compacted away.
            memory: What earlier threads left to remember (`hf.memory`): a summary goes out with the instructions, the model may
                search for the rest, and what it cites is counted. Nothing of it is recorded in the thread.
            patience: How often an overloaded provider is asked again.

        Raises:
            UnknownModel: There is no such model, or it does not speak the thread's dialect.
            BadInput: A function cannot be a tool.
        """
        self.thread = thread
        self.model = thread.model(model) if isinstance(model, str) else model
        if self.model.dialect != thread.dialect.name:
            reason = f"it speaks {self.model.dialect}, and thread {thread.id!r} is written in {thread.dialect.name}"
            raise UnknownModel(self.model.name, reason=reason)
        given = [*([self._recall_tool()] if recall else ()), *(memory_tools(memory) if memory else ()), *tools]
        made = [tool if isinstance(tool, Tool) else tool_from(tool) for tool in given]
        self.tools = {tool.name: tool for tool in made}
        offered = [_offered(tool, thread.dialect.name) for tool in self.tools.values()]
        self.head = Head(system=instructions, tools=tuple(offered))
        self._instructions = instructions
        self._memory = memory
        self._context = context
        self._patience = patience or Patience()
        self._checkpoint: int | None = None
        self._upkeep: asyncio.Task[None] | None = None
        self._keeps_up = False

    @classmethod
    async def open(cls, hf: Holdfast, thread_id: str | None = None, *, model: str | Model, **more: Any) -> Self:
        """Return an agent on a thread of `hf` that is resumed or created in the model's dialect; `more` as in `Session`."""
        asked = hf.backend.models.named(model) if isinstance(model, str) else model
        return cls(await hf.thread(thread_id, dialect=asked.dialect), model=asked, **more)

    async def ask(self, said: str | Sequence[Mapping[str, Any]] | None = None, *, hear: Hear = nobody_hears) -> Answer:
        """Run one turn and return its answer; `hear` is told what happens meanwhile.

        What is said is durable before the model is asked; its answers and what tools return are recorded as they come. Cancelled
        at any point, or ended by an error, the thread can be gone on with. Mail that may be heard joins the turn.

        Args:
            said: A person's words, or items in the thread's dialect; None goes on with what was left unfinished, or with mail.

        Raises:
            ModelError: The model cannot be asked, or not with this.
            CompactionStopped: A hook wants the turn to end.
            OrdinalConflict: Another writer changed the thread's history meanwhile.
        """
        answer = Answer()
        incoming = [user_item(self.thread.dialect.name, said)] if isinstance(said, str) else list(said or ())
        goes_on = bool(incoming) or await self._has_something_to_do()
        if not goes_on:
            return answer
        await self._recollect()
        async with self.thread.turn(incoming, model=self.model, head=self.head, context=self._world()) as turn:
            self._checkpoint = (await self.thread.history()).checkpoint_ordinal
            while goes_on:
                reply = await self._replied(turn, hear)
                answer = _summed(answer, reply)
                usage = {"input_tokens": reply.input_tokens or 0, "output_tokens": reply.output_tokens or 0}
                await turn.record([decoded(item.raw) for item in reply.items], usage=usage)
                if self._memory is not None:
                    await self._memory.cite_in(reply.text)
                await self._run(turn, calls_in(self.thread.dialect.name, reply.items), hear)
                goes_on = await turn.goes_on()
        hear(answer)
        await self._prepare()
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
        return await self.thread.window(head=self.head, model=self.model.name)

    async def _recollect(self) -> None:
        """Put what the thread is shown of the memory behind the instructions; the same bytes as long as it may be shown."""
        if self._memory is not None:
            told = (self._instructions, (await self._memory.shown_to(self.thread.id)).text)
            self.head = replace(self.head, system="\n\n".join(text for text in told if text) or None)

    async def __aenter__(self) -> Self:
        self._keeps_up = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._keeps_up = False
        if self._upkeep is not None:
            await asyncio.wait((self._upkeep,))

    def _world(self) -> Mapping[str, object] | None:
        return self._context() if callable(self._context) else self._context

    async def _has_something_to_do(self) -> bool:
        """Whether mail waits, or the last turn was left without its answer."""
        if (await self.thread.mail()).pending:
            return True
        last = (await self.thread.turns())[-1:]
        return any(turn.state is not TurnState.CLOSED and turn.progress.state is not TurnState.COMMITTED for turn in last)

    async def _replied(self, turn: TurnScope, hear: Hear) -> ModelReply:
        """Return the model's answer; a window the provider finds too large is compacted, and asked with again."""
        for _ in range(OVERFLOWS):
            try:
                return await self._asked(await self._window(turn, hear), hear)
            except ModelOverflow as overflow:
                hear(Trouble(text=str(overflow)))
                try:
                    await self.thread.carry_out(self._smaller(), head=self.head)
                except CompactionError:
                    raise overflow from None
        return await self._asked(await self._window(turn, hear), hear)

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

    async def _asked(self, window: Window, hear: Hear) -> ModelReply:
        dialect = self.thread.dialect
        beside = dialect.compose(system=self.head.system, tools=self.head.tools, cache_key=window.cache_key)
        items = tuple(dialect.parse(item) for item in window)
        request = replace(beside, items=warmed(dialect.name, items))
        listener = _Listener(self.model, hear)
        patience = self._patience
        reply = await ask_patiently(
            listener,
            request,
            attempts=patience.attempts,
            sleep=patience.sleep,
            jitter=patience.jitter,
            attempted=lambda number: hear(Asked(tokens=window.pressure.tokens, attempt=number)),
        )
        if reply.text and not listener.heard_words:
            hear(Said(text=reply.text))
        return reply

    async def _run(self, turn: TurnScope, calls: Sequence[Call], hear: Hear) -> None:
        """Run calls beside each other and record each output as it comes; what goes wrong in a tool is its output."""
        running = [asyncio.create_task(self._returned(call, hear)) for call in calls]
        try:
            for finished in asyncio.as_completed(running):
                returned = await finished
                item = output_item(self.thread.dialect.name, returned.call, returned.text, failed=returned.failed)
                await turn.record([item])
                hear(returned)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _returned(self, call: Call, hear: Hear) -> Returned:
        hear(Called(call=call))
        # Gathered so that whatever a tool raises comes back as a value; being cancelled ends it as it should.
        (result,) = await asyncio.gather(self._output(call), return_exceptions=True)
        if isinstance(result, BaseException):
            return Returned(call=call, text=f"error: {type(result).__name__}: {result}", failed=True)
        return Returned(call=call, text=result)

    async def _output(self, call: Call) -> str:
        tool = self.tools.get(call.name)
        if tool is None:
            raise LookupError(f"there is no tool {call.name!r}; there are: {', '.join(self.tools) or 'none'}")
        return await tool.run(decoded_arguments(call.arguments))

    def _recall_tool(self) -> Callable[..., object]:
        async def recall(
            query: Annotated[str, msgspec.Meta(description="Words of what you look for, or a pointer such as #123.")],
        ) -> str:
            """Find what was said or returned earlier in this conversation, word for word, also what is no longer in view."""
            hits = await self.thread.recall(query, limit=2 * HITS)
            fresh = [hit for hit in hits if not await self._is_echo(str(hit.pointer))]
            return "\n\n".join((RECALLED, *(f"[{hit.pointer}]\n{hit.text}" for hit in fresh[:HITS]))) if fresh else NOTHING

        return recall

    async def _is_echo(self, pointer: str) -> bool:
        """Whether a record is itself a question to this tool, or what it answered; neither answers anything."""
        view = self.thread.dialect.view(self.thread.dialect.parse(await self.thread.original(pointer)))
        return view.tool == "recall" or view.text.startswith(RECALLED)

    async def _prepare(self) -> None:
        """Compact beside the conversation where that is worth it and somebody will wait for it."""
        busy = self._upkeep is not None and not self._upkeep.done()
        if self._keeps_up and not busy and (await self.window()).pressure.worth_preparing:
            self._upkeep = asyncio.create_task(self._compact_behind())

    async def _compact_behind(self) -> None:
        order = Order(model=self.model, trigger="auto", reason="background")
        # A compaction that was not made yet costs nothing: the turn that needs one makes it.
        try:
            await self.thread.sibling(self.thread.id).carry_out(order, head=self.head)
        except (CompactionError, Conflict, ModelError):
            return


class _Listener:
    """A model that is listened to while it answers, where it can be."""

    def __init__(self, model: Model, hear: Hear) -> None:
        self.name, self.dialect, self.window_tokens = model.name, model.dialect, model.window_tokens
        self.heard_words = False
        self._model = model
        self._hear = hear

    async def ask(self, request: Request) -> ModelReply:
        if isinstance(self._model, Streams):
            return await self._model.stream(request, heard=self._heard)
        return await self._model.ask(request)

    def _heard(self, delta: Delta) -> None:
        self.heard_words = self.heard_words or not delta.is_thought
        self._hear(Said(text=delta.text, is_thought=delta.is_thought))


def _offered(tool: Tool, dialect: str) -> dict[str, Any]:
    return tool_field(dialect, name=tool.name, description=tool.description, schema=tool.schema)


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
