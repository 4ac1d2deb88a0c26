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

from threadkeep.adapters import missing_host

try:
    from pydantic_ai import AgentRunResult, FunctionToolset, RunContext
    from pydantic_ai.capabilities import AbstractCapability, WrapModelRequestHandler
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
    from pydantic_ai.models import ModelRequestContext
except ImportError as error:
    raise missing_host("Pydantic AI", error, install="'threadkeep[pydantic-ai]'") from error
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelRequestPart, ModelResponse

from threadkeep.adapters.bridge import Reach, StoreName, thread_id_of
from threadkeep.adapters.host_history import follow
from threadkeep.adapters.window import fitting_window
from threadkeep.client import Head, Thread, Threadkeep
from threadkeep.compaction.engine import Phase
from threadkeep.dialects import CHAT
from threadkeep.errors import BadInput
from threadkeep.items import decode_json
from threadkeep.llm.base import Model
from threadkeep.recall.tool import DESCRIPTION, NAME, render_recall
from threadkeep.threads.window import close_open_calls


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
        items = close_open_calls((await thread.history()).items, dialect=thread.dialect, under_way=False)
        messages = messages_of([decode_json(item.raw) for item in items], request.messages)
        return _Sent(thread_id=thread.id, head=head, messages=messages)

    async def _recalled(self, tk: Threadkeep, *, query: str, messages: Sequence[ModelMessage], thread_id: str) -> str:
        return await render_recall(await self._followed(tk, thread_id=thread_id, messages=messages), query)


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


DIALECT: Final = CHAT.name
OWN: Final = "pydantic_ai"
BESIDE: Final = "status"
# When parts were made that no host made: one with this time is threadkeep's own, handed back.
MADE_HERE: Final = "1970-01-01T00:00:00Z"
PROMPTS: Final = {"user-prompt": "user", "system-prompt": "system"}

Json = dict[str, Any]


def items_of(messages: Sequence[ModelMessage]) -> list[Json]:
    """Return a history as items. What JSON cannot say, such as a tool's metadata, is there as its `repr`."""
    return [item for items in _items_by_message(messages) for item in items]


