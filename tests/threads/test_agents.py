"""Sub-agents: what they begin with, the edges to them, and what comes back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.histories import answered, call, output, said, turn, turns
from tests.parity.vocabulary import ResponsesSpeech, Speech, play
from tests.threads.agent import mail_item, recorded, refusal, run_turn
from tests.threads.conftest import Opens

from threadkeep import Threadkeep
from threadkeep.compaction import AuditReport, Ledger
from threadkeep.compaction.ledger import dump_ledger
from threadkeep.errors import BadInput, InvalidTarget, InvalidThreadId, ThreadExists
from threadkeep.store import RecordKind
from threadkeep.threads.agents import EMPTY_AUDIT, EMPTY_STATE, Edge
from threadkeep.threads.mailbox import Way
from threadkeep.threads.turn_state import TurnState

pytestmark = pytest.mark.anyio

RESPONSES = ResponsesSpeech()


async def test_a_sub_agent_without_history_begins_with_its_task(opens: Opens) -> None:
    """Its task is the mail that starts its first turn; the edge to it is open."""
    async with opens() as tk:
        parent = await tk.thread("lead")
        await parent.record(turns(1, 2))
        child = await parent.spawn("Count the files.", name="counter", new_id="child")
        assert (await child.mail()).starts_turn
        [request] = await run_turn(child, RESPONSES, [], [answered("12.")])
        assert request == [mail_item(RESPONSES, "Count the files.", sender="lead", way=Way.TRIGGER)]
        assert await parent.children() == [Edge(parent="lead", child="child", status="open", name="counter")]
        assert list(await parent.window()) == turns(1, 2)


async def test_with_full_history_it_sees_all_but_the_call_that_made_it(tk: Threadkeep, speech: Speech) -> None:
    """Nothing is copied: its own records are its beginning and what it did itself."""
    parent = await tk.thread("lead", dialect=speech.dialect)
    await play(parent, speech, 1, 2)
    whole = list(await parent.window())
    await parent.record([speech.said("Split the work."), speech.call("spawn")])
    child = await parent.spawn("Take part 3.", history="full", new_id="child")
    assert [record.kind for record in await child.records()] == [RecordKind.META, RecordKind.MAIL]
    [request] = await run_turn(child, speech, [], [speech.answered("Took it.")])
    task = mail_item(speech, "Take part 3.", sender="lead", way=Way.TRIGGER)
    assert await recorded(child) == [task, speech.answered("Took it.")]
    assert request[: len(whole)] == whole
    assert ("Split the work." in str(request), "spawn" in str(request)) == (True, False)
    assert [(each.opened_by, each.state) for each in await child.turns()][-1] == ("mail", TurnState.CLOSED)


@pytest.mark.parametrize("count", [1, 2, 9])
async def test_with_the_last_turns_it_sees_these_and_can_recall_the_rest(tk: Threadkeep, speech: Speech, count: int) -> None:
    """Turns are counted back from the parent's end; more than there are is all of them."""
    parent = await tk.thread("lead", dialect=speech.dialect)
    await play(parent, speech, 1, 4)
    child = await parent.spawn("Go on.", history=count, new_id="child")
    [request] = await run_turn(child, speech, [], [speech.answered("Gone.")])
    assert refusal(speech.dialect, request) is None
    shown = [number for number in range(1, 5) if f"part_{number}.py" in str(request)]
    assert shown == list(range(max(1, 5 - count), 5))
    assert len(await recorded(child)) == 2
    hits = await child.recall("part_1.py")
    assert [hit for hit in hits if "part_1" in hit.text]
    assert (await tk.verify()).problems == ()


async def test_turns_another_agent_asked_for_count_and_those_taken_back_do_not(tk: Threadkeep) -> None:
    """The last two turns are one of mail and one of a person, across a rollback and a compaction."""
    parent = await tk.thread("lead")
    await parent.record(turns(1, 4))
    await parent.compact()
    await parent.record(turn(5))
    await parent.deliver("Do part 6.", sender="other", way="trigger")
    await run_turn(parent, RESPONSES, [], [answered("Part 6 is fine.")])
    await parent.record(turn(7))
    await parent.rollback(turns=1)
    child = await parent.spawn(history=2, new_id="child")
    letter = mail_item(RESPONSES, "Do part 6.", sender="other", way=Way.TRIGGER)
    assert list(await child.window()) == [*turn(5), letter, answered("Part 6 is fine.")]


