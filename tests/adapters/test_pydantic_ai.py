"""Pydantic AI's own agent with threadkeep's capability, against a provider on this machine."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
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
from tests.doubles.provider import ScriptedProvider
from tests.prefixes import stable_prefix

from threadkeep import Config, Threadkeep
from threadkeep.adapters.bridge import shared
from threadkeep.adapters.pydantic_ai import ThreadkeepHistory, make_items, make_messages
from threadkeep.dialects import find_dialect
from threadkeep.items import ItemKind
from threadkeep.store import RecordKind

__all__ = ["stable_prefix"]

# Every process that collects these tests imports the SDK first, which takes a second or more.
pytestmark = pytest.mark.slow


def survey(pier: int) -> str:
    """Survey a pier."""
    return surveyed(pier)


@asynccontextmanager
async def agent_on(provider: ScriptedProvider, history: ThreadkeepHistory) -> AsyncIterator[Agent[None, str]]:
    async with AsyncOpenAI(base_url=provider.url, api_key=SECRET, max_retries=0) as client:
        model = OpenAIChatModel("gpt-5.4", provider=OpenAIProvider(openai_client=client))
        yield Agent(model, instructions=SYSTEM, tools=[survey], capabilities=[history])


async def lead(
    provider: ScriptedProvider, history: ThreadkeepHistory, said: Sequence[str], *, kept: bytes = b"[]"
) -> tuple[bytes, str]:
    """Say all of it, one run each, as a program does that keeps a conversation as JSON; return what it keeps, and the answer."""
    output = ""
    async with agent_on(provider, history) as agent:
        for text in said:
            messages = ModelMessagesTypeAdapter.validate_json(kept)
            result = await agent.run(text, message_history=messages, conversation_id="harbour")
            kept, output = result.all_messages_json(), result.output
    return kept, output


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("replaces_history", [False, True], ids=["history kept", "history replaced"])
async def test_an_agent_long_enough_to_compact_three_times(tmp_path: Path, *, replaces_history: bool) -> None:
    """Through a restart the model is sent the thread's own window, whole, and a compacted needle comes back by recall."""
    config = settings(tmp_path / "agent.db")
    async with ScriptedProvider([*turns(), *looking_back()], enforcing=True, counting=True) as provider:
        first = ThreadkeepHistory(config, replaces_history=replaces_history)
        kept, _ = await lead(provider, first, [asked(pier) for pier in range(1, 10)])
        shared.close()
        second = ThreadkeepHistory(config, replaces_history=replaces_history)
        rest = [*(asked(pier) for pier in range(10, TURNS + 1)), QUESTION]
        kept, answer = await lead(provider, second, rest, kept=kept)
    before, after = (list(received.body["messages"]) for received in provider.requests[-2:])
    assert answer == f"It is {NEEDLE}."
    assert before[0] == {"role": "system", "content": SYSTEM}
    assert before[-1] == {"role": "user", "content": QUESTION}
    assert NEEDLE not in str(before)
    assert RULE in str(before)
    assert after[: len(before)] == before
    assert NEEDLE in after[-1]["content"]
    assert second.trouble is None
    length = len(ModelMessagesTypeAdapter.validate_json(kept))
    assert length < TURNS if replaces_history else length == 4 * (TURNS + 1)
    async with Threadkeep(config) as tk:
        thread = await tk.thread("harbour", dialect="chat")
        assert sum(record.kind is RecordKind.CHECKPOINT for record in await thread.records()) >= 3
        items = (await thread.history()).items[:-1]
        assert [_words(item) for item in items] == [_sent(message) for message in after[1:]]
        replayed = await windows_before_answers(tk, thread, joined=False)
        assert [[_words(item) for item in window] for window in replayed] == [
            [_sent(message) for message in received.body["messages"][1:]] for received in provider.requests
        ]
        assert (await tk.verify()).problems == ()
        assert [summary.id for summary in await tk.threads()] == ["harbour"]


def _words(item: Any) -> tuple[str, str, list[Any], str | None]:
    view, value = find_dialect("chat").view(item), json.loads(item.raw)
    text = "" if view.kind is ItemKind.CALL else view.text
    return view.role.value, text, _calls(value), value.get("tool_call_id")


def _sent(message: dict[str, Any]) -> tuple[str, str, list[Any], str | None]:
    return message["role"], message.get("content") or "", _calls(message), message.get("tool_call_id")


def _calls(message: dict[str, Any]) -> list[Any]:
    """Return what is called, by which name and with what, however its arguments are spelt."""
    called = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
    return [(name, function["name"], json.loads(function["arguments"])) for name, function in called]


@pytest.mark.anyio
async def test_a_run_from_an_older_message_is_a_fork(tmp_path: Path) -> None:
    """A program that goes on from an earlier history does so in a thread of its own."""
    config = settings(tmp_path / "agent.db")
    history = ThreadkeepHistory(config)
    async with ScriptedProvider([*turns(1, 3), *turns(9, 9), *turns(4, 4)], enforcing=True) as provider:
        older, _ = await lead(provider, history, [asked(1), asked(2)])
        newest, _ = await lead(provider, history, [asked(3)], kept=older)
        await lead(provider, history, [asked(9)], kept=older)
        forked = list(provider.requests[-1].body["messages"])
        await lead(provider, history, [asked(4)], kept=newest)
    assert [each["content"] for each in forked if each["role"] == "user"] == [asked(1), asked(2), asked(9)]
    last = provider.requests[-1].body["messages"]
    assert [each["content"] for each in last if each["role"] == "user"] == [asked(pier) for pier in (1, 2, 3, 4)]
    async with Threadkeep(config) as tk:
        assert len(await tk.threads()) == 2
        assert (await tk.verify()).problems == ()


