"""Conversations through the gateway in all four dialects, against a provider that refuses what real ones refuse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.doubles.prefix_growth import prefix_faults, settled
from tests.doubles.script import call, say
from tests.gateway.client import ENDPOINTS, HISTORY, WIRES, answer, person, records, talk, text_of, threads

from threadkeep import Config, Threadkeep
from threadkeep.dialects import Reply, find_dialect
from threadkeep.errors import StoreClosed
from threadkeep.gateway.conversation.conversations import RecordedConversations
from threadkeep.gateway.conversation.proxy_interface import Forward, Incoming
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.store import RecordKind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ManualClock
    from tests.doubles.wires import WireName

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("wire", WIRES)]

LONG = "The build log follows for reference. " * 60
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2000}}


async def test_rule_5_three_requests_after_a_compaction_hold_the_checkpoint_and_everything_since(
    tk: Threadkeep, wire: WireName
) -> None:
    """A3, A4: state, then all items after the cut, a tool call among them; neither command nor answer is ever sent."""
    client = talk(tk, wire)
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact mind the port")
    assert client.answers[0].startswith("Compacted: ")
    since = len(client.history)
    await client.ask("Run it.", call("bash", {"command": "ls"}, call_id="call_1"))
    await client.tool({"call_1": "README"}, call("bash", {"command": "cat README"}, call_id="call_2"))
    await client.tool({"call_2": "anchored"}, call("bash", {"command": "make"}, call_id="call_3"))
    await client.tool({"call_3": "ok"}, call("bash", {"command": "true"}, call_id="call_4"))
    later = client.provider.requests[-4:]
    assert all(text_of(request.history).count("<session_compact_state>") == 1 for request in later)
    assert not any("/compact" in text_of(request.history) for request in later)
    assert not any("Nothing is lost" in text_of(request.history) for request in later)
    assert all("Step 0" in text_of(request.history) for request in later)
    assert later[-1].history[-6:] == client.history[since:][-7:-1]
    assert prefix_faults(client.provider.requests) == []


async def test_rule_1_a_history_without_a_checkpoint_goes_upstream_untouched(tk: Threadkeep, wire: WireName) -> None:
    """Rule 2: with the default rules a history far above any limit passes byte for byte."""
    client = talk(tk, wire)
    for turn in range(9):
        await client.ask(f"Step {turn}. {LONG}")
        assert client.provider.requests[-1].raw == client.forked(length=-1).body()
    assert [record.kind for record in (await records(tk))[0]].count(RecordKind.CHECKPOINT) == 0


async def test_rule_8_the_same_request_twice_is_the_same_bytes_upstream(tk: Threadkeep, wire: WireName) -> None:
    """A request that comes twice is sent with the same bytes."""
    client = talk(tk, wire)
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    again = client.forked()
    await client.ask("Go on.")
    await again.ask("Go on.")
    assert client.provider.requests[-1].raw == client.provider.requests[-2].raw
    assert len(await threads(tk)) == 1


@pytest.mark.moves_prefix(reason="a fork before the cut sees the uncompacted history")
async def test_rule_6_a_fork_before_the_cut_and_an_edit_see_the_uncompacted_history(tk: Threadkeep, wire: WireName) -> None:
    """A9: a fork before the checkpoint gets the client's own history, one after it keeps the checkpoint."""
    client = talk(tk, wire)
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    await client.ask("After it.")
    early = client.forked(length=4, headers={"x-session-id": "another"})
    await early.ask("Another way.")
    assert early.provider.requests[-1].raw == early.forked(length=-1).body()
    late = client.forked(length=-2)
    await late.ask("Asked differently.")
    assert "<session_compact_state>" in text_of(late.provider.last)
    assert [thread.id for thread in await threads(tk)][1:] != []


async def test_rule_3_unrelated_conversations_under_one_name_share_nothing(tk: Threadkeep, wire: WireName) -> None:
    """A session id is a hint: another conversation under it has a thread of its own and no checkpoint."""
    client = talk(tk, wire, x_session_id="ses_1")
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    other = client.forked(length=0)
    await other.ask("Something else.")
    await other.ask("And more of it.")
    assert "session_compact_state" not in text_of(other.provider.last)
    assert len(await threads(tk)) == 2


@pytest.mark.parametrize(
    "text", ["tk status", "tk help", "tk", "tk undo", "tk recall step", "tk note Ask Ruth.", "tk pin Ask Ruth.", "tk unpin #3"]
)
async def test_a_command_is_answered_and_never_shown_to_the_model(tk: Threadkeep, wire: WireName, text: str) -> None:
    """Whatever the gateway is told, the model's next request is what it would have been without it."""
    client = talk(tk, wire)
    await client.ask("Step one.")
    plain = client.forked()
    await client.ask(text)
    assert len(client.answers) == 1
    assert len(client.provider.requests) == 1
    await client.ask("Step two.")
    assert client.provider.requests[-1].history[-3:] == [*plain.history[-2:], person(wire, "Step two.")]


async def test_a9_undo_brings_the_uncompacted_history_back(tk: Threadkeep, wire: WireName) -> None:
    """After `tk undo` the provider sees what the client sends, commands and their answers left out."""
    client = talk(tk, wire)
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    said = list(client.history)
    await client.ask("/compact")
    await client.ask("tk undo")
    assert client.answers[1].startswith("The compaction at #")
    await client.ask("Go on.")
    assert client.provider.last[-9:] == [*said, person(wire, "Go on.")]


