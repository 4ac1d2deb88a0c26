"""Rules 10 to 14 and 20 to 22: what providers insist on once a history is no longer the one they saw."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.doubles.prefix_growth import prefix_faults
from tests.doubles.provider_rules import BINDING_BETA, count_markers
from tests.doubles.script import call, reasoning, say
from tests.doubles.wires import Spoken
from tests.gateway.client import WIRES, Client, Provider, RefusedByProvider, outputs_of, person, records, talk, text_of, threads

from threadkeep import Config, Threadkeep
from threadkeep.dialects import Request, find_dialect
from threadkeep.dialects.messages.markers import limit_markers
from threadkeep.gateway.conversation.proxy_interface import Forward
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.store import RecordKind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.doubles.script import Received
    from tests.doubles.wires import WireName

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

LONG = "The build log follows for reference. " * 60
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
EPHEMERAL = {"cache_control": {"type": "ephemeral"}}
NOTHING_SPOKEN = Spoken(before=(), ending=b"", whole={})


def thinking(tk: Threadkeep, rules: Rules) -> Client:
    """Return a conversation with a model that signs what it thinks and binds it to everything before."""
    client = talk(tk, "messages", rules=rules)
    client.fields = dict(THINKING)
    return client


def thoughts(history: list[Json]) -> int:
    return text_of(history).count('"type": "thinking"')


async def test_rule_11_thinking_of_turns_that_are_over_is_stripped_from_a_rewritten_window(tk: Threadkeep) -> None:
    """The provider binds it to the old history and would refuse; what it thinks from then on stays."""
    client = thinking(tk, Rules())
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}", say("fine", encrypted_reasoning=f"thought {turn}"))
    assert thoughts(client.provider.last) == 3
    await client.ask("/compact")
    await client.ask("Go on.", say("well", encrypted_reasoning="new thought"))
    assert thoughts(client.provider.last) == 0
    await client.ask("And on.", say("well", encrypted_reasoning="newer thought"))
    assert thoughts(client.provider.last) == 1
    await client.ask("And on.")
    assert thoughts(client.provider.last) == 2
    assert prefix_faults(client.provider.requests) == []


async def looped(client: Client, steps: int, *, reminded: bool = False) -> None:
    """Run a tool loop of so many steps in which the model thinks before every call; its host may remind it behind each output."""
    await client.ask("Check all files.", call("bash", {"command": "0"}, call_id="c0", encrypted_reasoning="why 0"))
    for number in range(steps):
        reply = call("bash", {"command": f"{number + 1}"}, call_id=f"c{number + 1}", encrypted_reasoning=f"why {number + 1}")
        client.history.extend(outputs_of("messages", {f"c{number}": f"file {number} " + "is fine " * 80}))
        if reminded:
            client.history.append({"role": "system", "content": f"The user has waited for {number} minutes."})
        await client.send(reply)


@pytest.mark.parametrize("reminded", [False, True])
@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-4-5", "claude-of-tomorrow"])
async def test_rule_11_a_running_tool_loop_is_compacted_at_the_limit(store_file: Path, model: str, *, reminded: bool) -> None:
    """Thinking never holds a compaction up: every request fits, none is refused, each checkpoint moves the prefix once."""
    async with Threadkeep(Config(store=str(store_file), model_context_window=6_000)) as tk:
        client = thinking(tk, Rules(auto_compact="on"))
        client.fields["model"] = model
        for turn in range(3):
            await client.ask(f"Step {turn}.", say("fine", encrypted_reasoning=f"thought {turn}"))
        await looped(client, 100, reminded=reminded)
        await client.tool({"c100": "done"}, say("All are fine."))
        await client.ask("What next?", say("Nothing.", encrypted_reasoning="rest"))
        await client.ask("Sure?")
    requests = client.provider.requests
    assert max(len(request.raw) // 4 for request in requests) <= 6_000
    assert len(states(requests)) >= 3
    assert prefix_faults(requests) == []
    assert changes([json.dumps(request.body["thinking"]) for request in requests]) <= 1
    binding = {"prefix_mismatch_behavior": "drop_block"}
    assert requests[-1].body["thinking"].get("block_binding") == (None if "sonnet-4" in model else binding)
    assert "Check all files." in text_of(requests[-3].history)


async def test_rule_11_the_thinking_of_turns_that_are_over_is_stripped_beside_a_running_loop(tk: Threadkeep) -> None:
    """Only the loop's own thinking goes along, with the request to drop what does not fit."""
    client = thinking(tk, Rules(auto_compact="on"))
    await client.ask("Begin.", say("fine", encrypted_reasoning="x"))
    await client.ask("Check it.", call("bash", {"command": "0"}, call_id="c0", encrypted_reasoning="why"))
    await client.tool({"c0": LONG}, call("bash", {"command": "1"}, call_id="c1", encrypted_reasoning="why else"))
    [thread] = await threads(tk)
    await thread.compact(target="400")
    await client.tool({"c1": "fine"}, say("Done.", encrypted_reasoning="so"))
    assert "session_compact_state" in text_of(client.provider.last)
    assert thoughts(client.provider.last) == 2
    await client.ask("Thanks.")
    assert thoughts(client.provider.last) == 3


