"""LangChain: middleware that gives the model of an agent the window that fits, in place of `SummarizationMiddleware`.

    agent = create_agent(model, tools, middleware=[ThreadkeepMiddleware("agent.db")], checkpointer=saver)
    agent.invoke({"messages": [...]}, {"configurable": {"thread_id": "ship-it"}})

Before each call the agent's messages are recorded, and what the model is sent is the thread's window: compacted where it no
longer fits, pairs whole, the system message and the tools untouched. The agent's own state keeps every message, unless it is to
be replaced by the window too. The model gets a tool, `recall`, for what is no longer in view.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from threadkeep.adapters import missing_host

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
    from langchain.tools import BaseTool, ToolRuntime
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config
    from langgraph.graph.message import REMOVE_ALL_MESSAGES
    from langgraph.runtime import Runtime
except ImportError as error:
    raise missing_host("LangChain", error, install="'threadkeep[langchain]'") from error
import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from langchain.messages import AnyMessage
from langchain_core.messages import BaseMessage, messages_from_dict

from threadkeep.adapters.bridge import Reach, StoreName, thread_id_of
from threadkeep.adapters.host_history import follow
from threadkeep.adapters.window import fitting_window
from threadkeep.client import Head, Thread, Threadkeep
from threadkeep.compaction.engine import Phase
from threadkeep.dialects import CHAT
from threadkeep.errors import BadInput
from threadkeep.llm.base import Model
from threadkeep.recall.tool import DESCRIPTION, NAME, render_recall


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """What a call of the model gets, and whose it is."""

    thread_id: str
    head: Head
    messages: list[AnyMessage]


class ThreadkeepMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Keeps an agent on course through compactions; works in plain and asynchronous agents, each thread of it by itself."""

    def __init__(
        self,
        store: StoreName = None,
        *,
        thread_id: str | None = None,
        model: str | Model | None = None,
        replaces_state: bool = False,
    ) -> None:
        """Name the store: a path, settings or, for asynchronous agents, an open store.

        Args:
            thread_id: The conversation, for an agent without a checkpointer; None takes `configurable.thread_id` of each run.
            model: Whose limits count, by name, or a model, which compactions may ask too; None takes the agent's own name.
            replaces_state: Whether the agent's state is cut down to the window as well, so that its checkpoints stop growing.

        Raises:
            BadInput: A configuration file or variable cannot be understood.
        """
        super().__init__()
        self.trouble: str | None = None
        """Why the last compaction that was due did not happen, in words for a person; None if it did."""
        self._reach = Reach(store)
        self._thread_id = thread_id
        self._model = model
        self._replaces_state = replaces_state
        self.tools: Sequence[BaseTool] = [self._recall_tool()]

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Send the model the window. What the provider counts for it corrects later estimates.

        Raises:
            BadInput: There is neither a thread's id in the run's configuration nor one of the middleware's own.
            CompactionStopped: A hook wants the turn to end.
        """
        sent = self._reach.run(partial(self._prepared, request=request, thread_id=self._name()))
        response = handler(request.override(messages=sent.messages))
        self._reach.run(partial(_counted, sent=sent, response=response))
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Do the same in an asynchronous agent."""
        sent = await self._reach.awaited(partial(self._prepared, request=request, thread_id=self._name()))
        response = await handler(request.override(messages=sent.messages))
        await self._reach.awaited(partial(_counted, sent=sent, response=response))
        return response

    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Put the window in the place of the agent's messages, where it is to replace them and differs."""
        if not self._replaces_state:
            return None
        return self._reach.run(partial(self._replaced, messages=state["messages"], thread_id=self._name()))

    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do the same in an asynchronous agent."""
        if not self._replaces_state:
            return None
        return await self._reach.awaited(partial(self._replaced, messages=state["messages"], thread_id=self._name()))

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Record how the run ended: its last answer is in no request of its own."""
        self._reach.run(partial(self._followed, thread_id=self._name(), messages=state["messages"]))

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Do the same in an asynchronous agent."""
        await self._reach.awaited(partial(self._followed, thread_id=self._name(), messages=state["messages"]))

    def _recall_tool(self) -> BaseTool:
        def recall(query: str, runtime: ToolRuntime) -> str:
            work = partial(self._recalled, query=query, messages=runtime.state["messages"], thread_id=self._name())
            return self._reach.run(work)

        async def arecall(query: str, runtime: ToolRuntime) -> str:
            work = partial(self._recalled, query=query, messages=runtime.state["messages"], thread_id=self._name())
            return await self._reach.awaited(work)

        return StructuredTool.from_function(recall, arecall, name=NAME, description=DESCRIPTION)

    async def _recalled(self, tk: Threadkeep, *, query: str, messages: Sequence[AnyMessage], thread_id: str) -> str:
        return await render_recall(await self._followed(tk, thread_id=thread_id, messages=messages), query)

    def _name(self) -> str:
        """Return the thread of the run this is called in; an agent within an agent's tool has one of its own."""
        configured = get_config().get("configurable", {})
        name = self._thread_id or configured.get("thread_id")
        if name is None or name == "":
            raise BadInput("this run has no thread; give it configurable.thread_id, or ThreadkeepMiddleware(thread_id=...)")
        # Where the graph stands: NODE:TASK for each graph from the outermost in, the last of them this one's own node.
        outer = [step.partition(":")[0] for step in str(configured.get("checkpoint_ns", "")).split("|")[:-1]]
        return thread_id_of(".".join((str(name), *outer)))

    async def _followed(
        self, tk: Threadkeep, thread_id: str, messages: Sequence[AnyMessage], *, model: str | None = None
    ) -> Thread:
        items = [item_of(message) for message in messages]
        # A run resumed from an older checkpoint shares its name with what came after it. A state cut down to the window can be
        # told from a branch only by what it still shows, and goes on in the same thread.
        return await follow(tk, thread_id, DIALECT, items, model=model, diverging="rollback" if self._replaces_state else "fork")

    async def _prepared(self, tk: Threadkeep, *, request: ModelRequest[Any], thread_id: str) -> _Sent:
        name = self._model if self._model is not None else _name_of(request)
        head = Head(
            # LangChain's own kind of string is none that JSON is written from.
            system=str(request.system_message.text) if request.system_message else None,
            tools=[each if isinstance(each, dict) else convert_to_openai_tool(each) for each in request.tools],
        )
        told = name if name is None or isinstance(name, str) else name.name
        thread = await self._followed(tk, thread_id=thread_id, messages=request.messages, model=told)
        window = await fitting_window(thread, model=name, head=head, phase=_phase(request.messages), to_send=True)
        self.trouble = window.trouble
        return _Sent(thread_id=thread.id, head=head, messages=messages_of(window, request.messages))

    async def _replaced(self, tk: Threadkeep, *, messages: Sequence[AnyMessage], thread_id: str) -> dict[str, Any] | None:
        thread = await self._followed(tk, thread_id=thread_id, messages=messages)
        window = await fitting_window(thread, model=self._model, phase=_phase(messages))
        self.trouble = window.trouble
        fitting = messages_of(window, messages)
        return None if fitting == list(messages) else {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *fitting]}