async def test_a_result_comes_back_as_mail_once_and_closes_the_edge(opens: Opens) -> None:
    """Reporting again, as after a crash, changes nothing; the parent hears it in its next turn."""
    async with opens() as tk:
        parent = await tk.thread("lead")
        child = await parent.spawn("Count.", name="counter", new_id="child")
        await run_turn(child, RESPONSES, [], [answered("12.")])
        assert [(await child.report("12 files.")).is_new, (await child.report("12 files.")).is_new] == [True, False]
        assert await parent.children(status="open") == []
        assert await parent.children() == [Edge(parent="lead", child="child", status="closed", name="counter")]
        requests = await run_turn(parent, RESPONSES, [said("Well?")], [call("c")], [answered("12.")])
        letter = mail_item(RESPONSES, "12 files.", sender="child", answers="child")
        assert requests[1] == [said("Well?"), call("c"), output("c"), letter]


async def test_descendants_are_found_by_depth_then_id(opens: Opens) -> None:
    """A status counts on every edge on the way: below a closed one nothing is open."""
    async with opens() as tk:
        root = await tk.thread("root")
        b, a = await root.spawn(new_id="b"), await root.spawn(new_id="a")
        await b.spawn(new_id="b1")
        await a.spawn(new_id="a2")
        await (await a.spawn(new_id="a1")).spawn(new_id="a11")
        found = [(edge.depth, edge.parent, edge.child) for edge in await root.descendants()]
        assert found == [(1, "root", "a"), (1, "root", "b"), (2, "a", "a1"), (2, "a", "a2"), (2, "b", "b1"), (3, "a1", "a11")]
        await root.close_child("a")
        assert [edge.child for edge in await root.descendants(status="open")] == ["b", "b1"]


async def test_spawning_the_same_id_again_is_the_same_agent(tk: Threadkeep) -> None:
    """A parent that crashed in between spawns it once; nobody else's thread is taken for one."""
    parent = await tk.thread("lead")
    first = await parent.spawn("Count.", new_id="child")
    again = await parent.spawn("Count.", new_id="child")
    assert (first.id, len(await again.records()), len(await parent.children())) == ("child", 2, 1)
    with pytest.raises(ThreadExists):
        await (await tk.thread("other")).spawn("Count.", new_id="child")


async def test_what_cannot_be_spawned_or_reported_says_so(tk: Threadkeep) -> None:
    """Each with its own error, and nothing written."""
    parent = await tk.thread("lead")
    await parent.record(turn(1))
    with pytest.raises(InvalidTarget, match="name one or more"):
        await parent.spawn(history=0)
    with pytest.raises(InvalidThreadId):
        await parent.spawn(new_id="no spaces")
    with pytest.raises(InvalidTarget, match="nobody to report to"):
        await parent.report("done")
    with pytest.raises(InvalidTarget, match="spawned no thread 'stranger'"):
        await parent.close_child("stranger")
    assert (await parent.children(), [row.id for row in await tk.threads()]) == ([], ["lead"])


async def test_another_task_for_the_same_agent_is_mail_to_it(opens: Opens) -> None:
    """No task is lost, and none is given twice while the edge is open."""
    async with opens() as tk:
        parent = await tk.thread("lead")
        for task in ("Count.", "Weigh.", "Count.", "Weigh."):
            child = await parent.spawn(task, name="clerk", new_id="child")
        [request] = await run_turn(child, RESPONSES, [], [answered("12, 3 kg.")])
        assert request == [mail_item(RESPONSES, task, sender="lead", way=Way.TRIGGER) for task in ("Count.", "Weigh.")]
        assert await parent.children() == [Edge(parent="lead", child="child", status="open", name="clerk")]


async def test_an_agent_that_reported_can_be_given_work_again(opens: Opens) -> None:
    """The edge is open once more, and the same task, asked for anew, is a new one."""
    async with opens() as tk:
        parent = await tk.thread("lead")
        child = await parent.spawn("Count.", name="clerk", new_id="child")
        await run_turn(child, RESPONSES, [], [answered("12.")])
        await child.report("12.")
        for _ in range(2):
            await parent.spawn("Count.", new_id="child")
        assert await parent.children() == [Edge(parent="lead", child="child", status="open", name="clerk")]
        assert len((await child.mail()).pending) == 1
        await parent.close_child("child")
        await parent.spawn(new_id="child")
        assert [edge.status for edge in await parent.children()] == ["open"]


@pytest.mark.parametrize("history", ["all", True, 1.5, None])
async def test_a_history_that_is_none_is_refused(tk: Threadkeep, history: Any) -> None:
    """By name, before a thread is made."""
    parent = await tk.thread("lead")
    with pytest.raises(BadInput, match="'full', 'none' or a number of turns"):
        await parent.spawn("Go.", history=history, new_id="child")
    assert [row.id for row in await tk.threads()] == ["lead"]


def test_a_spawned_child_begins_with_an_empty_state() -> None:
    """The state and audit that `threads.agents` writes without `compaction` are what `compaction` writes for nothing."""
    assert dump_ledger(Ledger()) == EMPTY_STATE
    assert msgspec.json.encode(AuditReport(required=0, kept=0)) == EMPTY_AUDIT
