"""Clients that name the answer they go on from, before a provider that keeps nothing: each request it gets is whole."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, call, http_error, say
from tests.gateway.client import threads

import threadkeep
from threadkeep.gateway.serve import running_gateway
from threadkeep.store import RecordKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from threadkeep import Threadkeep

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

TOOL = {"type": "function", "name": "bash", "parameters": {}}
LONG = "The build log follows for reference. " * 400


class Resumed:
    """A client that keeps nothing but the id of the last answer."""

    def __init__(self, url: str, session: ClientSession) -> None:
        self._url, self._session = url, session
        self.last: str | None = None
        self.status = 0

    async def send(self, given: str | list[Json], *, path: str = "/responses", **fields: object) -> Json:
        body = {"model": "m", "instructions": "Be brief.", "tools": [TOOL], "input": given, **fields}
        if self.last is not None:
            body.setdefault("previous_response_id", self.last)
        async with self._session.post(f"{self._url}/v1{path}", data=json.dumps(body)) as answer:
            self.status, read = answer.status, await answer.json()
        self.last = read.get("id", self.last)
        return dict(read)

    async def post(self, path: str, **fields: object) -> Json:
        async with self._session.post(f"{self._url}/v1{path}", json=fields) as answer:
            return dict(await answer.json())

    async def say(self, text: str) -> str:
        return str((await self.send(text))["output"][-1]["content"][0]["text"])


@asynccontextmanager
async def resumed(
    tk: Threadkeep, script: Sequence[Reply], *, conversations: Json | None = None, **settings: Any
) -> AsyncIterator[tuple[Resumed, ScriptedProvider]]:
    async with (
        ScriptedProvider(script, enforcing=True, conversations=conversations) as provider,
        running_gateway(tk, upstream=provider.url, **settings) as url,
        ClientSession() as session,
    ):
        yield Resumed(url, session), provider


def texts(history: list[Json]) -> list[str]:
    """Return what each item of a history says, or what it is."""
    contents: list[Any] = [item.get("content", item.get("type")) for item in history]
    return [content if isinstance(content, str) else "".join(part["text"] for part in content) for content in contents]


async def test_the_provider_gets_the_whole_history(tk: Threadkeep) -> None:
    """The id is gone, the answers stand between what was asked, and a call keeps its output."""
    async with resumed(tk, [say("one"), call("bash", {}, call_id="call_1"), say("three")]) as (client, provider):
        await client.say("ONE")
        await client.send("TWO")
        await client.send([{"type": "function_call_output", "call_id": "call_1", "output": "done"}])
    assert texts(provider.requests[2].input) == ["ONE", "one", "TWO", "function_call", "function_call_output"]
    assert all("previous_response_id" not in request.body for request in provider.requests)
    assert all(request.body["instructions"] == "Be brief." for request in provider.requests)
    [thread] = await threads(tk)
    kinds = [record.kind for record in await thread.records()]
    assert kinds.count(RecordKind.ITEM) == 5
    assert (await tk.verify()).ok


async def test_items_in_front_of_a_history_stay_there(tk: Threadkeep) -> None:
    """What the first request said in the developer's role was sent once, and begins every request."""
    async with resumed(tk, [say("one"), say("two")]) as (client, provider):
        await client.send([{"role": "developer", "content": "Never push."}, {"role": "user", "content": "ONE"}])
        await client.say("TWO")
    assert texts(provider.requests[1].input) == ["Never push.", "ONE", "one", "TWO"]


async def test_an_answer_is_found_after_a_restart(tmp_path: Path) -> None:
    """The id is in the store, not in the process."""
    script = [say("one"), say("two")]
    async with ScriptedProvider(script, enforcing=True) as provider:
        last = None
        for text in ("ONE", "TWO"):
            async with (
                threadkeep.open(tmp_path / "kept.db") as tk,
                running_gateway(tk, upstream=provider.url) as url,
                ClientSession() as session,
            ):
                client = Resumed(url, session)
                client.last = last
                await client.say(text)
                last = client.last
    assert texts(provider.requests[1].input) == ["ONE", "one", "TWO"]