async def test_rule_18_compaction_happens_before_the_pending_turn_which_is_answered(tk: Threadkeep, wire: WireName) -> None:
    """A6: over the hard limit the request goes out compacted, its own message whole and last."""
    client = talk(tk, wire, rules=Rules(auto_compact="on"), alternating=wire != "responses")
    for turn in range(14):
        await client.ask(f"Step {turn}. {LONG}")
        assert client.provider.last[-1]["role"] == "user"
        assert text_of(client.provider.last[-1:]).count(f"Step {turn}. {LONG}") == 1
    assert prefix_faults(client.provider.requests) == []
    kinds = [record.kind for record in (await records(tk))[0]]
    assert kinds.count(RecordKind.CHECKPOINT) >= 2
    states = {text_of(request.history).count("<session_compact_state>") for request in client.provider.requests}
    assert states == {0, 1}


async def test_rule_9_a_turn_of_150_tool_calls_compacts_more_than_once(tk: Threadkeep, wire: WireName) -> None:
    """The running turn's request stays whole, pairs stay together, and the prefix moves once per checkpoint."""
    client = talk(tk, wire, rules=Rules(auto_compact="on"))
    await client.ask("Never touch vendor/. Check every file.", call("bash", {"command": "echo 0"}, call_id="call_0"))
    for number in range(150):
        output = {f"call_{number}": f"file {number} " + "is fine " * 30}
        await client.tool(output, call("bash", {"command": f"echo {number + 1}"}, call_id=f"call_{number + 1}"))
        assert "Check every file." in text_of(client.provider.last)
    kinds = [record.kind for record in (await records(tk))[0]]
    assert kinds.count(RecordKind.CHECKPOINT) >= 2
    assert prefix_faults(client.provider.requests) == []


async def test_a_request_goes_out_at_once_and_is_durable_before_its_answer_ends(tk: Threadkeep, wire: WireName) -> None:
    """Only the end of the answer waits for the store; without an answer the request is recorded all the same."""
    client = talk(tk, wire)
    client.history = [person(wire, "Begin.")]
    decided = await client.open()
    assert isinstance(decided, Forward)
    assert await records(tk) == []
    await decided.finished(Reply(outcome="cut"))
    assert [record.kind for record in (await records(tk))[0]].count(RecordKind.ITEM) == 1


async def test_closing_a_gateway_finishes_what_it_records(tk: Threadkeep, wire: WireName) -> None:
    """A request whose answer is still on its way is in the store when the gateway is gone."""
    client = talk(tk, wire)
    client.history = [person(wire, "Begin.")]
    await client.open()
    await client.conversations.close()
    assert [record.kind for record in (await records(tk))[0]].count(RecordKind.ITEM) == 1


async def test_a_store_that_fails_costs_no_answer(store_file: Path, clock: ManualClock, wire: WireName) -> None:
    """The request goes out as it came; that it was not recorded is reported when its answer ends."""
    async with Threadkeep(Config(store=str(store_file)), clock=clock) as tk:
        client = talk(tk, wire)
        await client.ask("Begin.")
        client.history.append(person(wire, "Go on."))
        decided = await client.open()
    assert isinstance(decided, Forward)
    assert decided.body == client.body()
    with pytest.raises(StoreClosed):
        await decided.finished(Reply(outcome="cut"))


async def test_a8_resume_and_fork_begin_with_what_was_sent_after_the_compaction(tk: Threadkeep, wire: WireName) -> None:
    """The request after a compaction is an exact prefix of those after a restart and after a fork under another name."""
    client = talk(tk, wire, x_session_id="ses_1")
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    await client.ask("Go on.")
    after = client.provider.last
    resumed = client.forked()
    resumed.conversations = talk(tk, wire).conversations
    await resumed.ask("Resumed.")
    fork = client.forked(headers={"x-session-id": "ses_2"})
    await fork.ask("Forked.")
    for request in client.provider.requests[-2:]:
        assert list(map(settled, request.history[: len(after)])) == list(map(settled, after))


async def test_a_client_that_leaves_an_answer_and_goes_on_at_once_continues_its_thread(tmp_path: Path, wire: WireName) -> None:
    """The longer history waits for the shorter one to be recorded: one thread, not two that begin alike."""
    turns = [person(wire, "one"), answer(wire, "two"), person(wire, "three")]
    async with Threadkeep(Config(store=str(tmp_path / "left.db"))) as tk:
        conversations = RecordedConversations(tk, find_dialect(wire))
        for length in (1, 3):
            body = json.dumps({"model": "m", HISTORY[wire]: turns[:length]}).encode()
            await conversations.open(Incoming(path=ENDPOINTS[wire], headers={}, body=body))
        await conversations.close()
        assert [(thread.turns, thread.parent) for thread in await tk.threads()] == [(2, None)]


async def test_a_model_that_speaks_like_the_gateway_is_heard(tk: Threadkeep, wire: WireName) -> None:
    """An answer that ends as the gateway's do, without its proof or with another answer's, stays in the history it is in."""
    client = talk(tk, wire)
    await client.ask("tk status")
    quoted = f"It ends with: {client.answers[0].splitlines()[-1]}"
    await client.ask("What does threadkeep print after a command?", say(quoted))
    await client.ask("Thanks, go on.")
    assert quoted in text_of(client.provider.last)
    assert client.answers[0].splitlines()[0] not in text_of(client.provider.last)
