"""LangChain: middleware that gives the model of an agent the window that fits, in place of `SummarizationMiddleware`.

    agent = create_agent(model, tools, middleware=[ThreadkeepMiddleware("agent.db")], checkpointer=saver)
    agent.invoke({"messages": [...]}, {"configurable": {"thread_id": "ship-it"}})

Before each call the agent's messages are recorded, and the model is sent the thread's window: compacted if it no longer fits,
pairs whole, the system message and the tools unchanged. The agent's own state keeps every message unless `replaces_state` is set.
The model gets a tool, `recall`, for what left the window.
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

from threadkeep.adapters.bridge import StoreHandle, StoreName, make_thread_id
from threadkeep.adapters.host_history import fit_window, follow
from threadkeep.client import Head, Thread, Threadkeep
from threadkeep.compaction.strategies.strategy import Phase
from threadkeep.dialects import CHAT
from threadkeep.errors import InvalidArgument
from threadkeep.llm.base import Model
from threadkeep.recall.tool import DESCRIPTION, NAME, render_recall


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedCall:
    """What a call of the model is sent, and its thread."""

    thread_id: str
    head: Head
    messages: list[AnyMessage]


class ThreadkeepMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Sends the model windows that fit; for synchronous and asynchronous agents, one thread a conversation."""

    def __init__(
        self,
        store: StoreName = None,
        *,
        thread_id: str | None = None,
        model: str | Model | None = None,
        replaces_state: bool = False,
    ) -> None:
        """Set the store: a path, settings or, for asynchronous agents, an open store.

        Args:
            thread_id: The conversation, for an agent without a checkpointer; None takes `configurable.thread_id` of each run.
            model: A model's name, for its limits, or a model that compactions may also ask; None takes the agent's model name.
            replaces_state: Also replace the agent's state by the window, so that its checkpoints stop growing.

        Raises:
            BadInput: A configuration file or variable cannot be understood.
        """
        super().__init__()
        self.trouble: str | None = None
        """Why the last compaction that was due failed, for people; None if it did not."""
        self._handle = StoreHandle(store)
        self._thread_id = thread_id
        self._model = model
        self._replaces_state = replaces_state
        self.tools: Sequence[BaseTool] = [self._make_recall_tool()]

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Send the model the window. The provider's count corrects later estimates.

        Raises:
            InvalidArgument: Neither the run's configuration nor the middleware names a thread.
            CompactionStopped: A hook ended the turn.
        """
        sent = self._handle.run(partial(self._prepare_call, request=request, thread_id=self._find_thread_id()))
        response = handler(request.override(messages=sent.messages))
        self._handle.run(partial(_record_usage, sent=sent, response=response))
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Do the same in an asynchronous agent."""
        sent = await self._handle.run_async(partial(self._prepare_call, request=request, thread_id=self._find_thread_id()))
        response = await handler(request.override(messages=sent.messages))
        await self._handle.run_async(partial(_record_usage, sent=sent, response=response))
        return response

    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Replace the agent's messages by the window, if `replaces_state` is set."""
        if not self._replaces_state:
            return None
        return self._handle.run(partial(self._replace_messages, messages=state["messages"], thread_id=self._find_thread_id()))

    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do the same in an asynchronous agent."""
        if not self._replaces_state:
            return None
        return await self._handle.run_async(
            partial(self._replace_messages, messages=state["messages"], thread_id=self._find_thread_id())
        )

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Record the last answer of the run, which no further request contains."""
        self._handle.run(partial(self._follow, thread_id=self._find_thread_id(), messages=state["messages"]))

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Do the same in an asynchronous agent."""
        await self._handle.run_async(partial(self._follow, thread_id=self._find_thread_id(), messages=state["messages"]))

    def _make_recall_tool(self) -> BaseTool:
        def recall(query: str, runtime: ToolRuntime) -> str:
            work = partial(self._recall, query=query, messages=runtime.state["messages"], thread_id=self._find_thread_id())
            return self._handle.run(work)

        async def arecall(query: str, runtime: ToolRuntime) -> str:
            work = partial(self._recall, query=query, messages=runtime.state["messages"], thread_id=self._find_thread_id())
            return await self._handle.run_async(work)

        return StructuredTool.from_function(recall, arecall, name=NAME, description=DESCRIPTION)

    async def _recall(self, tk: Threadkeep, *, query: str, messages: Sequence[AnyMessage], thread_id: str) -> str:
        return await render_recall(await self._follow(tk, thread_id=thread_id, messages=messages), query)

    def _find_thread_id(self) -> str:
        """Return the thread of the current run; an agent inside another agent's tool has its own."""
        configured = get_config().get("configurable", {})
        name = self._thread_id or configured.get("thread_id")
        if name is None or name == "":
            raise InvalidArgument(
                "thread_id", "this run has no thread; set configurable.thread_id, or use ThreadkeepMiddleware(thread_id=...)"
            )
        # The path of graphs: NODE:TASK for each from the outermost in; the last is this graph's own node.
        outer = [step.partition(":")[0] for step in str(configured.get("checkpoint_ns", "")).split("|")[:-1]]
        return make_thread_id(".".join((str(name), *outer)))

    async def _follow(
        self, tk: Threadkeep, thread_id: str, messages: Sequence[AnyMessage], *, model: str | None = None
    ) -> Thread:
        items = [make_item(message) for message in messages]
        # A run resumed from an older checkpoint has the same name as the newer run, so it becomes a fork. A replaced state looks
        # like such a branch too, and must continue in the same thread.
        return await follow(tk, thread_id, DIALECT, items, model=model, diverging="rollback" if self._replaces_state else "fork")

    async def _prepare_call(self, tk: Threadkeep, *, request: ModelRequest[Any], thread_id: str) -> _PreparedCall:
        name = self._model if self._model is not None else _find_model_name(request)
        head = Head(
            # JSON encoders refuse LangChain's own string class.
            system=str(request.system_message.text) if request.system_message else None,
            tools=[each if isinstance(each, dict) else convert_to_openai_tool(each) for each in request.tools],
        )
        label = name if name is None or isinstance(name, str) else name.name
        thread = await self._follow(tk, thread_id=thread_id, messages=request.messages, model=label)
        window = await fit_window(thread, model=name, head=head, phase=_find_phase(request.messages), to_send=True)
        self.trouble = window.trouble
        return _PreparedCall(thread_id=thread.id, head=head, messages=make_messages(window, request.messages))

    async def _replace_messages(self, tk: Threadkeep, *, messages: Sequence[AnyMessage], thread_id: str) -> dict[str, Any] | None:
        thread = await self._follow(tk, thread_id=thread_id, messages=messages)
        window = await fit_window(thread, model=self._model, phase=_find_phase(messages))
        self.trouble = window.trouble
        fitting = make_messages(window, messages)
        return None if fitting == list(messages) else {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *fitting]}