async def test_rule_11_a_loop_that_was_cut_off_keeps_its_thinking(tk: Threadkeep) -> None:
    """Told to go on, the model is told so in the message that holds the last output, and its loop goes on."""
    client = thinking(tk, Rules(auto_compact="on"))
    await looped(client, 30)
    client.history.extend(outputs_of("messages", {"c30": "fine"}))
    await client.ask("You were cut off. Go on.", call("bash", {"command": "31"}, call_id="c31", encrypted_reasoning="why 31"))
    [thread] = await threads(tk)
    await thread.compact(target="1200")
    await client.tool({"c31": "fine"}, say("Done.", encrypted_reasoning="so"))
    last = text_of(client.provider.last)
    assert "session_compact_state" in last
    assert 1 < thoughts(client.provider.last) == last.count('"tool_use"') < 30


async def test_rule_11_without_thinking_asked_for_all_of_it_is_stripped(tk: Threadkeep) -> None:
    """A client that switched thinking off in a loop has no field to ask in, and no need to."""
    client = thinking(tk, Rules(auto_compact="on"))
    await looped(client, 2)
    del client.fields["thinking"]
    [thread] = await threads(tk)
    await thread.compact(target="400")
    await client.tool({"c2": "fine"}, say("Done."))
    assert thoughts(client.provider.last) == 0


def states(requests: list[Received]) -> set[str]:
    """Return every session state among these requests."""
    texts = (text_of(request.history) for request in requests)
    return {
        text.split("<session_compact_state>")[1].split("</session_compact_state>")[0] for text in texts if "<session_" in text
    }


def changes(values: list[str]) -> int:
    return sum(1 for one, other in pairwise(values) if one != other)


async def test_rule_11_with_drop_block_a_running_loop_compacts_at_once(tk: Threadkeep) -> None:
    """The provider is asked to drop what no longer fits, with the header that allows it, and never refuses."""
    client = thinking(tk, Rules(auto_compact="on", thinking="drop_block"))
    client.headers["anthropic-beta"] = "first-beta"
    await client.ask("Check all files.", call("bash", {"command": "0"}, call_id="c0", encrypted_reasoning="why 0"))
    for number in range(40):
        reply = call("bash", {"command": f"{number + 1}"}, call_id=f"c{number + 1}", encrypted_reasoning=f"why {number + 1}")
        await client.tool({f"c{number}": f"file {number} " + "is fine " * 80}, reply)
    compacted = [request for request in client.provider.requests if "session_compact_state" in text_of(request.history)]
    assert compacted
    asked = [request for request in compacted if request.body["thinking"].get("block_binding")]
    assert asked
    assert {request.headers["anthropic-beta"] for request in asked} == {f"first-beta,{BINDING_BETA}"}
    assert {json.dumps(request.body["thinking"]) for request in asked} == {
        json.dumps({**THINKING["thinking"], "block_binding": {"prefix_mismatch_behavior": "drop_block"}})
    }