@pytest.mark.anyio
async def test_a_streamed_run_is_recorded_too(tmp_path: Path) -> None:
    """What a stream brought is in the thread, the answer too."""
    config = settings(tmp_path / "agent.db")
    history = ThreadkeepHistory(config, thread_id="streamed")
    async with (
        ScriptedProvider(list(turns(1, 1)), enforcing=True) as provider,
        agent_on(provider, history) as agent,
        agent.run_stream(asked(1)) as streamed,
    ):
        await streamed.get_output()
    async with Threadkeep(config) as tk:
        window = await (await tk.thread("streamed", dialect="chat")).window()
        assert [item["role"] for item in window] == ["user", "assistant", "tool", "assistant"]
        assert window[2]["content"] == surveyed(1)


@pytest.mark.anyio
async def test_no_credential_reaches_the_store(tmp_path: Path) -> None:
    """The key that the client sends is in no file of the store."""
    async with ScriptedProvider(list(turns(1, 2)), enforcing=True) as provider:
        await lead(provider, ThreadkeepHistory(settings(tmp_path / "agent.db")), [asked(1), asked(2)])
    shared.close()
    assert not [path for path in tmp_path.iterdir() if SECRET.encode() in path.read_bytes()]


@pytest.mark.anyio
async def test_an_open_store_can_be_handed_in(tk: Threadkeep) -> None:
    """It is used on the program's own loop."""
    async with ScriptedProvider(list(turns(1, 1)), enforcing=True) as provider:
        await lead(provider, ThreadkeepHistory(tk), [asked(1)])
    assert len(await (await tk.thread("harbour", dialect="chat")).window()) == 4


MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
texts = st.text(st.characters(codec="utf-8"), max_size=30)
ids = st.text("abcdef0123456789", min_size=1, max_size=8)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
user_contents = texts | st.lists(
    texts
    | st.builds(ImageUrl, url=st.just("https://harbour.example/pier.png"))
    | st.builds(BinaryContent, data=st.binary(max_size=9), media_type=st.just("image/png")),
    max_size=3,
)
request_parts: st.SearchStrategy[Any] = st.one_of(
    st.builds(UserPromptPart, content=user_contents, timestamp=st.just(MOMENT)),
    st.builds(SystemPromptPart, content=texts, timestamp=st.just(MOMENT)),
    st.builds(
        ToolReturnPart,
        tool_name=ids,
        content=json_values,
        tool_call_id=ids,
        metadata=json_values,
        timestamp=st.just(MOMENT),
        outcome=st.sampled_from(["success", "failed"]),
    ),
    st.builds(RetryFeedbackPart, content=texts, retry=st.just(RetryInfo("no_output", attempt=1)), timestamp=st.just(MOMENT)),
)
response_parts: st.SearchStrategy[Any] = st.one_of(
    st.builds(TextPart, content=texts, id=st.none() | ids),
    st.builds(ThinkingPart, content=texts, signature=st.none() | ids, id=st.none() | ids),
    st.builds(
        ToolCallPart, tool_name=ids, args=st.none() | texts | st.dictionaries(texts, json_values, max_size=2), tool_call_id=ids
    ),
)
histories = st.lists(
    st.builds(ModelRequest, parts=st.lists(request_parts, min_size=1, max_size=3), timestamp=st.none() | st.just(MOMENT))
    | st.builds(
        ModelResponse,
        parts=st.lists(response_parts, min_size=1, max_size=3),
        timestamp=st.just(MOMENT),
        model_name=st.none() | texts,
        provider_details=st.none() | st.dictionaries(texts, json_values, max_size=2),
    ),
    max_size=5,
)


@given(histories)
def test_any_history_is_the_same_after_it_was_items(history: list[ModelMessage]) -> None:
    """Read back without the originals it is what the library itself reads back; with them, the very same objects."""
    written = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))
    items = make_items(history)
    alone = make_messages(items, [])
    # Alone, neighbouring requests are one: where one ended is not said to any model.
    assert [part for message in alone for part in message.parts] == [part for message in written for part in message.parts]
    chat = find_dialect("chat")
    assert [chat.canonical(chat.parse(item)) for item in make_items(alone)] == [
        chat.canonical(chat.parse(item)) for item in items
    ]
    assert all(one is other for one, other in zip(make_messages(items, history), history, strict=True))


def test_a_window_of_threadkeeps_own_is_recognised_when_it_is_shown_again() -> None:
    """The session state and an aborted output become parts that turn into the same items again."""
    made = [
        {"role": "user", "content": "The earlier part of this session was compacted."},
        {"role": "tool", "tool_call_id": "call_1", "content": "aborted"},
    ]
    assert make_items(make_messages(made, [])) == made


def test_the_settings_are_those_of_the_store(tmp_path: Path) -> None:
    """A path is enough; nothing is opened before the first run."""
    ThreadkeepHistory(tmp_path / "agent.db")
    ThreadkeepHistory(Config(store=str(tmp_path / "agent.db")))
    assert list(tmp_path.iterdir()) == []
