"""LangChain's own agent with threadkeep's middleware, plain and asynchronous, against a provider on this machine."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain.tools import tool
from langchain_core.messages import ChatMessage, FunctionMessage, convert_to_openai_messages
from langgraph.checkpoint.memory import InMemorySaver
from tests.adapters.expected_windows import windows_before_answers
from tests.adapters.long_session import (
    NEEDLE,
    QUESTION,
    RULE,
    SECRET,
    SYSTEM,
    TURNS,
    asked,
    looking_back,
    settings,
    surveyed,
    turns,
)
from tests.adapters.wired_model import WiredChatModel
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import call, say
from tests.prefixes import stable_prefix

from threadkeep import Config, Threadkeep
from threadkeep.adapters.bridge import shared
from threadkeep.adapters.langchain import ThreadkeepMiddleware, make_item, make_message
from threadkeep.dialects import find_dialect
from threadkeep.errors import BadInput
from threadkeep.store import RecordKind

__all__ = ["stable_prefix"]

# Every process that collects these tests imports the SDK first, which takes a second or more.
pytestmark = pytest.mark.slow


@tool
def survey(pier: int) -> str:
    """Survey a pier."""
    return surveyed(pier)


class Harbour:
    """An agent with its own middleware, as a process has them; the saver is what outlives it."""

    def __init__(self, provider: ScriptedProvider, config: Config, saver: InMemorySaver, **how: Any) -> None:
        self.middleware = ThreadkeepMiddleware(config, **how)
        model = WiredChatModel(url=provider.url, key=SECRET)
        self.agent = create_agent(model, [survey], system_prompt=SYSTEM, middleware=[self.middleware], checkpointer=saver)
        self.config: Any = {"configurable": {"thread_id": "harbour"}}

    async def say(self, text: str, *, plainly: bool = False) -> str:
        asked_for: Any = {"messages": [{"role": "user", "content": text}]}
        if plainly:
            state = await asyncio.to_thread(self.agent.invoke, asked_for, self.config)
        else:
            state = await self.agent.ainvoke(asked_for, self.config)
        return str(state["messages"][-1].content)

    async def messages(self) -> list[AnyMessage]:
        state = await self.agent.aget_state(self.config)
        return list(state.values["messages"])


def as_sent(window: list[dict[str, Any]]) -> list[dict[str, Any]]:
    converted: Any = convert_to_openai_messages([make_message(each) for each in window])
    return [{"role": "system", "content": SYSTEM}, *converted]


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("plainly", "replaces_state"), [(False, False), (True, True)], ids=["asynchronous", "plain, state replaced"]
)
async def test_an_agent_long_enough_to_compact_three_times(tmp_path: Path, *, plainly: bool, replaces_state: bool) -> None:
    """Through a restart the model is sent the thread's own window, whole, and a compacted needle comes back by recall."""
    config, saver = settings(tmp_path / "agent.db"), InMemorySaver()
    async with ScriptedProvider([*turns(), *looking_back()], enforcing=True, counting=True) as provider:
        first = Harbour(provider, config, saver, replaces_state=replaces_state)
        for pier in range(1, 10):
            await first.say(asked(pier), plainly=plainly)
        shared.close()
        second = Harbour(provider, config, saver, replaces_state=replaces_state)
        for pier in range(10, TURNS + 1):
            await second.say(asked(pier), plainly=plainly)
        assert await second.say(QUESTION, plainly=plainly) == f"It is {NEEDLE}."
        kept = await second.messages()
    before, after = (list(received.body["messages"]) for received in provider.requests[-2:])
    assert before[-1]["content"].endswith(QUESTION)
    assert NEEDLE not in str(before)
    assert RULE in str(before)
    assert NEEDLE in after[-1]["content"]
    assert second.middleware.trouble is None
    whole = 4 * (TURNS + 1)
    assert len(kept) < whole if replaces_state else [len(kept), kept[0].content] == [whole, asked(1)]
    async with Threadkeep(config) as tk:
        thread = await tk.thread("harbour", dialect="chat")
        assert sum(record.kind is RecordKind.CHECKPOINT for record in await thread.records()) >= 3
        assert as_sent((await thread.window())[:-1]) == after
        replayed = await windows_before_answers(tk, thread)
        assert [as_sent([json.loads(item.raw) for item in window]) for window in replayed] == [
            received.body["messages"] for received in provider.requests
        ]
        assert (await tk.verify()).problems == ()
        assert [summary.id for summary in await tk.threads()] == ["harbour"]