async def test_an_older_answer_begins_a_fork(tk: Threadkeep) -> None:
    """Two requests go on from one answer; neither sees the other."""
    async with resumed(tk, [say("one"), say("two"), say("other")]) as (client, provider):
        await client.say("ONE")
        first = client.last
        await client.say("TWO")
        client.last = first
        await client.say("OTHER")
    assert texts(provider.requests[2].input) == ["ONE", "one", "OTHER"]
    assert sorted(row.parent is None for row in await tk.threads()) == [False, True]


async def test_a_compaction_shortens_what_is_sent(tk: Threadkeep) -> None:
    """A command compacts; the next request goes on from the answer to the command, and holds the state."""
    script = [say("one"), call("bash", {}, call_id="call_1"), say("two"), say("three"), say("four")]
    async with resumed(tk, script) as (client, provider):
        await client.say("Never touch vendor/. Begin.")
        await client.send("Build it.")
        await client.send([{"type": "function_call_output", "call_id": "call_1", "output": LONG}])
        assert (await client.say("/compact")).startswith("Compacted")
        await client.say("THREE")
        await client.say("FOUR")
    for request in provider.requests[3:]:
        assert "session_compact_state" in json.dumps(request.input)
        assert "Never touch vendor/." in json.dumps(request.input)
        assert LONG not in json.dumps(request.input)
        assert "/compact" not in json.dumps(request.input)
    assert len(await tk.threads()) == 1


async def test_an_id_of_another_passes_through(tk: Threadkeep) -> None:
    """The provider may know it; what it says is the client's answer, and nothing is recorded."""
    refusal = http_error(400, "Previous response with id 'resp_x' not found.", code="previous_response_not_found")
    async with resumed(tk, [refusal]) as (client, provider):
        client.last = "resp_x"
        answer = await client.send("ONE")
    assert (client.status, answer["error"]["code"]) == (400, "previous_response_not_found")
    assert provider.requests[0].body["previous_response_id"] == "resp_x"
    assert await tk.threads() == []


async def test_an_answer_that_must_not_be_kept_cannot_be_named(tk: Threadkeep) -> None:
    """`store: false` means what it means to the provider."""
    refusal = http_error(400, "not found", code="previous_response_not_found")
    async with resumed(tk, [say("one"), refusal]) as (client, provider):
        await client.send("ONE", store=False)
        await client.send("TWO")
    assert provider.requests[1].body["previous_response_id"] is not None


@pytest.mark.parametrize("named", ["c_1", {"id": "c_1"}])
async def test_a_conversation_is_sent_whole(tk: Threadkeep, named: str | Json) -> None:
    """Its id stands for all that was said under it; another one is another thread, however alike they begin."""
    script = [say("one"), call("bash", {}, call_id="call_1"), say("one"), say("three")]
    async with resumed(tk, script) as (client, provider):
        await client.send("ONE", conversation=named, previous_response_id=None)
        await client.send("TWO", conversation=named, previous_response_id=None)
        await client.send("ONE", conversation="c_2", previous_response_id=None)
        output = {"type": "function_call_output", "call_id": "call_1", "output": "done"}
        await client.send([output], conversation=named, previous_response_id=None, store=False)
    assert texts(provider.requests[2].input) == ["ONE"]
    assert texts(provider.requests[3].input) == ["ONE", "one", "TWO", "function_call", "function_call_output"]
    assert not any("conversation" in request.body for request in provider.requests)
    assert [row.parent for row in await tk.threads()] == [None, None]
    assert (await tk.verify()).ok


