"""The Claude Agent SDK's store contract, by its own conformance suite and beyond it. The real client: tests/clients."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from pathlib import Path
from typing import Any, cast

import mcp
import pytest
from claude_agent_sdk import (
    McpSdkServerConfig,
    SessionKey,
    SessionStoreEntry,
    delete_session_via_store,
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
)
from claude_agent_sdk.testing import run_session_store_conformance
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from mcp.types import TextContent
from tests.adapters.long_session import NEEDLE, RULE, asked, surveyed

from threadkeep import Config, Threadkeep
from threadkeep.adapters.bridge import shared
from threadkeep.adapters.claude_agent_sdk import ThreadkeepSessionStore, make_journal_id
from threadkeep.errors import InvalidItem, ThreadNotFound
from threadkeep.store import RecordKind

# Every process that collects these tests imports the SDK first, which takes a second or more.
pytestmark = pytest.mark.slow

SESSION = "cfa1e878-62b5-4e40-b281-bbf9b250d766"
KEY: SessionKey = {"project_key": "harbour", "session_id": SESSION}
Json = dict[str, Any]


def row(uuid: str, parent: str | None, message: Json, **more: Any) -> Json:
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "type": message["role"],
        "message": message,
        "uuid": uuid,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": "/harbour",
        "sessionId": SESSION,
        **more,
    }


def worked(pier: int, parent: str | None = None) -> list[Json]:
    """Return the rows a turn leaves in a transcript."""
    call = {"type": "tool_use", "id": f"toolu_{pier}", "name": "survey", "input": {"pier": pier}}
    output = {"type": "tool_result", "tool_use_id": f"toolu_{pier}", "content": surveyed(pier)}
    messages: list[Json] = [
        {"role": "user", "content": asked(pier)},
        {"role": "assistant", "content": [call], "model": "claude", "usage": {"output_tokens": 3}},
        {"role": "user", "content": [output]},
        {"role": "assistant", "content": [{"type": "text", "text": f"Pier {pier} is surveyed."}], "model": "claude"},
    ]
    uuids = [f"{pier:08}-0000-4000-8000-{at:012}" for at in range(4)]
    before = parent or (f"{pier - 1:08}-0000-4000-8000-{3:012}" if pier > 1 else None)
    return [row(uuid, above, each) for uuid, above, each in zip(uuids, [before, *uuids], messages, strict=False)]


def compacted(pier: int) -> list[Json]:
    """Return the rows Claude Code writes when it compacts after a turn."""
    last, boundary, summary = f"{pier:08}-0000-4000-8000-{3:012}", f"b{pier}", f"{pier:08}-0000-4000-8000-{3:012}"
    mark = {
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "compactMetadata": {"trigger": "auto"},
    }
    summed = {"role": "user", "content": f"This session is being continued. {RULE} {pier} piers are done."}
    return [
        {"parentUuid": None, "logicalParentUuid": last, "isSidechain": False, "sessionId": SESSION, "uuid": boundary, **mark},
        row(f"s{summary}", boundary, summed, isCompactSummary=True),
    ]


def entries(rows: list[Json]) -> list[SessionStoreEntry]:
    return cast("list[SessionStoreEntry]", rows)


@pytest.mark.anyio
async def test_the_sdks_own_conformance_suite_passes(tmp_path: Path) -> None:
    """Every contract the SDK states for a store holds."""
    numbers = count()
    await run_session_store_conformance(lambda: ThreadkeepSessionStore(Config(store=str(tmp_path / f"{next(numbers)}.db"))))


@pytest.mark.anyio
async def test_a_transcript_is_a_thread_through_three_compactions_and_a_restart(tmp_path: Path) -> None:
    """What was appended is loaded as it was; the conversation has the client's checkpoints, and a needle from before them."""
    config = Config(store=str(tmp_path / "agent.db"))
    rows = [each for pier in range(1, 13) for each in (*worked(pier), *(compacted(pier) if pier % 4 == 0 else ()))]
    store = ThreadkeepSessionStore(config)
    for at in range(0, 20, 5):
        await store.append(KEY, entries(rows[at : at + 5]))
    shared.close()
    resumed = ThreadkeepSessionStore(config)
    assert await resumed.load(KEY) == rows[:20]
    for at in range(20, len(rows), 7):
        await resumed.append(KEY, entries(rows[at : at + 7]))
    assert await resumed.load(KEY) == rows
    assert resumed.trouble is None
    assert await resumed.thread_id(KEY) == SESSION
    async with Threadkeep(config) as tk:
        thread = await tk.thread(SESSION)
        records = await thread.records()
        window = await thread.window()
        assert sum(record.kind is RecordKind.CHECKPOINT for record in records) == 3
        assert [each["content"] for each in window] == [f"This session is being continued. {RULE} 12 piers are done."]
        assert NEEDLE in (await thread.recall("serial of the bollard of pier 1"))[0].text
        assert (await tk.verify()).problems == ()
        assert [summary.id for summary in await tk.threads()] == [SESSION]


