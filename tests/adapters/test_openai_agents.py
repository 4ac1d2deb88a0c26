"""The OpenAI Agents SDK's own runner on a threadkeep session, against a provider on this machine."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from agents import (
    RunConfig,
    Runner,
)
from agents.items import TResponseInputItem
from agents.memory import Session, SessionSettings, is_openai_responses_compaction_aware_session
from tests.adapters.agents_runs import agent_on, checkpoints_of, item, lead, user, worked
from tests.adapters.expected_windows import windows_before_answers
from tests.adapters.long_session import (
    NEEDLE,
    QUESTION,
    RULE,
    SECRET,
    TURNS,
    asked,
    looking_back,
    settings,
    surveyed,
    turns,
)
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import call, say
from tests.prefixes import stable_prefix

from threadkeep import Config, Threadkeep
from threadkeep.adapters.bridge import shared
from threadkeep.adapters.openai_agents import ThreadkeepSession
from threadkeep.errors import BadInput, InvalidItem, InvalidTarget, NothingToUndo, ThreadExists
from threadkeep.store import RecordKind

__all__ = ["stable_prefix"]

# Every process that collects these tests imports the SDK first, which takes a second or more.
pytestmark = pytest.mark.slow

PIERS_IN_A_RUN = 34


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_session_long_enough_to_compact_three_times_keeps_its_rule_and_finds_its_needle(tmp_path: Path) -> None:
    """Through restarts the model is sent the thread's own window, whole, and a compacted needle comes back by recall."""
    config = settings(tmp_path / "agent.db")
    script = [*turns(), *looking_back()]
    async with ScriptedProvider(script, enforcing=True, counting=True) as provider:
        await lead(provider, ThreadkeepSession("harbour", config), range(1, 8))
        shared.close()
        session = ThreadkeepSession("harbour", config)
        await lead(provider, session, range(8, TURNS + 1))
        sent_before = await session.get_items()
        async with agent_on(provider, session) as agent:
            result = await Runner.run(agent, QUESTION, session=session)
    recalled = provider.requests[-1].input
    assert provider.requests[-2].input == [*sent_before, {"role": "user", "content": QUESTION}]
    assert recalled[: len(sent_before) + 1] == provider.requests[-2].input
    assert NEEDLE in recalled[-1]["output"]
    assert NEEDLE not in str(sent_before)
    assert RULE in str(sent_before)
    assert result.final_output == f"It is {NEEDLE}."
    assert session.trouble is None
    async with Threadkeep(config) as tk:
        thread = await tk.thread("harbour")
        assert checkpoints_of(await thread.records()) >= 3
        replayed = await windows_before_answers(tk, thread)
        assert [[json.loads(item.raw) for item in window] for window in replayed] == [each.input for each in provider.requests]
        assert (await tk.verify(thread)).problems == ()


@pytest.mark.anyio
async def test_a_run_of_many_calls_is_compacted_within_it(tmp_path: Path) -> None:
    """With the filter the calls of one long run get the window that fits, and end with what the tool just returned."""
    config = settings(tmp_path / "agent.db")
    session = ThreadkeepSession("one-run", config)
    script = [
        *(call("survey", {"pier": pier}, call_id=f"call_{pier}") for pier in range(1, PIERS_IN_A_RUN + 1)),
        say("All of them."),
    ]
    async with ScriptedProvider(script, enforcing=True, counting=True) as provider, agent_on(provider) as agent:
        run_config = RunConfig(call_model_input_filter=session.model_input_filter)
        await Runner.run(agent, f"{RULE} Survey every pier.", session=session, run_config=run_config, max_turns=50)
    last = provider.requests[-1].input
    assert last[-1] == {"type": "function_call_output", "call_id": f"call_{PIERS_IN_A_RUN}", "output": surveyed(PIERS_IN_A_RUN)}
    assert len(last) < PIERS_IN_A_RUN
    assert RULE in str(last)
    async with Threadkeep(config) as tk:
        thread = await tk.thread("one-run")
        assert checkpoints_of(await thread.records()) >= 3
        assert (await thread.window())[:-1] == last
        replayed = await windows_before_answers(tk, thread)
        assert [[json.loads(item.raw) for item in window] for window in replayed] == [each.input for each in provider.requests]


@pytest.mark.anyio
@pytest.mark.moves_prefix(reason="the run asks for less than there is")
async def test_a_run_that_asks_for_the_latest_items_only_gets_no_more(tmp_path: Path) -> None:
    """The filter leaves a history alone that was limited on purpose."""
    session = ThreadkeepSession("limited", settings(tmp_path / "agent.db"))
    await session.add_items([each for pier in range(1, 4) for each in worked(pier)])
    async with ScriptedProvider([say("Fine.")], enforcing=True) as provider, agent_on(provider) as agent:
        run_config = RunConfig(call_model_input_filter=session.model_input_filter, session_settings=SessionSettings(limit=4))
        await Runner.run(agent, "How is it?", session=session, run_config=run_config)
    assert provider.requests[0].input == [*worked(3), user("How is it?")]


