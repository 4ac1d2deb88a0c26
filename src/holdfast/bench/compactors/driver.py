"""Runs one compactor in the interpreter that has it; a script of its own, which needs nothing of holdfast.

It speaks JSON, a line each, on standard input and output. First it says `{"ready": VERSION}`, or `{"cannot": WHY}` and ends. It
is told `{"begin": true}` for a new session and `{"new": [MESSAGES], "budget": TOKENS}` for a hop; while it compacts it may say
`{"ask": PROMPT}` any number of times, each answered by `{"answer": TEXT}`; and ends a hop with `{"window": [MESSAGES]}` or
`{"failed": WHY}`. Messages are those of Chat Completions.

A compactor is a function from all messages so far and a budget to the messages that take their place. To add one, holdfast inside
a host included, write it and name it in `COMPACTORS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Message = dict[str, Any]

# Where the conversation goes once `main` has moved standard output out of the peers' way.
_conversation: list[int] = []


def say(told: dict[str, Any]) -> None:
    text = (json.dumps(told, ensure_ascii=False) + "\n").encode()
    while text:
        text = text[os.write(_conversation[0], text) :]


def ask(prompt: str) -> str:
    """Ask whoever drives this to summarise, and return the summary."""
    say({"ask": prompt})
    answer: str = json.loads(sys.stdin.readline())["answer"]
    return answer


def langchain(messages: list[Message], budget: int) -> list[Message]:
    """SummarizationMiddleware, told to summarise now; it keeps half of the budget as it is."""
    core = import_module("langchain_core.messages")
    middleware = import_module("langchain.agents.middleware").SummarizationMiddleware
    fake = import_module("langchain_core.language_models.fake_chat_models").FakeListChatModel

    def summarise(shown: list[Any]) -> str:
        return ask("\n".join(f"{message.type}: {message.text}" for message in shown))

    made = middleware(
        model=fake(responses=[""]),
        trigger=("messages", 1),
        keep=("tokens", max(1, budget // 2)),
        trim_tokens_to_summarize=None,
        summarizer=summarise,
    )
    typed = core.convert_to_messages([{**message, "content": message.get("content") or ""} for message in messages])
    found = made.before_model({"messages": typed}, None)
    kept = typed if found is None else [each for each in found["messages"] if each.type != "remove"]
    back: list[Message] = core.convert_to_openai_messages(kept)
    return back


# What a compactor keeps from hop to hop; gone when a session begins.
_kept: dict[str, Any] = {}


def hermes(messages: list[Message], budget: int) -> list[Message]:
    """Hermes' ContextCompressor, its tail half of the budget; what it asks its model is asked here."""
    module = import_module("agent.context_compressor")

    def answered(**asked: Any) -> Any:
        prompt = "\n".join(str(message.get("content", "")) for message in asked["messages"])
        return _Answer(ask(prompt))

    vars(module)["call_llm"] = answered
    if "engine" not in _kept:
        length = max(8_192, budget * 4)
        made = module.ContextCompressor(model="scripted", quiet_mode=True, config_context_length=length, protect_last_n=4)
        _kept["engine"] = made
    engine = _kept["engine"]
    engine.tail_token_budget = max(1, budget // 2)
    kept: list[Message] = engine.compress(messages, force=True)
    return kept


class _Answer:
    """A Chat Completion, as far as Hermes looks at it."""

    def __init__(self, text: str) -> None:
        message = type("Message", (), {"content": text, "tool_calls": None})()
        self.choices = [type("Choice", (), {"message": message, "finish_reason": "stop"})()]
        self.usage = None


def pydantic_ai(messages: list[Message], budget: int) -> list[Message]:
    """pydantic-ai-harness' SummarizingCompaction, run by hand; half of the budget stays as it is."""
    parts, models = import_module("pydantic_ai.messages"), import_module("pydantic_ai.models.function")
    compaction = import_module("pydantic_ai_harness.compaction")

    def answered(shown: list[Any], info: Any) -> Any:
        return parts.ModelResponse(parts=[parts.TextPart(ask("\n".join(str(each) for each in shown)))])

    strategy = compaction.SummarizingCompaction(max_tokens=1, keep_tokens=max(1, budget // 2))
    typed = _to_pydantic(messages, parts)
    kept = asyncio.run(compaction.compact_now(strategy, typed, model=models.FunctionModel(answered)))
    return _from_pydantic(kept)


def _to_pydantic(messages: list[Message], parts: Any) -> list[Any]:
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


def _from_pydantic(messages: list[Any]) -> list[Message]:
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


def headroom(messages: list[Message], budget: int) -> list[Message]:
    """headroom's compress(), which asks no model; its target is the share of the budget."""
    size = sum(len(json.dumps(message, ensure_ascii=False)) for message in messages) // 4
    ratio = min(1.0, budget / size) if size else 1.0
    found: list[Message] = import_module("headroom").compress(messages, model="gpt-4o", target_ratio=ratio).messages
    return found


def openai_agents(messages: list[Message], budget: int) -> list[Message]:
    """OpenAIResponsesCompactionSession over its SQLite session; the provider's side of `responses.compact` is scripted.

    As the provider does, it hands the user's messages back as they are, with one more item for the rest: here, readable.
    """
    agents, memory = import_module("agents"), import_module("agents.memory")

    class Responses:
        async def compact(self, **asked: Any) -> Any:
            items = asked["input"]
            spoken = [item for item in items if item.get("role") == "user"]
            summary = ask("\n".join(json.dumps(item, ensure_ascii=False) for item in items))
            return type("Compacted", (), {"output": [*spoken, {"role": "assistant", "content": summary}], "usage": None})()

    async def compacted() -> list[Message]:
        client = type("Client", (), {"responses": Responses()})()
        session = memory.OpenAIResponsesCompactionSession(
            "bench", agents.SQLiteSession("bench"), client=client, model="gpt-5", compaction_mode="input"
        )
        await session.add_items(_to_responses(messages))
        await session.run_compaction({"force": True, "compaction_mode": "input"})
        return _from_responses(await session.get_items())

    return asyncio.run(compacted())


def _to_responses(messages: list[Message]) -> list[Message]:
    items: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            items.append({"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]})
            continue
        if message.get("content"):
            items.append({"role": message["role"], "content": message["content"]})
        items += [
            {"type": "function_call", "call_id": call["id"], **call["function"]} for call in message.get("tool_calls") or ()
        ]
    return items


def _from_responses(items: list[Any]) -> list[Message]:
    made: list[Message] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            call = {"id": item["call_id"], "type": "function", "function": {"name": item["name"], "arguments": item["arguments"]}}
            made.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "function_call_output":
            made.append({"role": "tool", "tool_call_id": item["call_id"], "content": str(item["output"])})
        elif kind == "message":
            content = item["content"]
            text = content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)
            made.append({"role": item["role"], "content": text})
    return made


def _through(budget: int) -> Any:
    """Return holdfast's settings in a host, with a store of the session's own.

    A host has one limit for a whole session: the first hop's budget. No model is asked.
    """
    return import_module("holdfast").Config(store=str(_folder() / "host.db"), model_auto_compact_token_limit=max(1, budget))


def _folder() -> Path:
    return Path(_kept.setdefault("folder", TemporaryDirectory(prefix="holdfast-host-")).name)


def _new(messages: list[Message]) -> list[Message]:
    """Return what came after the window that was handed out last, for a host that keeps its history by itself."""
    return messages[_kept.get("handed_out", 0) :]


def _handed_out(window: list[Message]) -> list[Message]:
    _kept["handed_out"] = len(window)
    return window


def holdfast_langchain(messages: list[Message], budget: int) -> list[Message]:
    """holdfast through LangChain: its middleware in the place of SummarizationMiddleware, compacting as the session goes on."""
    core, config = import_module("langchain_core.messages"), import_module("langchain_core.runnables.config")
    if "middleware" not in _kept:
        middleware = import_module("holdfast.adapters.langchain").HoldfastMiddleware
        _kept["middleware"] = middleware(_through(budget), thread_id="bench", replaces_state=True)
    config.var_child_runnable_config.set({"configurable": {}})
    typed = core.convert_to_messages([{**message, "content": message.get("content") or ""} for message in messages])
    found = _kept["middleware"].before_model({"messages": typed}, None)
    shown = typed if found is None else [each for each in found["messages"] if each.type != "remove"]
    back: list[Message] = core.convert_to_openai_messages(shown)
    return back


def holdfast_hermes(messages: list[Message], budget: int) -> list[Message]:
    """holdfast as Hermes' context engine, asked to compress where it says that it should be, as the host does."""
    if "engine" not in _kept:
        home = _folder()
        (home / "holdfast.toml").write_text(f"store = {json.dumps(str(home / 'host.db'))}\n", encoding="utf-8")
        engine = import_module("holdfast.adapters.hermes.plugin").HermesEngine()
        engine.update_model("scripted", import_module("holdfast").Config().model_context_window)
        engine.threshold_tokens = max(1, budget)
        engine.on_session_start("bench", hermes_home=str(home))
        _kept["engine"] = engine
    engine = _kept["engine"]
    if not engine.should_compress_preflight(messages):
        return messages
    window: list[Message] = engine.compress(messages)
    if engine.trouble is not None:
        raise RuntimeError(engine.trouble)
    return window


def holdfast_openai_agents(messages: list[Message], budget: int) -> list[Message]:
    """holdfast as the Agents SDK's session: what is new is added, and the items for the next run are taken."""
    if "session" not in _kept:
        _kept["session"] = import_module("holdfast.adapters.openai_agents").HoldfastSession("bench", _through(budget))
    session = _kept["session"]

    async def followed() -> list[Any]:
        await session.add_items(_to_responses(_new(messages)))
        _handed_out(messages)
        items: list[Any] = await session.get_items()
        return items

    return _handed_out(_from_responses(asyncio.run(followed())))


def holdfast_pydantic_ai(messages: list[Message], budget: int) -> list[Message]:
    """holdfast as a capability of Pydantic AI's agents, around one request whose messages it cuts down to the window."""
    ai, models = import_module("pydantic_ai"), import_module("pydantic_ai.models")
    parts, model = import_module("pydantic_ai.messages"), import_module("pydantic_ai.models.test").TestModel()
    if "history" not in _kept:
        history = import_module("holdfast.adapters.pydantic_ai").HoldfastHistory
        _kept["history"] = history(_through(budget), thread_id="bench", replaces_history=True)
    new = _to_pydantic(messages, parts)[_kept.get("handed_out", 0) :]
    context = ai.RunContext(deps=None, model=model, usage=ai.RunUsage(), messages=[*_kept.get("run", ()), *new])
    request = models.ModelRequestContext(
        model=model,
        messages=list(context.messages),
        model_settings=None,
        model_request_parameters=models.ModelRequestParameters(),
    )

    async def answered(sent: Any) -> Any:
        return parts.ModelResponse(parts=[parts.TextPart("")])

    asyncio.run(_kept["history"].wrap_model_request(context, request_context=request, handler=answered))
    _kept["run"] = list(context.messages)
    return _handed_out(_from_pydantic(_kept["run"]))


def holdfast_litellm(messages: list[Message], budget: int) -> list[Message]:
    """holdfast as LiteLLM's hook: the client shows its whole history, and what would go out in its place is taken."""
    if "hook" not in _kept:
        _kept["hook"] = import_module("holdfast.adapters.litellm").HoldfastHook(_through(budget))
    shown = [*_kept.get("shown", ()), *_new(messages)]
    window = _kept["hook"].window(shown, conversation="bench")
    _kept["shown"] = shown
    return _handed_out(window)


# Each with the packages that it needs: what is measured first, then the host it is measured in.
COMPACTORS = {
    "langchain": (("langchain",), langchain),
    "hermes": (("hermes-agent",), hermes),
    "pydantic-ai": (("pydantic-ai-harness",), pydantic_ai),
    "headroom": (("headroom-ai",), headroom),
    "openai-agents": (("openai-agents",), openai_agents),
    "holdfast-langchain": (("holdfast", "langchain"), holdfast_langchain),
    "holdfast-hermes": (("holdfast", "hermes-agent"), holdfast_hermes),
    "holdfast-openai-agents": (("holdfast", "openai-agents"), holdfast_openai_agents),
    "holdfast-pydantic-ai": (("holdfast", "pydantic-ai-slim"), holdfast_pydantic_ai),
    "holdfast-litellm": (("holdfast", "litellm"), holdfast_litellm),
}


def _versions(packages: tuple[str, ...]) -> str:
    """Return the first package's version, with the host's behind it.

    Raises:
        PackageNotFoundError: One of them is not installed; its `name` says which.
    """
    return " in ".join([version(packages[0]), *(f"{host} {version(host)}" for host in packages[1:])])


def main(name: str) -> None:
    """Serve one compactor until standard input ends."""
    # What peers print themselves goes to standard error: standard output is the conversation.
    _conversation.append(os.dup(1))
    os.dup2(2, 1)
    packages, compact = COMPACTORS[name]
    try:
        say({"ready": _versions(packages)})
    except PackageNotFoundError as missing:
        say({"cannot": f"{missing.name} is not installed"})
        return
    window: list[Message] = []
    with ThreadPoolExecutor(max_workers=1) as worker:
        for line in sys.stdin:
            told = json.loads(line)
            if told.get("begin"):
                window = []
                _kept.clear()
                continue
            window = [*window, *told["new"]]
            hop = worker.submit(compact, window, told["budget"])
            # Whatever a peer raises is its failure, told as such; the window stays what it was.
            if error := hop.exception():
                say({"failed": f"{type(error).__name__}: {error}"[:500]})
                continue
            window = hop.result()
            say({"window": window})


if __name__ == "__main__":
    main(sys.argv[1])
