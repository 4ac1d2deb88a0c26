"""Pydantic AI: a capability that gives the model of an agent the window that fits.

    agent = Agent(model, capabilities=[ThreadkeepHistory("agent.db")])
    result = await agent.run("Ship it.", conversation_id="ship-it", message_history=history)

Before each request the run's messages are recorded, and what the model is sent is the thread's window: compacted where it no
longer fits, pairs whole, instructions and tools untouched. The run's own messages stay as they are, unless they are to be
replaced by the window too. The model gets a tool, `recall`, for what is no longer in view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from threadkeep.adapters.extras import missing_host

try:
    from pydantic_ai import AgentRunResult, FunctionToolset, RunContext
    from pydantic_ai.capabilities import AbstractCapability, WrapModelRequestHandler
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
    from pydantic_ai.models import ModelRequestContext
except ImportError as error:
    raise missing_host("Pydantic AI", error, install="'threadkeep[pydantic-ai]'") from error

from threadkeep.adapters.fitting import fitting_window
from threadkeep.adapters.pydantic_ai_items import DIALECT, items_of, messages_of
from threadkeep.adapters.reaching import Reach, StoreName, thread_id_of
from threadkeep.client import Head, Thread, Threadkeep
from threadkeep.client.host_history import follow
from threadkeep.compaction.engine import Phase
from threadkeep.errors import BadInput
from threadkeep.items import decode_json
from threadkeep.llm.base import Model
from threadkeep.recall.tool import DESCRIPTION, NAME, recalled_text
from threadkeep.threads.open_calls import closed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """What a request holds, and whose it is."""

    thread_id: str
    head: Head
    messages: list[ModelMessage]


@dataclass(init=False)
class ThreadkeepHistory(AbstractCapability[Any]):
    """Keeps an agent on course through compactions; one object may serve any number of agents and runs."""

    def __init__(
        self,
        store: StoreName = None,
        *,
        thread_id: str | None = None,
        model: str | Model | None = None,
        replaces_history: bool = False,
    ) -> None:
        """Name the store: a path, settings or an open store; None takes what the configuration names.

        Args:
            thread_id: The conversation; None takes each run's `conversation_id`.
            model: Whose limits count, by name, or a model, which compactions may ask too; None takes the agent's own name.
            replaces_history: Whether the run's own messages are cut down to the window as well, so that what the program keeps
                of a run stops growing.

        Raises:
            BadInput: A configuration file or variable cannot be understood.
        """
        self.trouble: str | None = None
        """Why the last compaction that was due did not happen, in words for a person; None if it did."""
        self._reach = Reach(store)
        self._thread_id = thread_id
        self._model = model
        self._replaces_history = replaces_history

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: WrapModelRequestHandler
    ) -> ModelResponse:
        """Send the model the window. What the provider counts for it corrects later estimates.

        Raises:
            BadInput: The run has no conversation, and the capability no thread of its own.
            CompactionStopped: A hook wants the turn to end.
        """
        sent = await self._reach.awaited(partial(self._prepared, request=request_context, thread_id=self._name(ctx)))
        if self._replaces_history:
            ctx.messages[:] = sent.messages
        response = await handler(replace(request_context, messages=list(sent.messages)))
        if response.usage.input_tokens:
            await self._reach.awaited(partial(_counted, sent=sent, response=response))
        return response

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Record how the run ended: its last answer is in no request of its own."""
        await self._reach.awaited(partial(self._followed, thread_id=self._name(ctx), messages=result.all_messages()))
        return result

    def get_toolset(self) -> FunctionToolset[Any]:
        """Return the recall tool: what was said or returned before, word for word, also what was compacted away."""

        async def recall(ctx: RunContext[Any], query: str) -> str:
            work = partial(self._recalled, query=query, messages=list(ctx.messages), thread_id=self._name(ctx))
            return await self._reach.awaited(work)

        toolset: FunctionToolset[Any] = FunctionToolset()
        toolset.add_function(recall, name=NAME, description=DESCRIPTION)
        return toolset

    def _name(self, ctx: RunContext[Any]) -> str:
        name = self._thread_id or ctx.conversation_id
        if not name:
            raise BadInput("this run has no conversation_id; give it one, or ThreadkeepHistory(thread_id=...)")
        return thread_id_of(name)

    async def _followed(
        self, tk: Threadkeep, thread_id: str, messages: Sequence[ModelMessage], *, model: str | None = None
    ) -> Thread:
        # Programs run one conversation from several of its messages on. Messages cut down to the window can be told from such a
        # branch only by what they still show, and go on in the same thread.
        return await follow(
            tk,
            thread_id,
            DIALECT,
            items_of(messages),
            model=model,
            diverging="rollback" if self._replaces_history else "fork",
        )

    async def _prepared(self, tk: Threadkeep, *, request: ModelRequestContext, thread_id: str) -> _Sent:
        model = self._model if self._model is not None else request.model.model_name
        name = model if isinstance(model, str) else model.name
        thread = await self._followed(tk, thread_id=thread_id, messages=request.messages, model=name)
        head = _head(request)
        window = await fitting_window(thread, model=model, head=head, phase=_phase(request.messages))
        self.trouble = window.trouble
        # As they are, and not with neighbours of one role joined: the library writes each provider's own form.
        items = closed((await thread.history()).items, dialect=thread.dialect, under_way=False)
        messages = messages_of([decode_json(item.raw) for item in items], request.messages)
        return _Sent(thread_id=thread.id, head=head, messages=messages)

    async def _recalled(self, tk: Threadkeep, *, query: str, messages: Sequence[ModelMessage], thread_id: str) -> str:
        return await recalled_text(await self._followed(tk, thread_id=thread_id, messages=messages), query)


async def _counted(tk: Threadkeep, *, sent: _Sent, response: ModelResponse) -> None:
    thread = await tk.thread(sent.thread_id, dialect=DIALECT)
    usage = response.usage
    await thread.record_usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, head=sent.head)


def _phase(messages: Sequence[ModelMessage]) -> Phase:
    newest = messages[-1]
    asked = isinstance(newest, ModelRequest) and any(isinstance(part, UserPromptPart) for part in newest.parts)
    return "pre_turn" if asked else "mid_turn"


def _head(request: ModelRequestContext) -> Head:
    """Return what goes out beside the history."""
    parameters = request.model_request_parameters
    told = [part.content for part in parameters.instruction_parts or ()]
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
        for tool in (*parameters.function_tools, *parameters.output_tools)
    ]
    return Head(system="\n\n".join(told) or None, tools=tools)
