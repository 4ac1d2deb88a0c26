"""A client that rewrites its own history stays in its thread, and what the thread remembers is not lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.doubles.script import call, say
from tests.gateway.client import WIRES, Client, answer, person, records, talk, text_of, threads

from threadkeep.compaction import Speaker
from threadkeep.gateway.conversation.rules import AutoCompact, Rules
from threadkeep.store import RecordKind
from threadkeep.threads.path import is_rewrite_mark
from threadkeep.transfer.export import export_thread

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

    from threadkeep import Threadkeep

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

DEMAND = "Never touch vendor/."
LONG = "The build log follows for reference. " * 60
SUMMARIES = {
    "codex": "Another language model started to solve this problem and produced a summary of its work: all went well.",
    "claude": "This session is being continued from a previous conversation that ran out of context. All went well.",
    "pi": "The conversation history before this point was compacted into this summary:\n<summary>\nAll went well.\n</summary>",
}


async def worked(client: Client, *, demand: str = DEMAND) -> None:
    """Have a conversation in which a person demands something, and compact it."""
    await client.ask(f"{demand} Begin with the readme.")
    for turn in range(3):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    assert client.answers[0].startswith("Compacted")


async def rewritten(tk: Threadkeep) -> list[int]:
    """Return, for each thread, how often its client rewrote its history."""
    return [sum(map(is_rewrite_mark, await thread.records())) for thread in await threads(tk)]


async def checkpoints(tk: Threadkeep) -> int:
    return sum(1 for each in await records(tk) for record in each if record.kind is RecordKind.CHECKPOINT)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("summary", SUMMARIES.values(), ids=SUMMARIES)
@pytest.mark.parametrize("mode", ["off", "on"])
async def test_rule_16_a_clients_own_summary_stays_and_the_very_next_request_tells_the_rules(
    tk: Threadkeep, wire: WireName, summary: str, mode: AutoCompact
) -> None:
    """A10: the summary is verbatim and summarised by nobody; in front of it stands what the person said, in one thread."""
    client = talk(tk, wire, rules=Rules(auto_compact=mode), x_session_id="ses_1")
    await worked(client)
    client.history = [person(wire, summary)]
    for text in ("Go on.", "And on."):
        await client.ask(text)
        told = text_of(client.provider.last)
        assert told.index("session_compact_state") < told.index(DEMAND) < told.index(summary.splitlines()[0]) < told.index(text)
    [thread] = await threads(tk)
    assert await rewritten(tk) == [1]
    assert [hit.text for hit in await thread.recall("readme")][:1] == [f"{DEMAND} Begin with the readme."]
    assert (await tk.verify()).problems == ()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_gateway_that_only_records_sends_a_clients_summary_as_it_is(tk: Threadkeep, wire: WireName) -> None:
    """Nobody asked it to compact anything: not a byte is added, and the thread is one all the same."""
    client = talk(tk, wire, x_session_id="ses_1")
    await client.ask(f"{DEMAND} Begin with the readme.")
    await client.ask(f"Step. {LONG}")
    client.history = [person(wire, SUMMARIES["pi"])]
    await client.ask("Go on.")
    assert client.provider.requests[-1].raw == client.forked(length=-1).body()
    assert await rewritten(tk) == [1]
    assert await checkpoints(tk) == 0


async def test_an_exported_rollout_goes_on_from_the_clients_summary(tk: Threadkeep) -> None:
    """What the client left behind is in it, and Codex does not take it for the history."""
    client = talk(tk, "responses", x_session_id="ses_1")
    await client.ask(f"{DEMAND} Begin with the readme.")
    client.history = [person("responses", SUMMARIES["codex"])]
    await client.ask("Go on.")
    [thread] = await threads(tk)
    lines = [json.loads(line) async for line in export_thread(tk.backend, thread, "codex")]
    kinds = [line["type"] for line in lines]
    assert lines[kinds.index("compacted")]["payload"]["replacement_history"] == []
    assert DEMAND in json.dumps(lines[: kinds.index("compacted")])
    assert DEMAND not in json.dumps(lines[kinds.index("compacted") :])


@pytest.mark.parametrize("wire", WIRES)
async def test_a_number_means_one_record_before_and_after_a_clients_compaction(tk: Threadkeep, wire: WireName) -> None:
    """Records are counted on, so that of two messages the later one has the higher number, wherever it is read."""
    client = talk(tk, wire, rules=Rules(auto_compact="on"), x_session_id="ses_1")
    await worked(client)
    client.history = [person(wire, SUMMARIES["pi"])]
    for turn in range(4):
        await client.ask(f"Later {turn}. {LONG}")
    await client.ask("/compact")
    await client.ask("Deploys go to port 8443.")
    [thread] = await threads(tk)
    people = [entry for entry in (await thread.state()).entries if entry.speaker is Speaker.USER]
    assert {entry.sources[-1].thread_id for entry in people} == {thread.id}
    for entry in people:
        [hit] = await thread.recall(f"#{entry.sources[-1].ordinal}")
        assert entry.text[:40] in hit.text
    said = {entry.text[:7]: entry.sources[-1].ordinal for entry in people}
    assert said["Never t"] < said["Later 0"] < said["Later 3"]
    assert (await tk.verify()).problems == ()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.moves_prefix(reason="the client compacts by itself")
async def test_words_the_client_kept_are_not_told_twice(tk: Threadkeep, wire: WireName) -> None:
    """Codex keeps people's messages in front of its summary; the state tells what is not among them, and no turn begins anew."""
    client = talk(tk, wire, rules=Rules(auto_compact="on"), x_session_id="ses_1")
    await client.ask(f"{DEMAND} Begin with the readme.")
    await client.ask("Keep the tests green.")
    await client.ask(f"Step. {LONG}")
    client.history = [person(wire, "Keep the tests green."), person(wire, SUMMARIES["codex"])]
    await client.ask("Go on.")
    told = text_of(client.provider.last)
    assert [DEMAND in told, "- Keep the tests green. (#" in told] == [True, False]
    [thread] = await threads(tk)
    assert max(record.turn for record in await thread.records()) == 4


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.moves_prefix(reason="the client compacts by itself, twice")
async def test_what_was_demanded_outside_of_any_checkpoint_is_carried_too(
    tk: Threadkeep, wire: WireName, *, compacted: bool
) -> None:
    """A thread that was never compacted, or whose person went on after it was, hands on all that was said in it."""
    client = talk(tk, wire, x_session_id="ses_1")
    if compacted:
        await worked(client, demand="Keep the tests green.")
    await client.ask(f"{DEMAND} Begin with the readme.")
    for summary in (SUMMARIES["pi"], SUMMARIES["codex"]):
        client.history = [person(wire, summary)]
        for turn in range(4):
            await client.ask(f"Later {turn}. {LONG}")
    await client.ask("/compact")
    await client.ask("What must not be touched?")
    told = text_of(client.provider.last)
    assert DEMAND in told
    assert ("Keep the tests green." in told) is compacted
    assert (await tk.verify()).problems == ()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.moves_prefix(reason="the client rewrites its own history")