@pytest.mark.anyio
async def test_a_streamed_run_is_recorded_like_any_other(tmp_path: Path) -> None:
    """What a streamed run stores is what an unstreamed one stores, filter or not."""
    stored: list[list[Any]] = []
    for streamed in (False, True):
        session = ThreadkeepSession(f"streamed-{streamed}", settings(tmp_path / f"{streamed}.db"))
        async with ScriptedProvider(list(turns(1, 1)), enforcing=True) as provider, agent_on(provider) as agent:
            run_config = RunConfig(call_model_input_filter=session.model_input_filter)
            if streamed:
                result = Runner.run_streamed(agent, asked(1), session=session, run_config=run_config)
                async for _ in result.stream_events():
                    pass
            else:
                await Runner.run(agent, asked(1), session=session, run_config=run_config)
        stored.append(await session.get_items())
    assert stored[0] == stored[1]


@pytest.mark.anyio
async def test_the_session_is_the_hosts_protocol_and_its_compacting_one() -> None:
    """The SDK takes it for a session, and for one that compacts."""
    session = ThreadkeepSession("protocol", Config(store=":memory:"))
    assert isinstance(session, Session)
    assert is_openai_responses_compaction_aware_session(session)


@pytest.mark.anyio
async def test_items_come_back_as_they_were_added_the_latest_last(tmp_path: Path) -> None:
    """Unknown fields and kinds survive, and a limit gives the latest so many, oldest of them first."""
    session = ThreadkeepSession("items", settings(tmp_path / "agent.db"))
    added = [user("one"), item({"type": "hosted_thing", "id": "ht_1", "x": {"y": [1, 2.5, None]}}), user("zwei ☂")]
    await session.add_items(added)
    await session.add_items([])
    assert await session.get_items() == added
    assert await session.get_items(limit=2) == added[1:]
    assert await session.get_items(limit=0) == []
    assert await session.get_items(limit=9) == added


@pytest.mark.anyio
async def test_an_item_is_taken_back_and_another_put_in_its_place(tmp_path: Path) -> None:
    """pop_item returns the newest item until there is none; what was taken back stays in the records."""
    session = ThreadkeepSession("popped", config := settings(tmp_path / "agent.db"))
    await session.add_items([user("first"), user("second")])
    assert await session.pop_item() == user("second")
    await session.add_items([user("better")])
    assert await session.get_items() == [user("first"), user("better")]
    assert [await session.pop_item() for _ in range(3)] == [user("better"), user("first"), None]
    assert await session.get_items() == []
    async with Threadkeep(config) as tk:
        thread = await tk.thread("popped")
        assert [record.body for record in await thread.records() if record.kind is RecordKind.ITEM] == [
            b'{"role":"user","content":"first"}',
            b'{"role":"user","content":"second"}',
            b'{"role":"user","content":"better"}',
        ]
        assert (await tk.verify(thread)).problems == ()


@pytest.mark.anyio
async def test_taking_back_an_item_that_a_compaction_covers_takes_the_compaction_too(tmp_path: Path) -> None:
    """After a forced compaction the newest item can be popped, and the window is the one before both."""
    session = ThreadkeepSession("covered", settings(tmp_path / "agent.db"))
    items = [each for pier in range(1, 6) for each in worked(pier)]
    await session.add_items(items)
    await session.run_compaction({"force": True})
    assert await session.get_items(limit=1) == items[-1:]
    assert await session.get_items(limit=99) != items
    assert await session.pop_item() == items[-1]
    assert await session.get_items(limit=99) == items[:-1]


@pytest.mark.anyio
async def test_a_cleared_session_is_empty_and_can_go_on(tmp_path: Path) -> None:
    """clear_session empties the window and nothing else."""
    session = ThreadkeepSession("cleared", config := settings(tmp_path / "agent.db"))
    await session.add_items([user("one"), user("two")])
    await session.clear_session()
    assert await session.get_items() == []
    await session.add_items([user("anew")])
    assert await session.get_items() == [user("anew")]
    async with Threadkeep(config) as tk:
        thread = await tk.thread("cleared")
        assert (await tk.verify(thread)).problems == ()
        assert [(await thread.original(f"#{ordinal}"))["content"] for ordinal in (2, 4)] == ["one", "two"]