async def _counted(tk: Threadkeep, *, sent: _Sent, response: ModelResponse[Any]) -> None:
    usage = next((each.usage_metadata for each in response.result if isinstance(each, AIMessage) and each.usage_metadata), None)
    if usage is not None and usage["input_tokens"]:
        thread = await tk.thread(sent.thread_id, dialect=DIALECT)
        await thread.record_usage(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"], head=sent.head)


def _phase(messages: Sequence[AnyMessage]) -> Phase:
    return "pre_turn" if messages and isinstance(messages[-1], HumanMessage) else "mid_turn"


def _name_of(request: ModelRequest[Any]) -> str | None:
    """Return the model's name, under the names LangChain's packages have for it."""
    named = (getattr(request.model, field, None) for field in ("model_name", "model"))
    return next((name for name in named if isinstance(name, str)), None)


DIALECT: Final = CHAT.name
OWN: Final = "langchain"
# How the ids of messages begin that no host made; a message with such an id is threadkeep's own, handed back.
MADE_HERE: Final = "threadkeep-"
ROLES: Final = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "system": "system",
    "SystemMessageChunk": "system",
    "function": "function",
}
TYPES: Final = {"user": "human", "assistant": "ai", "tool": "tool", "system": "system"}
# Written down in the item itself.
SAID: Final = frozenset({"type", "content", "id", "tool_calls", "tool_call_id"})


def item_of(message: BaseMessage) -> dict[str, Any]:
    """Return a message as an item. What JSON cannot say, such as a tool's artifact, is there as its `repr`."""
    data = _plain(message.model_dump(exclude_defaults=True))
    item: dict[str, Any] = {"role": ROLES.get(message.type, message.type), "content": _plain(message.content)}
    if calls := getattr(message, "tool_calls", None):
        item["tool_calls"] = [_called(call) for call in calls]
    if (call_id := getattr(message, "tool_call_id", None)) is not None:
        item["tool_call_id"] = call_id
    if message.id is not None and message.id.startswith(MADE_HERE):
        return item
    rest = {name: value for name, value in data.items() if name not in SAID}
    return {**item, **({} if message.id is None else {"id": message.id}), OWN: {"type": message.type, **rest}}


def message_of(item: Mapping[str, Any]) -> AnyMessage:
    """Return an item as the message it was made from; one of threadkeep's own as a message with an id that says so."""
    rest = dict(item.get(OWN) or {})
    kind = rest.pop("type", TYPES.get(item["role"], "human"))
    data: dict[str, Any] = {**rest, "content": item["content"]}
    if "tool_calls" in item:
        data["tool_calls"] = [_calling(call) for call in item["tool_calls"]]
    if "tool_call_id" in item:
        data["tool_call_id"] = item["tool_call_id"]
    if "id" in item:
        data["id"] = item["id"]
    elif OWN not in item:
        data["id"] = MADE_HERE + blake2b(CHAT.canonical(CHAT.parse(dict(item))), digest_size=12).hexdigest()
    [message] = messages_from_dict([{"type": kind, "data": data}])
    made: AnyMessage = message  # type: ignore[assignment]  # the library types what it reads by its base class
    return made


def messages_of(window: Sequence[Mapping[str, Any]], shown: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return a window as messages: the very objects the host showed where they are in it."""
    known = {CHAT.parse(item_of(message)).raw: message for message in shown}
    return [known.get(CHAT.parse(dict(item)).raw) or message_of(item) for item in window]


def _called(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(call["args"], ensure_ascii=False, default=repr)
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def _calling(call: Mapping[str, Any]) -> dict[str, Any]:
    called = call["function"]
    return {"name": called["name"], "args": json.loads(called["arguments"]), "id": call["id"], "type": "tool_call"}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, ensure_ascii=False, default=repr))
