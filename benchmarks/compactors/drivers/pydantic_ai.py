"""Pydantic AI: pydantic-ai-harness' SummarizingCompaction, and threadkeep as a capability of an agent."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.compactors.driver import Message, Session


class Own:
    """SummarizingCompaction, run by hand; half of the budget stays as it is."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        parts, models = import_module("pydantic_ai.messages"), import_module("pydantic_ai.models.function")
        compaction = import_module("pydantic_ai_harness.compaction")

        def answered(shown: list[Any], info: Any) -> Any:
            return parts.ModelResponse(parts=[parts.TextPart(self._session.ask("\n".join(str(each) for each in shown)))])

        strategy = compaction.SummarizingCompaction(max_tokens=1, keep_tokens=max(1, budget // 2))
        typed = _typed(messages, parts)
        kept = asyncio.run(compaction.compact_now(strategy, typed, model=models.FunctionModel(answered)))
        return _plain(kept)


class Through:
    """threadkeep around one request of a run, whose messages it cuts down to the window."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._run: list[Any] = []
        self._handed_out = 0

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        ai, models = import_module("pydantic_ai"), import_module("pydantic_ai.models")
        parts, model = import_module("pydantic_ai.messages"), import_module("pydantic_ai.models.test").TestModel()
        capability = import_module("threadkeep.adapters.pydantic_ai").ThreadkeepHistory(
            self._session.settings(budget), thread_id="bench", replaces_history=True
        )
        self._run += _typed(messages, parts)[self._handed_out :]
        self._handed_out = len(messages)
        context = ai.RunContext(deps=None, model=model, usage=ai.RunUsage(), messages=list(self._run))
        request = models.ModelRequestContext(
            model=model,
            messages=list(context.messages),
            model_settings=None,
            model_request_parameters=models.ModelRequestParameters(),
        )

        async def answered(sent: Any) -> Any:
            return parts.ModelResponse(parts=[parts.TextPart("")])

        asyncio.run(capability.wrap_model_request(context, request_context=request, handler=answered))
        self._run = list(context.messages)
        window = _plain(self._run)
        self._handed_out = len(window)
        return window


def _typed(messages: list[Message], parts: Any) -> list[Any]:
    """Return messages as the library has them, one each."""
    made: list[Any] = []
    names: dict[str, str] = {}
    for message in messages:
        content = message.get("content") or ""
        if message["role"] == "assistant":
            said = [parts.TextPart(content)] if content else []
            for call in message.get("tool_calls") or ():
                names[call["id"]] = call["function"]["name"]
                said.append(parts.ToolCallPart(call["function"]["name"], call["function"]["arguments"], call["id"]))
            made.append(parts.ModelResponse(parts=said))
        elif message["role"] == "tool":
            name = names.get(message["tool_call_id"], "tool")
            made.append(parts.ModelRequest(parts=[parts.ToolReturnPart(name, content, message["tool_call_id"])]))
        else:
            made.append(parts.ModelRequest(parts=[parts.UserPromptPart(content)]))
    return made


def _plain(messages: list[Any]) -> list[Message]:
    made: list[Message] = []
    for part in (part for message in messages for part in message.parts):
        kind = part.part_kind
        if kind == "tool-call":
            function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
            call = {"id": part.tool_call_id, "type": "function", "function": function}
            made.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "tool-return":
            made.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": str(part.content)})
        elif kind in ("text", "user-prompt", "system-prompt", "compaction"):
            content = part.content if isinstance(part.content, str) else "\n".join(str(each) for each in part.content or ())
            made.append({"role": "assistant" if kind == "text" else "user", "content": content})
    return made