@pytest.mark.anyio
async def test_a_fork_goes_its_own_way_and_a_rollback_takes_turns_back(tmp_path: Path) -> None:
    """fork begins before a turn, rollback takes back the last, and neither touches the other session."""
    session = ThreadkeepSession("trunk", settings(tmp_path / "agent.db"))
    for number in (1, 2, 3):
        await session.add_items([user(f"turn {number}"), item({"role": "assistant", "content": f"answer {number}"})])
    branch = await session.fork("branch", before_turn=3)
    await branch.add_items([user("another third")])
    await session.rollback()
    await session.rollback(turns=1)
    contents = [[cast("dict[str, Any]", each)["content"] for each in await one.get_items()] for one in (session, branch)]
    assert contents == [["turn 1", "answer 1"], ["turn 1", "answer 1", "turn 2", "answer 2", "another third"]]
    with pytest.raises(ThreadExists):
        await session.fork("branch")
    with pytest.raises(InvalidTarget):
        await session.fork("too-late", before_turn=9)


@pytest.mark.anyio
async def test_a_compaction_can_be_undone(tmp_path: Path) -> None:
    """undo brings the window before the newest compaction back; without one it says so."""
    session = ThreadkeepSession("undone", settings(tmp_path / "agent.db"))
    items = [each for pier in range(1, 6) for each in worked(pier)]
    await session.add_items(items)
    with pytest.raises(NothingToUndo):
        await session.undo()
    await session.run_compaction({"force": True})
    assert await session.get_items(limit=99) != items
    await session.undo()
    assert await session.get_items(limit=99) == items


@pytest.mark.anyio
async def test_two_names_never_meet_in_one_thread(tmp_path: Path) -> None:
    """Names that no thread can have get threads of their own, each its own."""
    config = settings(tmp_path / "agent.db")
    for name in ("user:1", "user-1", "user/1", "ü"):
        await ThreadkeepSession(name, config).add_items([user(name)])
    assert [await ThreadkeepSession(name, config).get_items() for name in ("user:1", "user-1", "user/1", "ü")] == [
        [user("user:1")],
        [user("user-1")],
        [user("user/1")],
        [user("ü")],
    ]


@pytest.mark.anyio
async def test_writers_of_one_session_wait_for_each_other(tmp_path: Path) -> None:
    """Twenty tasks append at once; each batch is there once and together."""
    config = settings(tmp_path / "agent.db")
    batches = [[user(f"{number} a"), user(f"{number} b")] for number in range(20)]
    await asyncio.gather(*(ThreadkeepSession("shared", config).add_items(batch) for batch in batches))
    found = await ThreadkeepSession("shared", config).get_items()
    assert sorted(str(found[at : at + 2]) for at in range(0, 40, 2)) == sorted(map(str, batches))


@pytest.mark.anyio
async def test_bad_input_is_named_and_costs_nothing(tmp_path: Path) -> None:
    """An item that is none is refused whole, and so is a thread of another dialect."""
    config = settings(tmp_path / "agent.db")
    session = ThreadkeepSession("bad", config)
    with pytest.raises(InvalidItem):
        await session.add_items([user("fine"), cast("TResponseInputItem", "not an item")])
    assert await session.get_items() == []
    async with Threadkeep(config) as tk:
        await tk.thread("other", dialect="chat")
    with pytest.raises(BadInput, match="is written in 'chat'"):
        await ThreadkeepSession("other", config).get_items()


@pytest.mark.anyio
async def test_a_session_on_a_store_the_program_opened_itself(tk: Threadkeep) -> None:
    """An open store can be handed in; it is used on the program's own loop."""
    session = ThreadkeepSession("own", tk)
    await session.add_items([user("hello")])
    assert await session.get_items() == [user("hello")]
    assert await (await tk.thread("own")).window() == [user("hello")]


@pytest.mark.anyio
async def test_a_forced_compaction_with_nothing_to_compact_does_nothing(tmp_path: Path) -> None:
    """As with the SDK's own session, forcing it early is no error."""
    session = ThreadkeepSession("small", settings(tmp_path / "agent.db"))
    await session.add_items([user("hello")])
    await session.run_compaction({"force": True})
    await session.run_compaction()
    assert await session.get_items() == [user("hello")]
    assert session.trouble is None


@pytest.mark.anyio
async def test_no_credential_reaches_the_store_or_an_error(tmp_path: Path) -> None:
    """The key that the client sends is in no file of the store, and in no message of a failure."""
    config = settings(tmp_path / "agent.db")
    session = ThreadkeepSession("secret", config)
    async with ScriptedProvider(list(turns(1, 2))) as provider:
        await lead(provider, session, range(1, 3))
    with pytest.raises(InvalidItem) as caught:
        await session.add_items([cast("TResponseInputItem", 5)])
    shared.close()
    assert SECRET not in f"{caught.value!r}{caught.value}"
    assert not [path for path in tmp_path.iterdir() if SECRET.encode() in path.read_bytes()]