async def test_rule_11_a_fork_before_the_checkpoint_keeps_its_thinking(tk: Threadkeep) -> None:
    """Its history is the one the thinking was bound to."""
    client = thinking(tk, Rules())
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}", say("fine", encrypted_reasoning=f"thought {turn}"))
    await client.ask("/compact")
    await client.ask("Go on.")
    early = client.forked(length=4)
    await early.ask("Another way.")
    assert thoughts(early.provider.last) == 2


async def test_rule_11_a_restart_forgets_nothing_about_bindings(tk: Threadkeep) -> None:
    """Which thinking belongs to the window that is sent is in the store."""
    client = thinking(tk, Rules())
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}", say("fine", encrypted_reasoning=f"thought {turn}"))
    await client.ask("/compact")
    await client.ask("Go on.", say("well", encrypted_reasoning="new thought"))
    client.conversations = talk(tk, "messages").conversations
    await client.ask("And on.")
    assert thoughts(client.provider.last) == 1


async def test_rule_10_the_newest_reasoning_survives_beside_its_item(tk: Threadkeep) -> None:
    """A5: encrypted reasoning is bound to its account, not to its window, and stays with what it led to."""
    client = talk(tk, "responses")
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}", say("fine", encrypted_reasoning=f"SEALED-{turn}"))
    await client.ask("/compact")
    await client.ask("Go on.")
    sealed = [item["encrypted_content"] for item in client.provider.last if item.get("type") == "reasoning"]
    assert sealed[-1:] == ["SEALED-3"]


@pytest.mark.parametrize("wire", ["responses", "messages"])
@pytest.mark.parametrize("change", ["upstream", "key"])
async def test_rule_13_after_a_route_change_nothing_sealed_by_another_account_is_forwarded(
    tk: Threadkeep, wire: WireName, change: str
) -> None:
    """A provider that never issued it accepts the history; what it issues itself comes back to it."""
    client = talk(tk, wire, authorization="Bearer sk-first")
    client.fields = dict(THINKING) if wire == "messages" else {}
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}", say("fine", encrypted_reasoning=f"SEALED-{turn}"))
    await client.ask("/compact")
    await client.ask("Go on.", say("fine", encrypted_reasoning="SEALED-5"))
    moved = client.forked()
    if change == "key":
        moved.headers["authorization"] = "Bearer sk-second"
    else:
        moved.conversations = talk(tk, wire, upstream="https://elsewhere.test").conversations
    moved.provider = Provider(wire)
    await moved.ask("Elsewhere now.", say("fine", encrypted_reasoning="ANEW"))
    assert "SEALED" not in text_of(moved.provider.last)
    assert "session_compact_state" in text_of(moved.provider.last)
    await moved.ask("And on.")
    assert sum(1 for item in moved.provider.last if "ANEW" in text_of([item]) or thoughts([item])) == 1
    assert not any(b"sk-" in record.body for each in await records(tk) for record in each)


async def test_rule_13_a_renewed_token_is_the_same_account(tk: Threadkeep) -> None:
    """A token that changes by the hour costs no reasoning and no checkpoint."""
    client = talk(tk, "responses", authorization="Bearer eyJ.first", chatgpt_account_id="acct")
    await client.ask("Begin.", say("fine", encrypted_reasoning="SEALED"))
    client.headers["authorization"] = "Bearer eyJ.second"
    await client.ask("Go on.")
    assert client.provider.requests[-1].raw == client.forked(length=-1).body()


@pytest.mark.moves_prefix(reason="the client moves to another account")
async def test_rule_13_a_foreign_compaction_item_is_said_to_be_unreadable(tk: Threadkeep) -> None:
    """It stands for a history; leaving it out in silence would hide that there was one."""
    client = talk(tk, "responses", authorization="Bearer sk-first")
    client.history = [{"type": "compaction", "id": "cmp_1", "encrypted_content": "OPAQUE"}]
    client.provider.rules.issue([{"encrypted_content": "OPAQUE"}], NOTHING_SPOKEN)
    await client.ask("Go on.")
    assert client.provider.last[0]["encrypted_content"] == "OPAQUE"
    client.headers["authorization"] = "Bearer sk-second"
    client.provider = Provider("responses")
    await client.ask("Elsewhere.")
    assert "OPAQUE" not in text_of(client.provider.last)
    assert "cannot be read here" in text_of(client.provider.last)