@pytest.mark.anyio
async def test_a_run_from_an_older_checkpoint_is_a_fork(tmp_path: Path) -> None:
    """LangGraph's time travel goes on in a thread of its own, and the newer history is still there."""
    config, saver = settings(tmp_path / "agent.db"), InMemorySaver()
    async with ScriptedProvider([*turns(1, 3), *turns(9, 9), *turns(4, 4)], enforcing=True) as provider:
        harbour = Harbour(provider, config, saver)
        for pier in (1, 2, 3):
            await harbour.say(asked(pier))
        newest = await harbour.agent.aget_state(harbour.config)
        past = [state async for state in harbour.agent.aget_state_history(harbour.config)]
        older = next(state for state in past if len(state.values["messages"]) == 8 and not state.next)
        harbour.config = older.config
        await harbour.say(asked(9))
        forked = list(provider.requests[-1].body["messages"])
        harbour.config = newest.config
        await harbour.say(asked(4))
    assert [each["content"] for each in forked if each["role"] == "user"] == [asked(1), asked(2), asked(9)]
    assert [each["content"] for each in provider.requests[-1].body["messages"] if each["role"] == "user"] == [
        asked(1),
        asked(2),
        asked(3),
        asked(4),
    ]
    async with Threadkeep(config) as tk:
        assert len(await tk.threads()) == 2
        assert (await tk.verify()).problems == ()


@pytest.mark.anyio
async def test_an_agent_without_a_checkpointer_names_its_thread(tmp_path: Path) -> None:
    """The middleware's own thread is taken; with neither, the run is refused with what to do."""
    config = settings(tmp_path / "agent.db")
    asked_for: Any = {"messages": [HumanMessage(asked(1))]}
    async with ScriptedProvider(list(turns(1, 1)), enforcing=True) as provider:
        model = WiredChatModel(url=provider.url, key=SECRET)
        named = create_agent(model, [survey], middleware=[ThreadkeepMiddleware(config, thread_id="named")])
        await named.ainvoke(asked_for)
        with pytest.raises(BadInput, match="has no thread"):
            await create_agent(model, [survey], middleware=[ThreadkeepMiddleware(config)]).ainvoke(asked_for)
    async with Threadkeep(config) as tk:
        assert [summary.id for summary in await tk.threads()] == ["named"]