def messages_of(window: Sequence[Json], shown: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return a window as messages: the very objects the host showed where they are in it."""
    places: defaultdict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for number, items in enumerate(_items_by_message(shown)):
        for at, item in enumerate(items):
            places[CHAT.canonical(CHAT.parse(item))].append((number, at))
    building = _Building()
    # Of several that say the same, the window holds the newest.
    found = [(item, known.pop() if (known := places[CHAT.canonical(CHAT.parse(item))]) else None) for item in reversed(window)]
    for item, place in reversed(found):
        message = shown[place[0]] if place is not None else None
        if place is None or message is None:
            building.add_made(item)
        elif isinstance(message, ModelRequest):
            building.add_part(message.parts[place[1]], of=message)
        else:
            building.add_response(message)
    return building.finished()


class _Building:
    """Messages on their way back: parts of one request stay together, and what threadkeep made joins its neighbours."""

    def __init__(self) -> None:
        self._messages: list[ModelMessage] = []
        self._parts: list[ModelRequestPart] = []
        self._of: ModelRequest | None = None

    def add_part(self, part: ModelRequestPart, *, of: ModelRequest | None) -> None:
        if of is not None and self._of is not None and of is not self._of:
            self._close()
        self._parts.append(part)
        self._of = of or self._of

    def add_response(self, message: ModelResponse) -> None:
        self._close()
        self._messages.append(message)

    def add_made(self, item: Json) -> None:
        [message] = ModelMessagesTypeAdapter.validate_python([_message(item)])
        if isinstance(message, ModelRequest):
            self.add_part(message.parts[0], of=None)
        else:
            self.add_response(message)

    def finished(self) -> list[ModelMessage]:
        self._close()
        return self._messages

    def _close(self) -> None:
        if self._of is not None and [id(part) for part in self._of.parts] == [id(part) for part in self._parts]:
            self._messages.append(self._of)
        elif self._parts:
            made = ModelRequest(parts=self._parts) if self._of is None else replace(self._of, parts=self._parts)
            self._messages.append(made)
        self._parts, self._of = [], None


def _items_by_message(messages: Sequence[ModelMessage]) -> Iterator[list[Json]]:
    for message in ModelMessagesTypeAdapter.dump_python(list(messages), mode="json", fallback=repr):
        beside = {name: value for name, value in message.items() if name not in ("parts", "instructions") and value is not None}
        items = (
            [_request_item(part) for part in message["parts"]]
            if message["kind"] == "request"
            else [_response_item(message["parts"])]
        )
        yield [{**item, BESIDE: beside} if OWN in item else item for item in items]


def _request_item(part: Json) -> Json:
    kind = part["part_kind"]
    rest = {name: value for name, value in part.items() if name not in ("content", "tool_call_id")}
    content: Any = part.get("content")
    if kind in PROMPTS:
        item: Json = {"role": PROMPTS[kind], "content": _parts(content) if isinstance(content, list) else content}
    elif part.get("tool_name") and part.get("tool_call_id"):
        said = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        item = {"role": "tool", "tool_call_id": part["tool_call_id"], "content": said}
        rest |= {} if isinstance(content, str) else {"is_json": True}
    else:
        item, rest = {"role": "system", "content": ""}, part
    return item if part.get("timestamp") == MADE_HERE else {**item, OWN: rest}


def _response_item(parts: Sequence[Json]) -> Json:
    content: list[Json] = []
    calls: list[Json] = []
    rests: list[Json] = []
    for part in parts:
        rest = dict(part)
        match part["part_kind"]:
            case "text":
                content.append({"type": "text", "text": rest.pop("content")})
            case "thinking":
                content.append({"type": "thinking", "thinking": rest.pop("content")})
            case "tool-call":
                args = rest.pop("args")
                rest |= {} if isinstance(args, str) else {"is_json": True}
                called = {"name": rest.pop("tool_name"), "arguments": args if isinstance(args, str) else json.dumps(args)}
                calls.append({"id": rest.pop("tool_call_id"), "type": "function", "function": called})
            case _:
                content.append({"type": part["part_kind"]})
        rests.append(rest)
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {}), OWN: rests}


def _message(item: Json) -> Json:
    """Return the library's own form of an item: a response, or a request with one part."""
    beside = item.get(BESIDE) or {}
    if item["role"] != "assistant":
        return {**beside, "kind": "request", "parts": [_part(item)]}
    content, calls = iter(item["content"]), iter(item.get("tool_calls", ()))
    return {**beside, "kind": "response", "parts": [_response_part(dict(rest), content, calls) for rest in item[OWN]]}


def _part(item: Json) -> Json:
    rest = dict(item.get(OWN) or {"timestamp": MADE_HERE})
    if item["role"] == "system" and rest.get("part_kind") not in (None, "system-prompt"):
        return rest
    content: Any = item["content"]
    if item["role"] == "tool":
        content = json.loads(content) if rest.pop("is_json", False) and not _is_stub(content) else content
        return {
            "part_kind": "tool-return",
            "tool_name": "unknown",
            **rest,
            "tool_call_id": item["tool_call_id"],
            "content": content,
        }
    kind = "system-prompt" if item["role"] == "system" else "user-prompt"
    return {"part_kind": kind, **rest, "content": _said(content) if isinstance(content, list) else content}


def _is_stub(content: str) -> bool:
    """Whether what was JSON gave way to a line of text."""
    try:
        json.loads(content)
    except ValueError:
        return True
    return False


def _response_part(rest: Json, content: Iterator[Json], calls: Iterator[Json]) -> Json:
    match rest["part_kind"]:
        case "text":
            return {**rest, "content": next(content)["text"]}
        case "thinking":
            return {**rest, "content": next(content)["thinking"]}
        case "tool-call":
            call = next(calls)
            arguments = call["function"]["arguments"]
            args = json.loads(arguments) if rest.pop("is_json", False) else arguments
            return {**rest, "tool_name": call["function"]["name"], "args": args, "tool_call_id": call["id"]}
        case _:
            next(content)
            return rest


def _parts(content: Sequence[str | Json]) -> list[Json]:
    return [{"type": "text", "text": each} if isinstance(each, str) else {"type": each["kind"], OWN: each} for each in content]


def _said(content: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [each[OWN] if OWN in each else each["text"] for each in content]