@pytest.mark.parametrize("markers", [1, 2, 3])
async def test_rule_20_a_free_cache_marker_stands_on_the_checkpoint(tk: Threadkeep, markers: int) -> None:
    """Never more than four, the client's own where they were, one at the end of what the checkpoint laid out."""
    client = talk(tk, "messages")
    client.fields = {"system": [{"type": "text", "text": f"s{number}", **EPHEMERAL} for number in range(markers)]}
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    client.history.append({"role": "user", "content": [{"type": "text", "text": "Go on.", **EPHEMERAL}]})
    await client.send(say("fine"))
    sent = client.provider.requests[-1].body
    assert count_markers(sent) == min(4, markers + 2)
    marked = [message for message in sent["messages"] if count_markers(message)]
    assert ("session_compact_state" in text_of(marked[:1])) == (markers < 3)
    assert count_markers(marked[-1]) >= 1


async def test_rule_20_beside_markers_that_live_longer_none_is_set(tk: Threadkeep) -> None:
    """A marker for an hour may not follow one for minutes."""
    client = talk(tk, "messages")
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    client.history.append({"role": "user", "content": [{"type": "text", "text": "Go on.", **hour}]})
    await client.send(say("fine"))
    assert count_markers(client.provider.requests[-1].body) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_rule_21_roles_alternate_through_compactions(tk: Threadkeep, wire: WireName) -> None:
    """The strictest provider accepts every window: messages of the same role are merged where parts meet."""
    client = talk(tk, wire, rules=Rules(auto_compact="on"), alternating=True)
    for turn in range(10):
        await client.ask(f"Step {turn}. {LONG}", call("bash", {"command": "ls"}, call_id=f"c{turn}"))
        await client.tool({f"c{turn}": "README " * 20}, say("fine"))
    assert any("session_compact_state" in text_of(request.history) for request in client.provider.requests)


async def test_rule_21_what_a_client_puts_together_itself_stays_apart(tk: Threadkeep) -> None:
    """Only messages that a checkpoint made neighbours are merged, part by part."""
    client = talk(tk, "responses")
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    client.history.append(person("responses", "The world changed."))
    await client.ask("Go on.")
    assert client.provider.last[-2:] == [person("responses", "The world changed."), person("responses", "Go on.")]
    [merged] = [item for item in client.provider.last if "session_compact_state" in text_of([item])]
    assert len(merged["content"]) > 1


async def test_rule_21_models_that_take_neighbours_get_each_message_by_itself(tk: Threadkeep) -> None:
    """OpenAI's own do, and what a client's history holds stays as it is."""
    client = talk(tk, "responses")
    client.fields = {"model": "gpt-5.1"}
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    await client.ask("Go on.")
    assert {len(item["content"]) for item in client.provider.last} == {1}


@pytest.mark.parametrize("wire", WIRES)
async def test_rule_14_the_clients_cache_key_is_never_touched(tk: Threadkeep, wire: WireName) -> None:
    """A7, A8: the same key before, in and after a compaction and after a restart; a fork keeps its own."""
    client = talk(tk, wire, rules=Rules(derives_cache_key=True))
    client.fields = {"prompt_cache_key": "ses_1"}
    for turn in range(4):
        await client.ask(f"Step {turn}. {LONG}")
    await client.ask("/compact")
    await client.ask("Go on.")
    client.conversations = talk(tk, wire).conversations
    await client.ask("And on.")
    fork = client.forked()
    fork.fields = {"prompt_cache_key": "ses_2"}
    await fork.ask("And on.")
    keys = [request.body["prompt_cache_key"] for request in client.provider.requests]
    assert keys == ["ses_1"] * 6 + ["ses_2"]
    states = [text_of(request.history[:2]) for request in client.provider.requests[-2:]]
    assert states[0] == states[1]