async def test_without_a_name_what_tools_returned_tells_it(tk: Threadkeep, wire: WireName) -> None:
    """A client that gives no name and keeps a part of its history word for word is recognised by that part."""
    client = talk(tk, wire)
    await client.ask(f"{DEMAND} {LONG}", call("bash", {"command": "ls"}, call_id="call_a1"))
    await client.tool({"call_a1": "README " * 60}, call("bash", {"command": "cat README"}, call_id="call_a2"))
    await client.tool({"call_a2": "anchored " * 60}, say("It says where it is anchored. " * 20))
    kept = client.history[1:]
    client.history = [person(wire, SUMMARIES["pi"]), *kept]
    await client.ask("Go on.")
    assert await rewritten(tk) == [1]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.moves_prefix(reason="the client compacts by itself")
async def test_without_a_name_short_words_beside_a_summary_tell_it(tk: Threadkeep, wire: WireName) -> None:
    """pi sends no name: its summary and the few words it keeps behind it are enough, and of two threads the likelier counts."""
    other = talk(tk, wire)
    await other.ask("Good morning.")
    await other.ask("Something else.")
    client = talk(tk, wire)
    for text in ("Good morning.", "Step one.", "Step two.", "Step three."):
        await client.ask(text)
    client.history = [person(wire, SUMMARIES["pi"]), *client.history[-2:]]
    await client.ask("Go on.")
    assert await rewritten(tk) == [0, 1]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.moves_prefix(reason="the client takes over a compacted window")
async def test_a_session_state_of_ours_tells_whose_history_it_is(tk: Threadkeep, wire: WireName) -> None:
    """A client that had its history compacted upstream and kept what came back goes on in that thread, without a name."""
    client = talk(tk, wire)
    await worked(client)
    [before] = await threads(tk)
    other = talk(tk, wire)
    await worked(other, demand="Never rename the harbour.")
    await client.ask("Go on.")
    state = next(item for item in client.provider.last if "session_compact_state" in json.dumps(item))
    client.history = [state]
    await client.ask("And on.")
    assert await rewritten(tk) == [0, 1]
    assert (await threads(tk))[-1].id == before.id