@pytest.mark.anyio
async def test_a_batch_that_is_tried_again_is_there_once(tmp_path: Path) -> None:
    """An entry's uuid is what it is known by, in one process or the next; entries without one are appended as they come."""
    config = Config(store=str(tmp_path / "agent.db"))
    titled = {"type": "custom-title", "customTitle": "Harbour", "sessionId": SESSION}
    await ThreadkeepSessionStore(config).append(KEY, entries([*worked(1), titled]))
    shared.close()
    store = ThreadkeepSessionStore(config)
    await store.append(KEY, entries([*worked(1), titled, *worked(2), *worked(2)]))
    assert await store.load(KEY) == [*worked(1), titled, titled, *worked(2)]
    async with Threadkeep(config) as tk:
        assert await (await tk.thread(SESSION)).window() == [each["message"] for each in (*worked(1), *worked(2))]


@pytest.mark.anyio
async def test_two_stores_write_one_session(tmp_path: Path) -> None:
    """Entries of several writers are all there, in the order they were committed, and in the conversation too."""
    config = Config(store=str(tmp_path / "agent.db"))
    async with Threadkeep(config) as one, Threadkeep(config) as two:
        stores = [ThreadkeepSessionStore(one), ThreadkeepSessionStore(two)]
        alone = [[{"type": "mode", "mode": f"{name}-{at}"} for at in range(6)] for name in "ab"]
        await asyncio.gather(
            *(store.append(KEY, entries([each])) for store, each_rows in zip(stores, alone, strict=True) for each in each_rows)
        )
        loaded = await stores[0].load(KEY)
    assert sorted(map(json.dumps, loaded or [])) == sorted(json.dumps(each) for rows in alone for each in rows)


@pytest.mark.anyio
async def test_the_sdks_helpers_list_fork_read_and_delete(tmp_path: Path) -> None:
    """Sessions are found by folder, forked into a thread of their own, and gone from the list once deleted."""
    config = Config(store=str(tmp_path / "agent.db"))
    store, folder = ThreadkeepSessionStore(config), str(tmp_path)
    key: SessionKey = {"project_key": project_key_for_directory(folder), "session_id": SESSION}
    await store.append(key, entries([*worked(1), *worked(2)]))
    assert [info.session_id for info in await list_sessions_from_store(store, directory=folder)] == [SESSION]
    forked = await fork_session_via_store(store, SESSION, directory=folder)
    messages = await get_session_messages_from_store(store, forked.session_id, directory=folder)
    assert [cast("Json", each.message)["content"] for each in messages] == [
        each["message"]["content"] for each in (*worked(1), *worked(2))
    ]
    await delete_session_via_store(store, SESSION, directory=folder)
    assert [info.session_id for info in await list_sessions_from_store(store, directory=folder)] == [forked.session_id]
    async with Threadkeep(config) as tk:
        assert [summary.id for summary in await tk.threads()] == [forked.session_id]
        assert len(await (await tk.thread(SESSION)).window()) == 8
        assert len(await (await tk.thread(forked.session_id)).window()) == 8


@pytest.mark.anyio
async def test_a_deleted_session_can_begin_again(tmp_path: Path) -> None:
    """What is appended after a deletion is all that is loaded."""
    store = ThreadkeepSessionStore(Config(store=str(tmp_path / "agent.db")))
    await store.append(KEY, entries(worked(1)))
    await store.delete(KEY)
    assert await store.load(KEY) is None
    await store.append(KEY, entries(worked(1)))
    assert await store.load(KEY) == worked(1)


@pytest.mark.anyio
async def test_a_conversation_somebody_changed_does_not_change_what_is_resumed(tmp_path: Path) -> None:
    """A thread may be compacted and rolled back; the client still gets its transcript, and what comes next is kept."""
    config = Config(store=str(tmp_path / "agent.db"))
    store = ThreadkeepSessionStore(config)
    await store.append(KEY, entries([each for pier in range(1, 6) for each in worked(pier)]))
    async with Threadkeep(config) as tk:
        thread = await tk.thread(SESSION)
        await thread.compact()
        await thread.rollback(turns=1)
    await store.append(KEY, entries(worked(6)))
    await store.append(KEY, entries(worked(7)))
    assert await store.load(KEY) == [each for pier in range(1, 8) for each in worked(pier)]
    assert store.trouble is None
    async with Threadkeep(config) as tk:
        latest = await tk.thread(await store.thread_id(KEY))
        assert asked(7) in str(await latest.window())
        assert (await tk.verify()).problems == ()