@pytest.mark.anyio
async def test_an_open_store_serves_asynchronous_agents_only(tk: Threadkeep) -> None:
    """It is used on the program's own loop; a plain call, which would block that loop, is refused."""
    asked_for: Any = {"messages": [HumanMessage(asked(1))]}
    async with ScriptedProvider(list(turns(1, 1)), enforcing=True) as provider:
        model = WiredChatModel(url=provider.url, key=SECRET)
        agent = create_agent(model, [survey], middleware=[ThreadkeepMiddleware(tk, thread_id="own")])
        await agent.ainvoke(asked_for)
        with pytest.raises(BadInput, match="give the adapter the store's path"):
            await asyncio.to_thread(agent.invoke, asked_for)
    assert [item["role"] for item in await (await tk.thread("own", dialect="chat")).window()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


@pytest.mark.anyio
async def test_an_agent_within_an_agents_tool_has_a_thread_of_its_own(tmp_path: Path) -> None:
    """Both run under one thread_id; what one is told is in no window of the other."""
    config = settings(tmp_path / "agent.db")
    script = [call("delegate", {"task": "count the gulls"}, call_id="call_d"), say("Nine gulls."), say("There are nine.")]
    async with ScriptedProvider(script, enforcing=True) as provider:
        model = WiredChatModel(url=provider.url, key=SECRET)
        inner = create_agent(model, [survey], middleware=[ThreadkeepMiddleware(config, replaces_state=True)])

        @tool
        async def delegate(task: str) -> str:
            """Have somebody else do it."""
            state = await inner.ainvoke({"messages": [HumanMessage(task)]})
            return str(state["messages"][-1].content)

        outer = create_agent(
            model, [delegate], middleware=[ThreadkeepMiddleware(config, replaces_state=True)], checkpointer=InMemorySaver()
        )
        asked_for: Any = {"messages": [HumanMessage("How many gulls?")]}
        state = await outer.ainvoke(asked_for, {"configurable": {"thread_id": "harbour"}})
    assert state["messages"][-1].content == "There are nine."
    async with Threadkeep(config) as tk:
        windows = {each.id: await (await tk.thread(each.id, dialect="chat")).window() for each in await tk.threads()}
    assert {name: [item["content"] for item in window] for name, window in windows.items()} == {
        "harbour": ["How many gulls?", "", "Nine gulls.", "There are nine."],
        "harbour.tools": ["count the gulls", "Nine gulls."],
    }


@pytest.mark.anyio
async def test_no_credential_reaches_the_store(tmp_path: Path) -> None:
    """The key that the client sends is in no file of the store."""
    async with ScriptedProvider(list(turns(1, 2)), enforcing=True) as provider:
        harbour = Harbour(provider, settings(tmp_path / "agent.db"), InMemorySaver())
        for pier in (1, 2):
            await harbour.say(asked(pier))
    shared.close()
    assert not [path for path in tmp_path.iterdir() if SECRET.encode() in path.read_bytes()]


texts = st.text(st.characters(codec="utf-8"), max_size=40)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, json_values, max_size=3)
parts = st.fixed_dictionaries({"type": st.just("text"), "text": texts}, optional={"cache_control": objects}) | objects.map(
    lambda more: {**more, "type": "unheard_of"}
)
contents = texts | st.lists(texts | parts, max_size=3)
ids = st.none() | st.uuids().map(str)
calls = st.lists(
    st.builds(lambda name, args, at: {"name": name, "args": args, "id": at, "type": "tool_call"}, texts, objects, texts),
    max_size=2,
)
usages = st.none() | st.just({"input_tokens": 3, "output_tokens": 2, "total_tokens": 5})
messages = st.one_of(
    st.builds(HumanMessage, content=contents, id=ids, name=st.none() | texts, additional_kwargs=objects),
    st.builds(SystemMessage, content=contents, id=ids),
    st.builds(
        AIMessage,
        content=contents,
        id=ids,
        tool_calls=calls,
        usage_metadata=usages,
        response_metadata=objects,
        additional_kwargs=objects,
    ),
    st.builds(
        ToolMessage,
        content=contents,
        id=ids,
        tool_call_id=texts,
        status=st.sampled_from(["success", "error"]),
        artifact=json_values,
    ),
    st.builds(ChatMessage, content=texts, role=texts, id=ids),
    st.builds(FunctionMessage, content=texts, name=texts, id=ids),
)


@given(messages)
def test_any_message_is_the_same_after_it_was_an_item(message: Any) -> None:
    """Known parts and unknown ones: what was recorded is the message, whole."""
    chat = find_dialect("chat")
    item = chat.parse(make_item(message))
    assert make_message(make_item(message)) == message
    assert chat.parse(make_item(make_message(make_item(message)))).raw == item.raw


def test_what_json_cannot_say_is_named_and_the_rest_kept() -> None:
    """A tool's artifact may be anything; the item has its repr in its place."""
    item = make_item(ToolMessage("ok", tool_call_id="call_1", artifact={1, 2}))
    assert item == {
        "role": "tool",
        "content": "ok",
        "tool_call_id": "call_1",
        "langchain": {"type": "tool", "artifact": "{1, 2}"},
    }
