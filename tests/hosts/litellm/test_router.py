"""LiteLLM's Router and SDK with threadkeep's hook, in one process and offline: what the model was sent, whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import litellm
import pytest
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import say
from tests.hosts.litellm.play import (
    SYSTEM,
    TURNS,
    WINDOW_TOKENS,
    asks,
    essential,
    expected,
    history,
    items,
    replies,
    sent,
    states,
)

from threadkeep.adapters.bridge import shared
from threadkeep.adapters.litellm import ThreadkeepHook
from threadkeep.client import Config

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.anyio,
    # The host and what it is made of warn about each other.
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.moves_prefix(reason="each compaction moves it once"),
]

Json = dict[str, Any]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


@pytest.fixture
def hook(store: Path) -> Iterator[ThreadkeepHook]:
    hook = ThreadkeepHook(Config(store=str(store), model_context_window=WINDOW_TOKENS))
    litellm.callbacks = [hook]
    yield hook
    litellm.callbacks = []


def router(url: str) -> litellm.Router:
    parameters = {"model": "openai/scripted", "api_base": url, "api_key": "sk-scripted"}
    return litellm.Router(model_list=[{"model_name": "scripted", "litellm_params": parameters}])


async def test_a_long_conversation_is_compacted_three_times_and_the_model_gets_it_whole(
    hook: ThreadkeepHook, store: Path
) -> None:
    """The client shows everything each time; the model gets the window; the store is opened anew halfway; a needle comes back."""
    async with ScriptedProvider(replies(), counting=True) as model:
        routed = router(model.url)
        for number, shown in enumerate(history()):
            await routed.acompletion(model="scripted", messages=shown, metadata={"session_id": "s"})
            if number == TURNS:
                shared.close()
    kept = await states(store, "s")
    assert len(kept) >= 3
    assert [sent(request) for request in model.requests] == expected(model.requests, kept)
    shown = [essential(message) for message in [*history()][-1][1:]]
    assert await items(store, "s") == shown
    assert "report 2 is on file under heliotrope-2" in await hook.recall("heliotrope-2", conversation="s")
    last = str(sent(model.requests[-1]))
    assert [port for port in range(8000, 8000 + TURNS) if f"port {port}" not in last] == []


async def test_streams_and_the_sdk_s_own_messages_are_followed_too(hook: ThreadkeepHook, store: Path) -> None:
    """A program streams, or puts LiteLLM's own message objects back into its history; both are one conversation."""
    shown: list[Any] = [SYSTEM, asks(0)]
    async with ScriptedProvider([say("One."), say("Two."), say("Three.")]) as model:
        target = {"model": "openai/scripted", "api_base": model.url, "api_key": "sk-scripted", "metadata": {"session_id": "s"}}
        answer = await litellm.acompletion(messages=shown, **target)
        shown = [*shown, answer.choices[0].message, asks(1)]
        stream = await litellm.acompletion(messages=shown, stream=True, **target)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        shown = [*shown, {"role": "assistant", "content": text}, asks(2)]
        await litellm.acompletion(messages=shown, **target)
    said = [SYSTEM, asks(0), {"role": "assistant", "content": "One."}, asks(1), {"role": "assistant", "content": "Two."}, asks(2)]
    assert [sent(request) for request in model.requests] == [said[:2], said[:4], said]
    assert await items(store, "s") == said[1:]


async def test_requests_beside_the_conversation_leave_it_alone(hook: ThreadkeepHook, store: Path) -> None:
    """A title asked for under the same name, and conversations without any, are kept apart by what they hold."""
    title: list[Json] = [{"role": "user", "content": "Give this conversation a title."}]
    async with ScriptedProvider([say(text) for text in ("One.", "Title", "Two.", "Other.", "Third.")]) as model:
        routed = router(model.url)
        named = {"session_id": "s"}
        first = [SYSTEM, asks(0)]
        await routed.acompletion(model="scripted", messages=first, metadata=named)
        await routed.acompletion(model="scripted", messages=title, metadata=named)
        second = [*first, {"role": "assistant", "content": "One."}, asks(1)]
        await routed.acompletion(model="scripted", messages=second, metadata=named)
        await routed.acompletion(model="scripted", messages=[asks(7)])
        await routed.acompletion(model="scripted", messages=[asks(8)])
    assert [sent(request) for request in model.requests] == [first, title, second, [asks(7)], [asks(8)]]
    assert await items(store, "s") == second[1:]
    assert await items(store, "litellm") == [asks(7)]


async def test_conversations_of_two_keys_never_meet(hook: ThreadkeepHook, store: Path) -> None:
    """Two keys of the proxy use one name and begin alike: each has a thread of its own, whose name does not tell the key."""
    from litellm.proxy._types import UserAPIKeyAuth

    threads = []
    for key in ("digest-of-one", "digest-of-another"):
        data = {"model": "scripted", "messages": [SYSTEM, asks(0)], "metadata": {"session_id": "s"}}
        rewritten = await hook.async_pre_call_hook(UserAPIKeyAuth(api_key=key), None, data, "acompletion")
        threads.append(rewritten["metadata"]["threadkeep"]["thread"])
    assert len(set(threads)) == 2
    assert [thread for thread in threads if "digest" in thread or thread == "s"] == []
    assert [await items(store, thread) for thread in threads] == [[asks(0)], [asks(0)]]


async def test_what_cannot_be_recorded_is_sent_as_it_came(tmp_path: Path) -> None:
    """The store is a folder: the request goes out all the same, whole."""
    litellm.callbacks = [ThreadkeepHook(Config(store=str(tmp_path)))]
    async with ScriptedProvider([say("One.")]) as model:
        answer = await router(model.url).acompletion(model="scripted", messages=[SYSTEM, asks(0)])
    litellm.callbacks = []
    assert sent(model.requests[0]) == [SYSTEM, asks(0)]
    assert answer.choices[0].message.content == "One."


async def test_other_calls_are_none_of_its_business(hook: ThreadkeepHook) -> None:
    """An embedding, and a call without messages, pass through untouched."""
    others = (({"input": ["x"]}, "aembedding"), ({"messages": None}, "acompletion"), ({"prompt": "x"}, "atext_completion"))
    for data, kind in others:
        assert await hook.async_pre_call_hook(None, None, data, kind) is data


def test_a_program_without_a_loop_asks_for_the_window_itself(hook: ThreadkeepHook) -> None:
    """`litellm.completion` calls no hook before it sends; `window` gives what to send, system prompt included."""
    shown = [*history()][-1]
    window = hook.window(shown, conversation="s", model="openai/scripted")
    assert window[0] == SYSTEM
    assert len(str(window)) < len(str(shown)) / 3
    assert hook.window(shown, conversation="s", model="openai/scripted") == window


async def test_the_window_of_a_model_is_what_litellm_knows_of_it(store: Path) -> None:
    """Without a word in the configuration, a model's own window decides when to compact."""
    hook = ThreadkeepHook(Config(store=str(store), model_context_window=1_000_000))
    litellm.model_cost["small"] = {"max_input_tokens": WINDOW_TOKENS, "litellm_provider": "openai", "mode": "chat"}
    shown = [*history()][-1]
    kept = await hook.async_pre_call_deployment_hook({"model": "openai/other", "messages": shown}, "acompletion")
    smaller = await hook.async_pre_call_deployment_hook({"model": "openai/small", "messages": shown}, "acompletion")
    assert kept["messages"] is shown
    assert len(smaller["messages"]) < len(shown)