@pytest.mark.parametrize("wire", WIRES)
async def test_a_history_rendered_anew_in_place_continues_the_same_thread(tk: Threadkeep, wire: WireName) -> None:
    """opencode clears old outputs in place: the path is left there, and what follows says whose it is."""
    client = talk(tk, wire, x_session_id="ses_1")
    await client.ask(f"{DEMAND} List it.", call("bash", {"command": "ls"}, call_id="call_b1"))
    await client.tool({"call_b1": "README " * 60}, call("bash", {"command": "cat README"}, call_id="call_b2"))
    await client.tool({"call_b2": "anchored " * 60}, say("It says where it is anchored. " * 20))
    client.history = json.loads(json.dumps(client.history).replace("README " * 60, "[Old tool result content cleared]"))
    await client.ask("Go on.")
    assert await rewritten(tk) == [1]
    assert client.provider.requests[-1].raw == client.forked(length=-1).body()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("respelled", [0, 2], ids=["from the start", "behind a known beginning"])
@pytest.mark.moves_prefix(reason="the client renders its history anew")
async def test_a_history_rendered_anew_that_asked_something_else_is_another_conversation(
    tk: Threadkeep, wire: WireName, respelled: int
) -> None:
    """aider gives no name and spells what is old differently: two folders with the same notes are two conversations."""
    told = "The notes say where it is anchored. " * 20
    demands = (DEMAND, "Always greet BETA-222.")
    clients = [talk(tk, wire) for _ in demands]
    for demand, client in zip(demands, clients, strict=True):
        await client.ask("Hello.", say(told))
        await client.ask(demand, say(told if respelled else "done"))
    for client in clients:
        for old in ("Hello.", *demands):
            client.history[respelled] = json.loads(json.dumps(client.history[respelled]).replace(old, f"{old} Please."))
        await client.ask("And again.", say("done"))
        await client.ask("/compact")
        await client.ask("What are my rules?")
    one, other = (client.provider.requests[-1].raw.decode() for client in clients)
    assert ("BETA-222" in one, DEMAND in other) == (False, False)
    assert (DEMAND in one, "BETA-222" in other) == (True, True)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.moves_prefix(reason="the client edits its own history")
async def test_new_beginnings_edits_and_unrelated_histories_continue_nothing(tk: Threadkeep, wire: WireName) -> None:
    """A name shared, or a question asked again, is not enough."""
    client = talk(tk, wire, x_session_id="ses_1")
    await worked(client)
    edited = client.forked(length=2)
    await edited.ask("Asked differently.")
    begun = client.forked(length=0)
    await begun.ask("Something else.")
    foreign = client.forked(length=0)
    foreign.history = [person(wire, "From elsewhere."), answer(wire, "A long answer from elsewhere. " * 20)]
    await foreign.ask("Go on.")
    assert await rewritten(tk) == [0] * 4


async def test_a_restarted_gateway_knows_the_thread_too(tk: Threadkeep) -> None:
    """The name is in the store: a gateway that never saw the conversation finds what it continues."""
    client = talk(tk, "responses", x_session_id="ses_1")
    await worked(client)
    again = talk(tk, "responses", x_session_id="ses_1")
    again.history = [person("responses", SUMMARIES["codex"])]
    await again.ask("Go on.")
    assert await rewritten(tk) == [1]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.moves_prefix(reason="the client drops the command from its history")
async def test_what_the_gateway_said_stays_hidden_though_its_command_is_gone(tk: Threadkeep, wire: WireName) -> None:
    """A client that keeps the answer behind its summary and not the question shows the model neither."""
    client = talk(tk, wire)
    await worked(client)
    await client.ask("Go on.")
    kept = client.history[client.history.index(answer(wire, client.answers[0])) :]
    client.history = [person(wire, SUMMARIES["pi"]), *kept]
    await client.ask("And on.")
    assert "Compacted: " not in text_of(client.provider.last)
    assert [said in text_of(client.provider.last) for said in ("All went well.", "Go on.", "And on.")] == [True] * 3


async def test_a_clients_summary_is_not_compacted_again_before_the_limit_is_reached_anew(tk: Threadkeep) -> None:
    """With automatic compaction on, the first turns after the client's own compaction make no checkpoint."""
    client = talk(tk, "messages", rules=Rules(auto_compact="on"), x_session_id="ses_1")
    await worked(client)
    made = await checkpoints(tk)
    client.history = [person("messages", SUMMARIES["claude"])]
    await client.ask("Go on.")
    await client.ask("And on.")
    assert await checkpoints(tk) == made + 1