@pytest.mark.anyio
async def test_a_sub_agent_has_a_thread_of_its_own(tmp_path: Path) -> None:
    """A subpath is loaded by itself, listed under its session, and recalled by itself."""
    config = Config(store=str(tmp_path / "agent.db"))
    store = ThreadkeepSessionStore(config)
    sub: SessionKey = {**KEY, "subpath": "subagents/agent-a1"}
    side = [{**each, "isSidechain": True, "agentId": "a1"} for each in worked(1)]
    await store.append(KEY, entries(worked(2)))
    await store.append(sub, entries(side))
    assert await store.load(sub) == side
    assert await store.list_subkeys(KEY) == ["subagents/agent-a1"]
    assert (await store.thread_id(KEY), await store.thread_id(sub)) == (SESSION, "agent-a1")


@pytest.mark.anyio
async def test_bad_entries_are_refused_whole_and_unknown_sessions_named(tmp_path: Path) -> None:
    """What is no JSON object is refused with nothing written; a session that never was has no thread."""
    store = ThreadkeepSessionStore(Config(store=str(tmp_path / "agent.db")))
    with pytest.raises(InvalidItem):
        await store.append(KEY, [*entries(worked(1)), cast("SessionStoreEntry", "not an entry")])
    assert await store.load(KEY) is None
    with pytest.raises(ThreadNotFound):
        await store.thread_id({"project_key": "harbour", "session_id": "never"})


@pytest.mark.anyio
async def test_the_model_recalls_through_the_hosts_own_tool_form(tmp_path: Path) -> None:
    """The MCP server of the SDK's own making has one tool, which answers from the session appended to last."""
    store = ThreadkeepSessionStore(Config(store=str(tmp_path / "agent.db")))
    server = store.recall_server()
    assert await _called(server, "the bollard") == "This conversation is still empty."
    await store.append(KEY, entries(worked(1)))
    assert NEEDLE in await _called(server, "serial of the bollard of pier 1")
    assert "Nothing that was said matches." in await _called(server, "zeppelin")


async def _called(server: McpSdkServerConfig, query: str) -> str:
    async with mcp.Client(server["instance"]) as client:
        [content] = (await client.call_tool("recall", {"query": query})).content
    return str(cast("TextContent", content).text)


text = st.text() | st.just("\ud83d half a pair")
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
known_fields = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "system", "summary", "x"])},
    optional={
        "uuid": st.sampled_from(["u1", "u2", "u3", "u4"]),
        "parentUuid": st.sampled_from([None, "u1", "u2", "u9"]),
        "sessionId": st.sampled_from([SESSION, "../../etc", "", 5]),
        "isSidechain": st.booleans(),
        "subtype": st.just("compact_boundary"),
        "isCompactSummary": st.booleans(),
        "message": json_values | st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": json_values}),
    },
)
hostile_rows = st.lists(
    st.builds(lambda known, more: {**more, **known}, known_fields, st.dictionaries(text, json_values)), max_size=6
)


@given(hostile_rows)
@examples(max_examples=60)
def test_any_entries_are_loaded_as_they_were_appended(tmp_path_factory: pytest.TempPathFactory, rows: list[Json]) -> None:
    """Whatever JSON a client writes: the same values come back in order, but for a uuid that was there before."""
    store = ThreadkeepSessionStore(Config(store=str(tmp_path_factory.mktemp("any") / "agent.db")))
    expected: list[Json] = []
    for each in rows:
        if "uuid" not in each or all(each["uuid"] != known.get("uuid") for known in expected):
            expected.append(each)
    asyncio.run(store.append(KEY, entries(rows)))
    assert (asyncio.run(store.load(KEY)) or []) == expected
    shared.close()


def test_journals_of_different_keys_are_different_threads() -> None:
    """Names are told apart whatever characters are in them, and which part of the key they stand in."""
    keys: list[SessionKey] = [
        {"project_key": "a", "session_id": "b"},
        {"project_key": "a", "session_id": "b", "subpath": "c"},
        {"project_key": "a/b", "session_id": "c"},
        {"project_key": "a", "session_id": "b/c"},
    ]
    assert len({make_journal_id(key) for key in keys}) == len(keys)