async def _record_usage(tk: Threadkeep, *, sent: _PreparedCall, response: ModelResponse[Any]) -> None:
    usage = next((each.usage_metadata for each in response.result if isinstance(each, AIMessage) and each.usage_metadata), None)
    if usage is not None and usage["input_tokens"]:
        thread = await tk.thread(sent.thread_id, dialect=DIALECT)
        await thread.record_usage(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"], head=sent.head)


def _find_phase(messages: Sequence[AnyMessage]) -> Phase:
    return "pre_turn" if messages and isinstance(messages[-1], HumanMessage) else "mid_turn"


def _find_model_name(request: ModelRequest[Any]) -> str | None:
    """Return the model's name; LangChain's packages store it under different names."""
    named = (getattr(request.model, field, None) for field in ("model_name", "model"))
    return next((name for name in named if isinstance(name, str)), None)


DIALECT: Final = CHAT.name
EXTRA: Final = "langchain"
# The prefix of ids of messages that threadkeep made.
OWN_ID_PREFIX: Final = "threadkeep-"
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
# Fields that the item holds itself.
ITEM_FIELDS: Final = frozenset({"type", "content", "id", "tool_calls", "tool_call_id"})


def make_item(message: BaseMessage) -> dict[str, Any]:
    """Return a message as an item. A value that JSON does not have, such as a tool's artifact, is stored as its `repr`."""
    data = _to_json(message.model_dump(exclude_defaults=True))
    item: dict[str, Any] = {"role": ROLES.get(message.type, message.type), "content": _to_json(message.content)}
    if calls := getattr(message, "tool_calls", None):
        item["tool_calls"] = [_encode_call(call) for call in calls]
    if (call_id := getattr(message, "tool_call_id", None)) is not None:
        item["tool_call_id"] = call_id
    if message.id is not None and message.id.startswith(OWN_ID_PREFIX):
        return item
    rest = {name: value for name, value in data.items() if name not in ITEM_FIELDS}
    return {**item, **({} if message.id is None else {"id": message.id}), EXTRA: {"type": message.type, **rest}}


def make_message(item: Mapping[str, Any]) -> AnyMessage:
    """Return the message an item was made from; a message that threadkeep made gets an id with its prefix."""
    rest = dict(item.get(EXTRA) or {})
    kind = rest.pop("type", TYPES.get(item["role"], "human"))
    data: dict[str, Any] = {**rest, "content": item["content"]}
    if "tool_calls" in item:
        data["tool_calls"] = [_decode_call(call) for call in item["tool_calls"]]
    if "tool_call_id" in item:
        data["tool_call_id"] = item["tool_call_id"]
    if "id" in item:
        data["id"] = item["id"]
    elif EXTRA not in item:
        data["id"] = OWN_ID_PREFIX + blake2b(CHAT.canonical(CHAT.parse(dict(item))), digest_size=12).hexdigest()
    [message] = messages_from_dict([{"type": kind, "data": data}])
    made: AnyMessage = message  # type: ignore[assignment]  # the library types what it reads by its base class
    return made


def make_messages(window: Sequence[Mapping[str, Any]], shown: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return a window as messages, with the host's own objects where they are in it."""
    known = {CHAT.parse(make_item(message)).raw: message for message in shown}
    return [known.get(CHAT.parse(dict(item)).raw) or make_message(item) for item in window]


def _encode_call(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(call["args"], ensure_ascii=False, default=repr)
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def _decode_call(call: Mapping[str, Any]) -> dict[str, Any]:
    called = call["function"]
    return {"name": called["name"], "args": json.loads(called["arguments"]), "id": call["id"], "type": "tool_call"}


def _to_json(value: Any) -> Any:
    return json.loads(json.dumps(value, ensure_ascii=False, default=repr))