async def test_a_conversation_is_found_after_a_restart_and_compacted(tmp_path: Path) -> None:
    """A command compacts it in one process; another one goes on with the state, and forgets nothing that was demanded."""
    script = [say("one"), call("bash", {}, call_id="call_1"), say("two"), say("three"), say("four")]
    output = {"type": "function_call_output", "call_id": "call_1", "output": LONG}
    sent: list[str | list[Json]] = ["Never touch vendor/. Begin.", "Build it.", [output], "tk compact", "THREE", "FOUR"]
    async with ScriptedProvider(script, enforcing=True) as provider:
        for given in sent:
            async with (
                threadkeep.open(tmp_path / "kept.db") as tk,
                running_gateway(tk, upstream=provider.url) as url,
                ClientSession() as session,
            ):
                await Resumed(url, session).send(given, conversation="c_1")
                rows = await tk.threads()
    for request in provider.requests[3:]:
        sent_text = json.dumps(request.input)
        assert [text in sent_text for text in ("session_compact_state", "Never touch vendor/.", LONG, "tk compact")] == [
            *(True, True, False, False)
        ]
    assert [row.checkpoints for row in rows] == [1]


async def test_a_conversation_begins_with_what_its_provider_holds(tk: Threadkeep) -> None:
    """Items that were said elsewhere, or given when it was made, are read once; from then on it is ours."""
    held = [{"type": "message", "role": "user", "content": text} for text in ("Earlier.", "And then.")]
    async with resumed(tk, [say("one"), say("two")], conversations={"c_1": held}) as (client, provider):
        for text in ("ONE", "TWO"):
            await client.send(text, conversation="c_1", previous_response_id=None)
    assert texts(provider.requests[0].input) == ["Earlier.", "And then.", "ONE"]
    assert texts(provider.requests[1].input) == ["Earlier.", "And then.", "ONE", "one", "TWO"]


async def test_a_conversation_that_its_provider_does_not_know_is_its_to_refuse(tk: Threadkeep) -> None:
    """The request goes out as it came, and nothing is recorded."""
    refusal = http_error(404, "Conversation with id 'c_1' not found.")
    async with resumed(tk, [refusal], conversations={}) as (client, provider):
        await client.send("ONE", conversation="c_1")
    assert (client.status, provider.requests[0].body["conversation"]) == (404, "c_1")
    assert await tk.threads() == []


@pytest.mark.parametrize("role", ["developer", "user"])
async def test_a_conversation_is_made_where_the_provider_makes_none(tk: Threadkeep, role: str) -> None:
    """With the items that it is to begin with."""
    first = {"type": "message", "role": role, "content": "Never push."}
    script = [say("one"), say("two"), say("other")]
    async with resumed(tk, script) as (client, provider):
        made = [await client.post("/conversations", items=items, metadata={"a": "b"}) for items in ([first], [])]
        for text in ("ONE", "TWO"):
            await client.send(text, conversation=made[0]["id"], previous_response_id=None)
        await client.send("OTHER", conversation=made[1]["id"], previous_response_id=None)
    assert [(each["object"], each["metadata"]) for each in made] == [("conversation", {"a": "b"})] * 2
    assert texts(provider.requests[1].input) == ["Never push.", "ONE", "one", "TWO"]
    assert texts(provider.requests[2].input) == ["OTHER"]


async def test_a_history_is_compacted_by_the_id_of_its_last_answer(tk: Threadkeep) -> None:
    """The provider's own endpoint for that gets the whole history too."""
    compacted = {"id": "resp_c", "object": "response.compaction", "output": []}
    async with resumed(tk, [say("one"), Reply(body=compacted)]) as (client, provider):
        await client.say("ONE")
        made = await client.post("/responses/compact", model="m", previous_response_id=client.last)
    assert made["id"] == "resp_c"
    assert texts(provider.requests[1].input) == ["ONE", "one"]


async def test_reasoning_that_only_its_provider_could_find_is_left_out(tk: Threadkeep) -> None:
    """A request that is not stored cannot point at reasoning by its id; sealed reasoning travels with the history."""
    bare = Reply(items=({"type": "reasoning", "summary": []}, *say("one").items))
    async with resumed(tk, [bare, say("two", encrypted_reasoning="SEALED"), say("three")]) as (client, provider):
        await client.say("ONE")
        await client.say("TWO")
        await client.send("THREE", store=False)
    assert [item.get("type") for item in provider.requests[1].input][1] == "reasoning"
    assert texts(provider.requests[2].input) == ["ONE", "one", "TWO", "reasoning", "two", "THREE"]