@pytest.mark.parametrize("wire", WIRES)
async def test_rule_14_a_missing_key_is_added_only_where_that_is_wanted(tk: Threadkeep, wire: WireName) -> None:
    """It is the conversation's own: one for all its requests and its forks, another for another; none by default."""
    plain = talk(tk, wire)
    await plain.ask("Begin.")
    assert "prompt_cache_key" not in plain.provider.requests[0].body
    client = talk(tk, wire, rules=Rules(derives_cache_key=True))
    await client.ask("Begin here.")
    await client.ask("Go on.")
    await client.forked(length=2).ask("Another way.")
    await client.forked(length=0).ask("Something else.")
    keys = [request.body.get("prompt_cache_key") for request in client.provider.requests]
    assert len(set(keys[:3])) == 1
    assert (keys[0] != keys[3]) == (wire in ("responses", "chat"))


@pytest.mark.parametrize("held", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
async def test_rule_22_what_the_provider_holds_passes_unmodified(tk: Threadkeep, held: Json) -> None:
    """Only a part of the history is in it: nothing is recorded, nothing rewritten, a command is the model's."""
    client = talk(tk, "responses", rules=Rules(auto_compact="on"))
    client.fields = held
    client.history = [person("responses", "/compact")]
    decided = await client.open()
    assert isinstance(decided, Forward)
    assert decided.body == client.body()
    assert await records(tk) == []


@pytest.mark.moves_prefix(reason="the provider compacts, and the client sends what it made of the history")
async def test_rule_22_a_providers_compaction_item_is_opaque_and_stays(tk: Threadkeep) -> None:
    """It is sent as it came, before and behind it stands what the client put there."""
    client = talk(tk, "responses")
    client.history = [person("responses", "kept"), {"type": "compaction", "id": "c", "encrypted_content": "OPAQUE"}]
    client.provider.rules.issue([{"encrypted_content": "OPAQUE"}], NOTHING_SPOKEN)
    await client.ask("Go on.")
    await client.ask("And on.")
    assert client.provider.requests[-1].raw == client.forked(length=-1).body()


@pytest.mark.moves_prefix(reason="the client spells its history anew")
async def test_rule_4_what_clients_respell_is_the_same_history(tk: Threadkeep) -> None:
    """Moved markers, strings for lists, another attribution line and date: one thread, and the client's bytes upstream."""
    client = talk(tk, "messages")
    client.fields = {"system": [{"type": "text", "text": "x-anthropic-billing-header: a1b; 2026-01-01"}]}
    client.history = [{"role": "user", "content": [{"type": "text", "text": "Begin.", **EPHEMERAL}]}]
    await client.send(say("fine"))
    client.history[0] = {"content": "Begin.", "role": "user"}
    client.fields = {"system": [{"type": "text", "text": "x-anthropic-billing-header: 5be; 2026-01-02"}]}
    await client.ask("Go on.")
    assert client.provider.requests[-1].raw == client.forked(length=-1).body()
    [kept] = await records(tk)
    assert [record.kind for record in kept].count(RecordKind.ITEM) == 3
    changed = client.forked()
    changed.history[0] = {"content": "Begin!", "role": "user"}
    await changed.ask("And on.")
    assert len(await records(tk)) == 2


async def test_the_provider_double_refuses_what_these_rules_prevent(tk: Threadkeep) -> None:
    """Foreign reasoning is refused by it: the tests above could fail."""
    client = talk(tk, "responses")
    client.history = [person("responses", "hi"), reasoning("FOREIGN") | {"id": "rs"}, {"role": "assistant", "content": "ho"}]
    with pytest.raises(RefusedByProvider):
        await client.ask("Go on.")


def test_a_request_of_recorded_items_keeps_its_newest_markers_alone() -> None:
    """A client moves its markers along; each stands on its item as it was recorded, and a provider takes four."""
    messages = find_dialect("messages")
    marked = {"type": "text", "text": "Go on.", "cache_control": {"type": "ephemeral"}}
    items = [messages.parse({"role": "user", "content": [marked]}) for _ in range(6)]
    request = Request(fields={"system": json.dumps([marked]).encode()}, head=(), items=())
    bound = limit_markers(items, request)
    assert [count_markers(json.loads(item.raw)) for item in bound] == [0, 0, 0, 1, 1, 1]
    assert bound[3:] == items[3:]
